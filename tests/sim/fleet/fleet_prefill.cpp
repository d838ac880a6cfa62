// Requests reach the schedule when their KV is there.
#include "tests/sim/fleet/fleet_prefill.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/sim/fleet/prefill_load.h"

namespace shoal::sim {
namespace {

using std::chrono::microseconds;

constexpr KvRoom kAmple{.blocks = 1 << 30, .sequences = 1 << 30};

}  // namespace

FleetPrefill::FleetPrefill(const fleet::Prefill& options)
    : cost_({.step = microseconds(options.step_us()),
             .row_ps = options.row_ns() * 1'000,
             .pair_fs = options.pair_fs()}),
      coefficients_{.step = microseconds(options.step_us())},
      limits_{.quota = microseconds(options.quota_us()),
              .kv_patience = std::chrono::hours(1),
              .least_quota = microseconds(std::min(options.least_quota_us(), options.quota_us()))},
      ranks_(static_cast<std::size_t>(options.ranks())),
      schedule_(cost_, limits_) {}

void FleetPrefill::wait(const FleetPrefillJob& job) {
  waiting_[job.request] = job;
}

void FleetPrefill::load(std::uint64_t request, Nanos now) {
  const auto entry = waiting_.find(request);
  if (entry == waiting_.end() || !up_) {
    return;
  }
  const FleetPrefillJob& waiting = entry->second;
  const Position total = waiting.hit + waiting.rows;
  PrefillJob job;
  job.request = RequestId{request};
  job.attempt = AttemptId{1};
  job.length_class = waiting.length_class;
  job.span = {.prompt = total, .total = total, .mode = BasisMode::kExact, .reuse = {}};
  job.done = waiting.hit;
  job.work = waiting.predicted;
  job.arrived = Instant(now);
  job.deadline = waiting.deadline;
  schedule_.add(job);
  held_.insert(request);
  waiting_.erase(entry);
}

std::optional<Nanos> FleetPrefill::begin(Nanos now) {
  if (running_ || !up_) {
    return std::nullopt;
  }
  const std::vector<PrefillRank> ranks(ranks_, {true, kAmple});
  const auto chunks = schedule_.plan(ranks, Instant(now));
  if (chunks.empty()) {
    return std::nullopt;
  }
  std::vector<Nanos> load(ranks_);
  for (const PrefillChunk& chunk : chunks) {
    load[chunk.rank] += chunk.cost;
    if (schedule_.finish_chunk(chunk.request, chunk.attempt, chunk.rows)) {
      finishing_.push_back(chunk.request.value);
    }
  }
  const Nanos longest = *std::max_element(load.begin(), load.end());
  const Nanos sum = std::accumulate(load.begin(), load.end(), Nanos{0});
  longest_ += static_cast<double>(longest.count());
  mean_ += static_cast<double>(sum.count()) / static_cast<double>(ranks_);
  busy_ += sum.count();
  running_ = true;
  step_ends_ = now + coefficients_.step + longest;
  return step_ends_ - now;
}

std::vector<std::uint64_t> FleetPrefill::end() {
  running_ = false;
  for (const std::uint64_t request : finishing_) {
    held_.erase(request);
  }
  return std::exchange(finishing_, {});
}

void FleetPrefill::fail() {
  finishing_.clear();
  schedule_ = PrefillSchedule(cost_, limits_);
  running_ = false;
  up_ = false;
  ++version_;
}

std::vector<std::uint64_t> FleetPrefill::take_lost() {
  std::vector<std::uint64_t> lost(held_.begin(), held_.end());
  for (const auto& [request, job] : waiting_) {
    lost.push_back(request);
  }
  waiting_.clear();
  held_.clear();
  return lost;
}

PrefillReport FleetPrefill::describe() const {
  PrefillBacklog backlog = schedule_.backlog();
  PrefillReport report;
  report.state.alive = up_ && is_open_;
  report.state.queued = backlog.queued;
  report.state.requests = static_cast<std::int64_t>(schedule_.size() + waiting_.size());
  for (const auto& [request, job] : waiting_) {
    report.state.queued[static_cast<std::size_t>(job.length_class)] += job.predicted;
  }
  report.ranks = std::move(backlog.ranks);
  report.ranks.resize(ranks_);
  report.step_ends = running_ ? step_ends_ : Nanos{0};
  return report;
}

}  // namespace shoal::sim
