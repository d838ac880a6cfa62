// Which requests of the node stand behind the ids that a client was told.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/ids.h"

namespace shoal {

// Of the newest answers; any thread. A tenant finds its own ones only.
class RequestNames {
 public:
  explicit RequestNames(std::size_t answers) : answers_(answers) {}

  // `names`: the id in the answer's body and the one in its head. A name that comes again means the
  // newer answer.
  void remember(const std::string& tenant,
                const std::vector<std::string>& names,
                const std::vector<RequestId>& choices);
  // One a choice; empty when nothing of that tenant has the name.
  std::vector<RequestId> find(const std::string& tenant, std::string_view name) const;

 private:
  using Key = std::pair<std::string, std::string>;  // tenant and name

  std::size_t answers_;
  mutable std::mutex mutex_;
  std::map<Key, std::vector<RequestId>> choices_;
  std::deque<std::pair<std::vector<Key>, std::vector<RequestId>>> order_;
};

}  // namespace shoal
