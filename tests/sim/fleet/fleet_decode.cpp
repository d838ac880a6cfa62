// KV of a rank at any clock: what it had at 0 and what its requests gained since. Decode that says
// nothing of drafts verifies all of them.
#include "tests/sim/fleet/fleet_decode.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "schemas/check.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kThousand = 1'000;
constexpr std::int64_t kMostRows = 1 + kMostDrafts;

}  // namespace

FleetDecode::FleetDecode(const fleet::Fleet& fleet, const DraftSource* drafts, std::uint64_t seed)
    : step_ns_(fleet.decode().step_us() * 1'000),
      request_ns_(fleet.decode().request_ns()),
      token_fs_(fleet.decode().token_fs()),
      advance_(std::llround(fleet.decode().tokens_per_step() * kThousand)),
      moe_lb_(fleet.decode().moe_lb()),
      verify_options_(fleet.verify()),
      blocks_(fleet.decode().kv_tokens() / kBlockTokens),
      ranks_(static_cast<std::size_t>(fleet.decode().ranks())),
      rank_ns_(ranks_.size()),
      requests_(ranks_.size()) {
  if (drafts != nullptr) {
    verify_.emplace(fleet.verify(), fleet.decode(), drafts->reseeded(seed));
  }
  if (!fleet.experts().policy().empty()) {
    experts_.emplace(fleet.experts(), fleet.decode().ranks(), seed);
  }
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

void FleetDecode::take_ready() {
  for (const std::uint64_t request : std::exchange(ready_, {})) {
    const auto entry = jobs_.find(request);
    if (entry == jobs_.end() || !entry->second.ready || entry->second.running) {
      continue;
    }
    Job& job = entry->second;
    Rank& rank = ranks_[job.what.rank];
    job.running = true;
    job.ends_at = rank.clock + job.what.left * kThousand;
    rank.ends.emplace(job.ends_at, request);
    ++rank.running;
    rank.base += job.what.kv_tokens * kThousand - rank.clock;
    ++active_;
  }
}

std::optional<Nanos> FleetDecode::begin(Nanos now) {
  if (stepping_ || now < still_until_) {
    return std::nullopt;
  }
  take_ready();
  if (active_ == 0) {
    return std::nullopt;
  }
  stepping_ = true;
  const Nanos time = verify_ ? time_verified_step() : time_step();
  for (const Rank& rank : ranks_) {
    request_steps_ += rank.running * kThousand;
    gained_ += rank.running * rank.gain;
  }
  longest_ += static_cast<double>(*std::max_element(rank_ns_.begin(), rank_ns_.end()));
  mean_ += static_cast<double>(std::accumulate(rank_ns_.begin(), rank_ns_.end(), std::int64_t{0})) /
           static_cast<double>(ranks_.size());
  return time;
}

double FleetDecode::moe_factor(std::int64_t rows) {
  return experts_ ? experts_->step(rows) : moe_lb_;
}

Nanos FleetDecode::time_step() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.gain = advance_;
    rank_ns_[r] = request_ns_ * rank.running + kv_of(rank) * token_fs_ / 1'000'000;
  }
  verified_ += active_ * kMostRows * kThousand;
  const std::int64_t longest = *std::max_element(rank_ns_.begin(), rank_ns_.end());
  const double factor = moe_factor(active_ * kMostRows);
  return Nanos{step_ns_ + std::llround(static_cast<double>(longest) * factor)};
}

Nanos FleetDecode::time_verified_step() {
  std::int64_t most_attention = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    requests_[r] = ranks_[r].running;
    rank_ns_[r] = kv_of(ranks_[r]) * token_fs_ / 1'000'000;
    most_attention = std::max(most_attention, rank_ns_[r]);
  }
  const auto verified = verify_->step(requests_, Nanos{step_ns_ + most_attention});
  const auto row_ns = static_cast<double>(verify_options_.row_ns());
  std::int64_t rows = 0;  // in thousandths
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::int64_t own = verified[r].rows * requests_[r];
    ranks_[r].gain = verified[r].gain;
    rank_ns_[r] +=
        std::llround(row_ns * verify_options_.rank_share() * static_cast<double>(own) / kThousand);
    rows += own;
  }
  verified_ += rows;
  const double experts_ns = row_ns * (1 - verify_options_.rank_share()) *
                            static_cast<double>(rows) / kThousand /
                            static_cast<double>(ranks_.size());
  return Nanos{step_ns_ + *std::max_element(rank_ns_.begin(), rank_ns_.end()) +
               std::llround(experts_ns * moe_factor(rows / kThousand))};
}

std::vector<std::uint64_t> FleetDecode::end() {
  stepping_ = false;
  std::vector<std::uint64_t> finished;
  for (Rank& rank : ranks_) {
    rank.clock += rank.gain;
    end_rank(rank, finished);
  }
  return finished;
}

void FleetDecode::end_rank(Rank& rank, std::vector<std::uint64_t>& finished) {
  while (!rank.ends.empty() && rank.ends.top().first <= rank.clock) {
    const auto [at, request] = rank.ends.top();
    rank.ends.pop();
    const auto job = jobs_.find(request);
    if (job != jobs_.end() && job->second.running && job->second.ends_at == at &&
        &ranks_[job->second.what.rank] == &rank) {
      forget(job);
      finished.push_back(request);
    }
  }
}

std::int64_t FleetDecode::given(const Job& job) const {
  const std::int64_t clock = ranks_[job.what.rank].clock;
  return job.running ? job.what.left - (job.ends_at - clock) / kThousand : 0;
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
    ranks.push_back({.alive = is_open_ && (rank.up || !rank.noticed),
                     .device = first_device + static_cast<std::uint32_t>(r),
                     .live = rank.placed,
                     .kv_tokens = std::max(rank.placed_tokens, kv_of(rank)),
                     .room = {.blocks = rank.free_blocks, .sequences = 1 << 20},
                     .blocks = blocks_});
  }
}

}  // namespace shoal::sim
