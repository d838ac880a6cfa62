// Sequences that leave a worker for another process: copied out of the device, and on offer until
// another rank has them. One worker's thread, except where a function says otherwise.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "actors/buffer_offer.h"
#include "actors/context.h"
#include "actors/interfaces.h"

namespace shoal {

class Departures {
 public:
  // Called on the launch thread.
  using Tell = std::function<void(KvExported)>;

  // They are work that a drain of the node waits for.
  void count_as_open(ContextPtr node) { open_.start(std::move(node)); }

  // Copies it out behind what runs on `queue`, under a buffer of its own; the lease rides with the
  // copy and comes back with what `tell` gets.
  void copy_out(const PartSeat& seat, kernels::Queue queue, Handover handover, Tell tell);

  // What `tell` got: puts it on offer. Nothing: released meanwhile. An error: it cannot be fetched.
  std::optional<Result<void>> offer(const PartSeat& seat, const KvExported& message);

  void release(const AttemptKey& key);

  // Another rank has it. A later departure of the same attempt stays.
  void release(const AttemptKey& key, BufferKey buffer);
  // Nobody is left who would release it.
  void lose_routers(const Wiring& before, const Wiring& now);
  void expire(Instant now);

  // On the device, awaited or not.
  bool is_copying() const { return copying_ > 0; }

 private:
  struct Leaving {
    SubmissionPtr submission;
    NodeId router;
    BufferKey buffer;
    std::unique_ptr<BufferOffer> offer;  // null: it is being copied out
  };

  std::map<AttemptKey, Leaving> leaving_;
  std::size_t copying_ = 0;
  OpenCount open_;
};

}  // namespace shoal
