// A block store whose medium may be away: when it is opened, or later, as a directory that somebody
// removed.
//
// Meanwhile nothing is found and what is asked is refused at once (kUnavailable, why); it is opened
// again in the background, each try a call of `open`, which has a deadline of its own, with pauses
// that double. From then on it is used. Counts of Use go on over all openings.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "schemas/result.h"
#include "transport/block_store.h"

namespace shoal::transport {

struct PatientParams {
  // Every time with a writer of its own. Also on another thread, and there perhaps still when the
  // store is gone.
  std::function<Result<std::unique_ptr<BlockStore>>()> open;
  // Why it is away from now on; empty: it is back. On the opening thread, one at a time.
  std::function<void(const std::string& why)> told = [](const std::string&) {};
  Nanos first_pause = std::chrono::seconds(1);
  Nanos longest_pause = std::chrono::seconds(30);
  Nanos look = std::chrono::seconds(1);  // how often one that is open is asked whether it still is
};

// kMisconfigured, from the first try alone: waiting would not help.
Result<std::unique_ptr<BlockStore>> open_patient_store(PatientParams params);

}  // namespace shoal::transport
