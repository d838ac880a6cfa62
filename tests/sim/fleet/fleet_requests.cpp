// A request's way through prefill and decode.
#include <algorithm>
#include <cmath>

#include "actors/policy/kv_reuse.h"
#include "actors/policy/prefill_balancer.h"
#include "tests/sim/fleet/fleet_run.h"

namespace shoal::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// Windows of V4.1-Flash (design 5).
constexpr Reach kReach{.window = 128, .encoder_layers = 20, .decoder_layers = 20};
// Rows behind the last whole block that a resume computes again: all layers' windows.
constexpr std::int64_t kReachRows = kReach.window * (kReach.encoder_layers + kReach.decoder_layers);

}  // namespace

// --- prefill

// A tail (design 6) stands where the session's last prompt ended: behind less than was hit then,
// windows are made anew.
std::int64_t FleetRun::rows_behind(const FleetRequest& what, Position hit) {
  if (hit == what.prefill.hit) {
    return what.prefill.rows;
  }
  const Position prompt = what.prompt_tokens;
  const KvReuse reuse =
      plan_reuse({.mode = BasisMode::kBounded, .prompt = prompt, .total = prompt}, hit, kReach);
  return prompt - reuse.start;
}

Position FleetRun::find_hit(Request& request) {
  const Position most = request.what->prefill.hit;
  if (!store_) {
    return most;
  }
  const std::int64_t blocks = store_->use({request.copy, request.what->last_run}, now_);
  return std::min(most, blocks * kBlockTokens);
}

FleetPrefillJob FleetRun::job_of(std::uint64_t id) {
  Request& request = live_.at(id);
  if (request.first_token < Nanos{0}) {
    const Position hit = find_hit(request);
    return job_behind(id, hit, rows_behind(*request.what, hit));
  }
  const Position total = request.what->prefill.hit + request.what->prefill.rows + request.given;
  const Position hit = std::max<Position>(0, total / kBlockTokens * kBlockTokens - kReachRows);
  tally_.figures.recomputed_tokens += total - hit;
  return job_behind(id, hit, total - hit);
}

FleetPrefillJob FleetRun::job_behind(std::uint64_t id, Position hit, std::int64_t rows) {
  Request& request = live_.at(id);
  request.hit = hit;
  FleetPrefillJob job;
  job.request = id;
  job.hit = hit;
  job.rows = rows;
  const double factor = std::exp(options_.control().prediction_error() * normal_(random_));
  const Nanos work = cost_.chunk(job.rows, job.hit);
  job.predicted = Nanos{static_cast<std::int64_t>(static_cast<double>(work.count()) * factor)};
  job.length_class = prefill_class(job.predicted, kReferenceBounds);
  job.deadline = Instant(request.arrived + kFleetDeadline);
  return job;
}

void FleetRun::place_prefill(std::uint64_t id) {
  const FleetPrefillJob job = job_of(id);
  const auto choice = chooser_.choose({.work = job.predicted,
                                       .length_class = job.length_class,
                                       .rows = job.rows,
                                       .quota = microseconds(options_.prefill().quota_us()),
                                       .waiting_limit = 1 << 30,
                                       .tie = id},
                                      now_);
  if (!choice) {
    homeless_.push_back(id);  // every instance is down
    return;
  }
  Request& request = live_.at(id);
  request.instance = choice->instance;
  tally_.figures.hit_tokens += request.attempt == 1 ? job.hit : 0;
  scale_.spend(FleetPool::kPrefill, job.predicted);
  prefill_[choice->instance].wait(job);
  queue_.add(now_ + hop() * 3, Kind::kPlaced, id, request.attempt);
}

// Blocks come over the instance's link, one request after the other, and each a latency later.
void FleetRun::reach(std::uint64_t id, std::uint64_t attempt) {
  if (!is_current(id, attempt)) {
    return;
  }
  const Request& request = live_.at(id);
  if (request.hit == 0) {
    return loaded(id, attempt);
  }
  const std::int64_t patience = options_.store().patience_ms();
  const Nanos by = patience > 0 ? now_ + milliseconds(patience) : Nanos{0};
  if (const auto sent = links_.load(request.instance, request.hit, now_, by)) {
    tally_.loaded(request.hit);
    queue_.add(*sent + links_.latency(random_), Kind::kLoaded, id, attempt);
  } else {
    compute_instead(id);
    loaded(id, attempt);
  }
}

void FleetRun::compute_instead(std::uint64_t id) {
  const Request& request = live_.at(id);
  const std::int64_t all = request.what->prefill.hit + request.what->prefill.rows + request.given;
  tally_.figures.hit_tokens -= request.attempt == 1 ? request.hit : 0;
  ++tally_.figures.loads_refused;
  prefill_[request.instance].wait(job_behind(id, 0, all));
}

void FleetRun::loaded(std::uint64_t id, std::uint64_t attempt) {
  if (is_current(id, attempt)) {
    const std::size_t instance = live_.at(id).instance;
    prefill_[instance].load(id, now_);
    start_prefill(instance);
  }
}

void FleetRun::start_prefill(std::size_t instance) {
  FleetPrefill& site = prefill_[instance];
  if (const auto time = site.begin(now_)) {
    queue_.add(now_ + *time, Kind::kStepEnd, instance, site.version());
  }
  report(instance, now_);
}

void FleetRun::report(std::size_t instance, Nanos now) {
  chooser_.report(instance, prefill_[instance].describe(), now);
}

void FleetRun::prefill_ended(std::size_t instance, std::uint64_t version) {
  if (version != prefill_[instance].version()) {
    return;
  }
  for (const std::uint64_t id : prefill_[instance].end()) {
    give_first_token(id);
  }
  start_prefill(instance);
}

void FleetRun::give_first_token(std::uint64_t id) {
  Request& request = live_.at(id);
  if (request.first_token < Nanos{0}) {
    request.first_token = now_ + hop();
    tally_.first_token();
    if (store_) {
      store_->write({request.copy, request.what->last_run}, request.what->ttl, now_);
    }
  }
  ++request.given;
  advance(id, RequestEvent::kPrefillStarted);
  advance(id,
          request.given >= request.what->answer_tokens ? RequestEvent::kAnswerDone
                                                       : RequestEvent::kPrefillDone);
}

// --- decode

std::size_t FleetRun::ranks_of_group() const {
  return static_cast<std::size_t>(options_.decode().ranks());
}

std::size_t FleetRun::group_of(std::uint64_t rank) const {
  return rank / ranks_of_group();
}

std::size_t FleetRun::rank_of(std::uint64_t rank) const {
  return rank % ranks_of_group();
}

void FleetRun::place_decode(std::uint64_t id) {
  waiting_.push_back({id, live_.at(id).attempt});
  place_waiting();
}

void FleetRun::place_waiting() {
  while (!waiting_.empty()) {
    const auto [id, attempt] = waiting_.front();
    if (is_current(id, attempt) && !place_one(id)) {
      return;
    }
    waiting_.pop_front();
  }
}

bool FleetRun::place_one(std::uint64_t id) {
  Request& request = live_.at(id);
  const Position total = request.what->prefill.hit + request.what->prefill.rows + request.given;
  const std::int64_t left = request.what->answer_tokens - request.given;
  const std::int64_t blocks = (total + left + kBlockTokens - 1) / kBlockTokens;
  ranks_.clear();
  for (std::size_t g = 0; g < decode_.size(); ++g) {
    decode_[g].describe(ranks_, static_cast<std::uint32_t>(g * ranks_of_group()));
  }
  const DecodeNeed need{.device = {}, .blocks = blocks, .tokens = total, .tie = id};
  if (fits_nowhere(ranks_, need)) {
    request.attempt = kFleetAttempts;
    advance(id, RequestEvent::kRefused);
    return true;
  }
  const auto choice =
      pick_least(ranks_, need, decode_cost_, options_.decode().max_batch(), by_step);
  if (!choice) {
    return false;
  }
  request.group = group_of(choice->rank);
  scale_.spend(FleetPool::kDecode, decode_work(total, left));
  decode_[request.group].reserve({.request = id,
                                  .rank = rank_of(choice->rank),
                                  .kv_tokens = total,
                                  .left = left,
                                  .blocks = blocks});
  advance(id, RequestEvent::kDecodePlaced);
  const Nanos sent = links_.carry(request.instance, total, now_);
  queue_.add(sent + hop() * 2, Kind::kHandedOver, id, request.attempt);
  return true;
}

// Of one rank, whose steps may take what the limit of a token's time allows.
Nanos FleetRun::decode_work(Position tokens, std::int64_t left) const {
  const fleet::Decode& decode = options_.decode();
  const double steps = static_cast<double>(left) / decode.tokens_per_step();
  const double step_ns =
      static_cast<double>(decode.request_ns()) +
      static_cast<double>(tokens) * static_cast<double>(decode.token_fs()) * 1e-6;
  const double limit_us = options_.slo().tpot_ms() * decode.tokens_per_step() * 1e3;
  const double useful = std::max(0.1, 1 - static_cast<double>(decode.step_us()) / limit_us);
  return Nanos{static_cast<std::int64_t>(steps * step_ns * decode.moe_lb() / useful)};
}

void FleetRun::handed_over(std::uint64_t id, std::uint64_t attempt) {
  if (!is_current(id, attempt)) {
    return;
  }
  advance(id, RequestEvent::kDecodeJoined);
  const std::size_t group = live_.at(id).group;
  decode_[group].join(id);
  start_decode(group);
}

void FleetRun::start_decode(std::size_t group) {
  if (const auto time = decode_[group].begin(now_)) {
    tally_.figures.decode_step_ms.add(static_cast<double>(time->count()) * 1e-6);
    queue_.add(now_ + *time, Kind::kDecodeEnd, group, decode_[group].version());
  }
}

void FleetRun::decode_ended(std::size_t group, std::uint64_t version) {
  if (version != decode_[group].version()) {
    return;
  }
  const auto finished = decode_[group].end();
  for (const std::uint64_t id : finished) {
    advance(id, RequestEvent::kAnswerDone);
  }
  if (!finished.empty()) {
    place_waiting();
  }
  start_decode(group);
}

}  // namespace shoal::sim
