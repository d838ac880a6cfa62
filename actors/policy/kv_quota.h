// How much each tenant may add to the KV store, so that one does not drive out the blocks of all
// others.
#pragma once

#include <cstddef>
#include <map>

#include "schemas/block_key.h"
#include "schemas/units.h"

namespace shoal {

struct KvQuotaLimits {
  Bytes bytes{0};  // within a window; 0: no limit
  Nanos window = std::chrono::hours(1);
  std::size_t tenants = 4096;  // known at a time
};

class KvQuota {
 public:
  explicit KvQuota(const KvQuotaLimits& limits) : limits_(limits) {}

  // False: the tenant has had its share of this window. When more tenants write than are known,
  // those beyond share what one of them may have.
  bool take(const BlockKey& tenant, Bytes bytes, Instant now);

 private:
  struct Share {
    Instant begin;
    Bytes taken{0};
  };

  void forget_past(Instant now);

  KvQuotaLimits limits_;
  std::map<BlockKey, Share> shares_;  // by the root of the tenant's chains
};

}  // namespace shoal
