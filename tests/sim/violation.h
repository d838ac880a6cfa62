// An invariant that did not hold.
#pragma once

#include <string>
#include <vector>

namespace shoal::sim {

struct Violation {
  std::string invariant;  // its name
  std::string what;
  std::vector<std::string>
      timeline;  // of the offending request and of the world, each line after its ms
};

}  // namespace shoal::sim
