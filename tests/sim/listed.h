// Names in a row, for messages that say what there is.
#pragma once

#include <string>
#include <vector>

namespace shoal::sim {

inline std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

}  // namespace shoal::sim
