// The one record that all nodes must agree on (epoch, members, owner), behind a compare-and-swap.
//
// Threads: calls from any thread, callbacks on the row's own thread, exactly once, by the deadline.
// Errors: kUnavailable or kDeadline (the store does not answer: nothing may be published), kCorrupt
// (what is stored is not a record).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::transport {

struct ClusterRecord {
  std::uint64_t version = 0;  // 0: nothing was ever written
  std::string bytes;
};

class ClusterStore {
 public:
  using Read = std::function<void(Result<ClusterRecord>)>;
  // The new version; nothing: somebody else wrote first, read again.
  using Written = std::function<void(Result<std::optional<std::uint64_t>>)>;

  virtual ~ClusterStore() = default;

  virtual void read(Instant deadline, Read done) = 0;
  // Writes only if the record still has `expected`; durable before it is called back.
  virtual void compare_and_swap(std::uint64_t expected,
                                std::string bytes,
                                Instant deadline,
                                Written done) = 0;
};

}  // namespace shoal::transport
