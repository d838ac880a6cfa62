// By counts that only grow.
#include "actors/kv_damage.h"

namespace shoal {
namespace {

constexpr Nanos kTellPause = std::chrono::seconds(5);

}  // namespace

bool KvDamage::see(const transport::BlockStore::Use& use, Instant now) {
  if (use.corrupt > records_) {
    records_ = use.corrupt;
    until_ = now + kShown;
  }
  if (use.corrupt + use.broken <= told_ || now - told_at_ < kTellPause) {
    return false;
  }
  told_ = use.corrupt + use.broken;
  told_at_ = now;
  return true;
}

std::string KvDamage::trouble(Instant now) const {
  if (now >= until_) {
    return {};
  }
  return "the KV store has damage: " + std::to_string(records_) +
         " times it met a record or segment that does not verify, the last less than a minute ago; "
         "those are misses, `shoal kv verify` names them and `shoal kv scrub` takes them out: is "
         "its disk healthy?";
}

}  // namespace shoal
