// Forgets the oldest answer's names when there are too many.
#include "actors/http_names.h"

namespace shoal {

void RequestNames::remember(const std::string& tenant,
                            const std::vector<std::string>& names,
                            const std::vector<RequestId>& choices) {
  const std::lock_guard lock(mutex_);
  if (answers_ == 0)
    return;
  if (order_.size() == answers_) {
    for (const Key& key : order_.front().first) {
      const auto found = choices_.find(key);
      // Else a newer answer took the name over.
      if (found != choices_.end() && found->second == order_.front().second)
        choices_.erase(found);
    }
    order_.pop_front();
  }
  std::vector<Key> keys;
  for (const std::string& name : names) {
    keys.emplace_back(tenant, name);
    choices_[keys.back()] = choices;
  }
  order_.emplace_back(std::move(keys), choices);
}

std::vector<RequestId> RequestNames::find(const std::string& tenant, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find({tenant, std::string(name)});
  return found == choices_.end() ? std::vector<RequestId>{} : found->second;
}

}  // namespace shoal
