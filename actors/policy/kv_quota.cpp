// A window per tenant, from its first write on.
#include "actors/policy/kv_quota.h"

namespace shoal {

bool KvQuota::take(const BlockKey& tenant, Bytes bytes, Instant now) {
  if (limits_.bytes.value == 0) {
    return true;
  }
  const bool is_known = shares_.count(tenant) != 0;
  if (!is_known && shares_.size() >= limits_.tenants) {
    forget_past(now);
  }
  const bool has_room = is_known || shares_.size() < limits_.tenants;
  Share& share = shares_.try_emplace(has_room ? tenant : BlockKey{}, Share{now}).first->second;
  if (now - share.begin >= limits_.window) {
    share = Share{now};
  }
  if (share.taken.value + bytes.value > limits_.bytes.value) {
    return false;
  }
  share.taken.value += bytes.value;
  return true;
}

void KvQuota::forget_past(Instant now) {
  std::erase_if(shares_, [this, now](const auto& share) {
    return now - share.second.begin >= limits_.window;
  });
}

}  // namespace shoal
