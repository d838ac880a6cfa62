// KV of a rank at any clock: what it had at 0 and what its requests gained since.
#include "tests/sim/fleet/fleet_decode.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schemas/check.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kThousand = 1'000;

}  // namespace

FleetDecode::FleetDecode(const fleet::Decode& options)
    : step_ns_(options.step_us() * 1'000),
      request_ns_(options.request_ns()),
      token_fs_(options.token_fs()),
      advance_(std::llround(options.tokens_per_step() * kThousand)),
      moe_lb_(options.moe_lb()),
      blocks_(options.kv_tokens() / kBlockTokens),
      ranks_(static_cast<std::size_t>(options.ranks())),
      rank_ns_(ranks_.size()) {
  for (Rank& rank : ranks_) {
    rank.free_blocks = blocks_;
  }
}

void FleetDecode::reserve(const FleetDecodeJob& job) {
  Rank& rank = ranks_.at(job.rank);
  rank.free_blocks -= job.blocks;
  ++rank.placed;
  rank.placed_tokens += job.kv_tokens;
  jobs_[job.request] = {.what = job};
}

void FleetDecode::join(std::uint64_t request) {
  const auto job = jobs_.find(request);
  if (job != jobs_.end() && ranks_[job->second.what.rank].up) {
    job->second.ready = true;
    ready_.push_back(request);
  }
}

std::optional<Nanos> FleetDecode::begin(Nanos now) {
  if (stepping_ || now < still_until_) {
    return std::nullopt;
  }
  for (const std::uint64_t request : std::exchange(ready_, {})) {
    const auto entry = jobs_.find(request);
    if (entry == jobs_.end() || !entry->second.ready || entry->second.running) {
      continue;
    }
    Job& job = entry->second;
    job.running = true;
    job.ends_at = clock_ + job.what.left * kThousand;
    ends_.emplace(job.ends_at, request);
    Rank& rank = ranks_[job.what.rank];
    ++rank.running;
    rank.base += job.what.kv_tokens * kThousand - clock_;
    ++active_;
  }
  if (active_ == 0) {
    return std::nullopt;
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::int64_t kv = (ranks_[r].base + ranks_[r].running * clock_) / kThousand;
    rank_ns_[r] = request_ns_ * ranks_[r].running + kv * token_fs_ / 1'000'000;
  }
  const std::int64_t longest = *std::max_element(rank_ns_.begin(), rank_ns_.end());
  longest_ += static_cast<double>(longest);
  mean_ += static_cast<double>(std::accumulate(rank_ns_.begin(), rank_ns_.end(), std::int64_t{0})) /
           static_cast<double>(ranks_.size());
  stepping_ = true;
  return Nanos{step_ns_ + std::llround(static_cast<double>(longest) * moe_lb_)};
}

std::vector<std::uint64_t> FleetDecode::end() {
  stepping_ = false;
  clock_ += advance_;
  std::vector<std::uint64_t> finished;
  while (!ends_.empty() && ends_.top().first <= clock_) {
    const auto [at, request] = ends_.top();
    ends_.pop();
    const auto job = jobs_.find(request);
    if (job != jobs_.end() && job->second.running && job->second.ends_at == at) {
      forget(job);
      finished.push_back(request);
    }
  }
  return finished;
}

std::int64_t FleetDecode::given(const Job& job) const {
  return job.running ? job.what.left - (job.ends_at - clock_) / kThousand : 0;
}

void FleetDecode::forget(std::map<std::uint64_t, Job>::iterator job) {
  Rank& rank = ranks_[job->second.what.rank];
  rank.free_blocks += job->second.what.blocks;
  --rank.placed;
  rank.placed_tokens -= job->second.what.kv_tokens;
  if (job->second.running) {
    --rank.running;
    rank.base -= job->second.what.kv_tokens * kThousand -
                 (job->second.ends_at - job->second.what.left * kThousand);
    --active_;
  }
  jobs_.erase(job);
}

void FleetDecode::fail(std::size_t rank) {
  ranks_.at(rank).up = false;
  ranks_.at(rank).noticed = false;
  stepping_ = false;
  ++version_;
}

void FleetDecode::notice(std::size_t rank) {
  ranks_.at(rank).noticed = true;
}

std::vector<std::pair<std::uint64_t, std::int64_t>> FleetDecode::take_lost() {
  std::vector<std::pair<std::uint64_t, std::int64_t>> lost;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto next = std::next(job);
    if (!ranks_[job->second.what.rank].up) {
      lost.emplace_back(job->first, given(job->second));
      forget(job);
    }
    job = next;
  }
  return lost;
}

void FleetDecode::up(std::size_t rank) {
  ranks_.at(rank).up = true;
}

void FleetDecode::describe(std::vector<DecodeRank>& ranks, std::uint32_t first_device) const {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    const std::int64_t gained = (rank.base + rank.running * clock_) / kThousand;
    ranks.push_back({.alive = rank.up || !rank.noticed,
                     .device = first_device + static_cast<std::uint32_t>(r),
                     .live = rank.placed,
                     .kv_tokens = std::max(rank.placed_tokens, gained),
                     .room = {.blocks = rank.free_blocks, .sequences = 1 << 20},
                     .blocks = blocks_});
  }
}

}  // namespace shoal::sim
