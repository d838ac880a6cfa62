// Blocks by their ids; windows by the last block of the request that left them.
#include "tests/sim/fleet/prefill_load.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "actors/policy/prefill_balancer.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kWindow = 128;
constexpr Nanos kTailLife = std::chrono::seconds(180);
// Requests without a session share blocks at borders of 512 tokens; four of them are a header that
// nearly all requests share, no conversation.
constexpr std::int64_t kBorderBlocks = 4;

class Replay {
 public:
  PrefillRequest take(const TraceRequest& request) {
    const std::int64_t hit = hit_blocks(request);
    const bool replays = hit > 0 && !has_windows(request, hit);
    remember(request);
    PrefillRequest made;
    made.arrival = std::chrono::milliseconds(request.arrival_ms);
    made.hit = hit * kBlockTokens;
    const std::int64_t fresh = request.input_tokens - made.hit;
    made.rows = fresh + (replays ? kWindow : 0);
    const std::int64_t chunks = (fresh + kReferenceChunk - 1) / kReferenceChunk;
    const std::int64_t pairs = fresh * made.hit + fresh * fresh / 2;
    made.work = kReferenceCost.step * chunks + Nanos{made.rows * kReferenceCost.row_ps / 1'000 +
                                                     pairs * kReferenceCost.pair_fs / 1'000'000};
    made.length_class = prefill_class(made.work, kReferenceBounds);
    return made;
  }

 private:
  std::int64_t hit_blocks(const TraceRequest& request) const {
    const std::int64_t most = (request.input_tokens - 1) / kBlockTokens;
    std::int64_t hit = 0;
    for (const BlockRun& run : request.blocks) {
      for (std::int64_t id = run.first; id < run.first + run.count; ++id) {
        if (hit == most || !blocks_.contains(id)) {
          return hit;
        }
        ++hit;
      }
    }
    return hit;
  }

  // The block at `place` of the prompt.
  static std::int64_t block_at(const TraceRequest& request, std::int64_t place) {
    for (const BlockRun& run : request.blocks) {
      if (place < run.count) {
        return run.first + place;
      }
      place -= run.count;
    }
    return -1;
  }

  bool has_windows(const TraceRequest& request, std::int64_t hit) const {
    if (request.session.empty()) {
      const auto last = ended_.find(block_at(request, hit - 1));
      return hit > kBorderBlocks && last != ended_.end() &&
             std::chrono::milliseconds(request.arrival_ms - last->second) <= kTailLife;
    }
    const auto last = sessions_.find(request.session);
    return last != sessions_.end() && last->second == hit && request.think_ms &&
           std::chrono::milliseconds(*request.think_ms) <= kTailLife;
  }

  void remember(const TraceRequest& request) {
    for (const BlockRun& run : request.blocks) {
      for (std::int64_t id = run.first; id < run.first + run.count; ++id) {
        blocks_.insert(id);
      }
    }
    const std::int64_t full = request.input_tokens / kBlockTokens;
    if (!request.session.empty()) {
      sessions_[request.session] = full;
    } else if (full >= kBorderBlocks) {
      ended_[block_at(request, full / kBorderBlocks * kBorderBlocks - 1)] = request.arrival_ms;
    }
  }

  std::unordered_set<std::int64_t> blocks_;
  std::unordered_map<std::string, std::int64_t> sessions_;  // full blocks of its last prompt
  std::unordered_map<std::int64_t, std::int64_t> ended_;    // last block to arrival, ms
};

}  // namespace

std::vector<PrefillRequest> prefill_requests(std::span<const TraceRequest> trace,
                                             Nanos from,
                                             Nanos to) {
  Replay replay;
  std::vector<PrefillRequest> requests;
  for (const TraceRequest& request : trace) {
    PrefillRequest made = replay.take(request);
    if (made.arrival >= from && made.arrival < to) {
      requests.push_back(made);
    }
  }
  if (!requests.empty()) {
    const Nanos first = requests.front().arrival;
    for (PrefillRequest& request : requests) {
      request.arrival -= first;
    }
  }
  return requests;
}

}  // namespace shoal::sim
