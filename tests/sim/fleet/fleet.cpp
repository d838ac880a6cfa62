// Events in the order of time; what happens to a request is decided by the ledger's table.
#include "tests/sim/fleet/fleet.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <unordered_map>

#include "actors/policy/draw.h"
#include "actors/policy/prefill_balancer.h"
#include "actors/policy/request_machine.h"
#include "schemas/check.h"
#include "tests/sim/fleet/event_queue.h"
#include "tests/sim/fleet/fleet_decode.h"
#include "tests/sim/fleet/fleet_links.h"
#include "tests/sim/fleet/fleet_prefill.h"
#include "tests/sim/fleet/fleet_tally.h"

namespace shoal::sim {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Rows behind the last whole block that a resume computes again: all layers' windows of V4.1-Flash
// (design 5: L W).
constexpr std::int64_t kReachRows = 5'120;
constexpr Nanos kDeadline = hours(1);
constexpr std::uint32_t kMostAttempts = 8;

enum class Kind : std::uint8_t {
  kArrival,
  kPlaced,   // a request has reached its instance
  kLoaded,   // its KV has
  kStepEnd,  // of a prefill instance
  kHandedOver,
  kDecodeEnd,
  kPrefillFails,
  kPrefillNoticed,
  kPrefillUp,
  kDecodeFails,
  kDecodeNoticed,
  kDecodeRegrouped,
  kDecodeUp,
  kMinute,
};

struct Request {
  const FleetRequest* what = nullptr;
  Nanos arrived{0};
  Nanos first_token{-1};
  std::int64_t given = 0;  // tokens of the answer
  std::uint32_t attempt = 1;
  RequestState state = RequestState::kReceived;
  std::size_t instance = 0;
  std::size_t group = 0;
};

class Fleet {
 public:
  Fleet(const fleet::Fleet& fleet, const FleetLoad& load, std::uint64_t seed)
      : options_(fleet),
        load_(load),
        cost_({.step = microseconds(fleet.prefill().step_us()),
               .row_ps = fleet.prefill().row_ns() * 1'000,
               .pair_fs = fleet.prefill().pair_fs()}),
        decode_cost_({.step = microseconds(fleet.decode().step_us()),
                      .row_ps = fleet.decode().request_ns() * 1'000,
                      .pair_fs = fleet.decode().token_fs()}),
        chooser_(*find_prefill_policy(fleet.prefill().policy()),
                 seed,
                 static_cast<std::size_t>(fleet.prefill().instances()),
                 milliseconds(fleet.control().stale_ms())),
        links_(fleet.store(), static_cast<std::size_t>(fleet.prefill().instances())),
        random_(seed),
        faults_(seed ^ 0x5EEDFA017ULL),
        tally_(fleet.slo()) {
    for (int i = 0; i < fleet.prefill().instances(); ++i) {
      prefill_.emplace_back(fleet.prefill());
    }
    for (int g = 0; g < fleet.decode().groups(); ++g) {
      decode_.emplace_back(fleet.decode());
    }
    for (std::size_t i = 0; i < prefill_.size(); ++i) {
      report(i, -milliseconds(fleet.control().stale_ms()));
    }
    plan_faults();
  }

  FleetFigures run(const std::function<void(Nanos)>& progress) {
    schedule_arrival();
    queue_.add(minutes(1), Kind::kMinute, 0);
    while (!queue_.empty() && (arriving_ || !live_.empty()) && now_ < load_.time + kDeadline) {
      const auto event = queue_.take();
      now_ = event.at;
      tally_.event(now_, event.subject * 16 + static_cast<std::uint64_t>(event.kind));
      handle(event.kind, event.subject, event.version);
      if (progress && event.kind == Kind::kMinute) {
        progress(now_);
      }
    }
    return tally_.end(options_, prefill_, decode_, load_.time, now_);
  }

 private:
  void handle(Kind kind, std::uint64_t subject, std::uint64_t version) {
    switch (kind) {
      case Kind::kArrival:
        return arrive();
      case Kind::kPlaced:
        return reach(subject, version);
      case Kind::kLoaded:
        return loaded(subject, version);
      case Kind::kStepEnd:
        return prefill_ended(subject, version);
      case Kind::kHandedOver:
        return handed_over(subject, version);
      case Kind::kDecodeEnd:
        return decode_ended(subject, version);
      case Kind::kPrefillFails:
        return prefill_fails(subject);
      case Kind::kPrefillNoticed:
        return prefill_noticed(subject);
      case Kind::kPrefillUp:
        return prefill_up(subject);
      case Kind::kDecodeFails:
        return decode_fails(subject);
      case Kind::kDecodeNoticed:
        return decode_noticed(subject);
      case Kind::kDecodeRegrouped:
        return start_decode(subject);
      case Kind::kDecodeUp:
        decode_[group_of(subject)].up(rank_of(subject));
        return;
      case Kind::kMinute:
        return end_minute();
    }
  }

  // --- arrivals

  void schedule_arrival() {
    const auto& requests = load_.requests;
    const FleetRequest& next = requests[next_ % requests.size()];
    const Nanos span = requests.back().prefill.arrival + milliseconds(1);
    const auto copies = static_cast<std::int64_t>(next_ / requests.size());
    const double recorded = static_cast<double>((next.prefill.arrival + span * copies).count());
    const Nanos at{static_cast<std::int64_t>(recorded / load_.rate)};
    arriving_ = at < load_.time;
    if (arriving_) {
      queue_.add(at, Kind::kArrival, next_);
    }
  }

  void arrive() {
    const std::uint64_t id = next_++;
    Request& request = live_[id];
    request.what = &load_.requests[id % load_.requests.size()];
    request.arrived = now_;
    tally_.arrived(*request.what);
    schedule_arrival();
    advance(id, RequestEvent::kAccepted);
  }

  // --- the ledger

  void advance(std::uint64_t id, RequestEvent event) {
    Request& request = live_.at(id);
    const RequestStep step = next_step(request.state, event);
    CHECK(step.ignored.empty());
    request.state = step.next;
    if (step.commands & kPlacePrefill) {
      place_prefill(id);
    }
    if (step.commands & kPlaceDecode) {
      place_decode(id);
    }
    if (is_terminal(step.next)) {
      finish(id, step.next);
    }
  }

  // The stream of a lost attempt submits it again with what it has.
  void finish(std::uint64_t id, RequestState state) {
    Request& request = live_.at(id);
    if (state != RequestState::kFinished && request.attempt < kMostAttempts) {
      ++request.attempt;
      ++tally_.figures.attempts;
      request.state = RequestState::kReceived;
      return advance(id, RequestEvent::kAccepted);
    }
    if (state == RequestState::kFinished) {
      tally_.answered(request.what->answer_tokens,
                      request.first_token - request.arrived,
                      now_ - request.first_token);
    } else {
      tally_.refused(request.first_token >= Nanos{0});
    }
    live_.erase(id);
  }

  // --- prefill

  FleetPrefillJob job_of(std::uint64_t id) {
    const Request& request = live_.at(id);
    FleetPrefillJob job;
    job.request = id;
    job.hit = request.what->prefill.hit;
    job.rows = request.what->prefill.rows;
    if (request.first_token >= Nanos{0}) {
      const Position total = job.hit + job.rows + request.given;
      job.hit = std::max<Position>(0, total / kBlockTokens * kBlockTokens - kReachRows);
      job.rows = total - job.hit;
      tally_.figures.recomputed_tokens += job.rows;
    }
    const double factor = std::exp(options_.control().prediction_error() * normal_(random_));
    const Nanos work = cost_.chunk(job.rows, job.hit);
    job.predicted = Nanos{static_cast<std::int64_t>(static_cast<double>(work.count()) * factor)};
    job.length_class = prefill_class(job.predicted, kReferenceBounds);
    job.deadline = Instant(request.arrived + kDeadline);
    return job;
  }

  void place_prefill(std::uint64_t id) {
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
    prefill_[choice->instance].wait(job);
    queue_.add(now_ + hop() * 3, Kind::kPlaced, id, request.attempt);
  }

  Nanos hop() const { return microseconds(options_.control().message_us()); }

  // Blocks come over the instance's link, one request after the other, and each a latency later.
  void reach(std::uint64_t id, std::uint64_t attempt) {
    if (!is_current(id, attempt)) {
      return;
    }
    const std::int64_t hit = live_.at(id).what->prefill.hit;
    if (hit == 0) {
      return loaded(id, attempt);
    }
    const Nanos sent = links_.carry(live_.at(id).instance, hit, now_);
    queue_.add(sent + links_.latency(random_), Kind::kLoaded, id, attempt);
  }

  bool is_current(std::uint64_t id, std::uint64_t attempt) const {
    const auto request = live_.find(id);
    return request != live_.end() && request->second.attempt == attempt;
  }

  void loaded(std::uint64_t id, std::uint64_t attempt) {
    if (is_current(id, attempt)) {
      const std::size_t instance = live_.at(id).instance;
      prefill_[instance].load(id, now_);
      start_prefill(instance);
    }
  }

  void start_prefill(std::size_t instance) {
    FleetPrefill& site = prefill_[instance];
    if (const auto time = site.begin(now_)) {
      queue_.add(now_ + *time, Kind::kStepEnd, instance, site.version());
    }
    report(instance, now_);
  }

  void report(std::size_t instance, Nanos now) {
    chooser_.report(instance, prefill_[instance].describe(), now);
  }

  void prefill_ended(std::size_t instance, std::uint64_t version) {
    if (version != prefill_[instance].version()) {
      return;
    }
    for (const std::uint64_t id : prefill_[instance].end()) {
      give_first_token(id);
    }
    start_prefill(instance);
  }

  void give_first_token(std::uint64_t id) {
    Request& request = live_.at(id);
    if (request.first_token < Nanos{0}) {
      request.first_token = now_ + hop();
      tally_.first_token();
    }
    ++request.given;
    advance(id, RequestEvent::kPrefillStarted);
    advance(id,
            request.given >= request.what->answer_tokens ? RequestEvent::kAnswerDone
                                                         : RequestEvent::kPrefillDone);
  }

  // --- decode

  std::size_t ranks_of_group() const { return static_cast<std::size_t>(options_.decode().ranks()); }

  std::size_t group_of(std::uint64_t rank) const { return rank / ranks_of_group(); }

  std::size_t rank_of(std::uint64_t rank) const { return rank % ranks_of_group(); }

  void place_decode(std::uint64_t id) {
    waiting_.push_back({id, live_.at(id).attempt});
    place_waiting();
  }

  void place_waiting() {
    while (!waiting_.empty()) {
      const auto [id, attempt] = waiting_.front();
      if (is_current(id, attempt) && !place_one(id)) {
        return;
      }
      waiting_.pop_front();
    }
  }

  bool place_one(std::uint64_t id) {
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
      request.attempt = kMostAttempts;
      advance(id, RequestEvent::kRefused);
      return true;
    }
    const auto choice = pick_decode_rank(ranks_, need, decode_cost_, options_.decode().max_batch());
    if (!choice) {
      return false;
    }
    request.group = group_of(choice->rank);
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

  void handed_over(std::uint64_t id, std::uint64_t attempt) {
    if (!is_current(id, attempt)) {
      return;
    }
    advance(id, RequestEvent::kDecodeJoined);
    const std::size_t group = live_.at(id).group;
    decode_[group].join(id);
    start_decode(group);
  }

  void start_decode(std::size_t group) {
    if (const auto time = decode_[group].begin(now_)) {
      tally_.figures.decode_step_ms.add(static_cast<double>(time->count()) * 1e-6);
      queue_.add(now_ + *time, Kind::kDecodeEnd, group, decode_[group].version());
    }
  }

  void decode_ended(std::size_t group, std::uint64_t version) {
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

  // --- failures

  void plan_faults() {
    if (options_.faults().gpu_mtbf_hours() <= 0) {
      return;
    }
    for (std::size_t i = 0; i < prefill_.size(); ++i) {
      queue_.add(next_failure(options_.prefill().ranks()), Kind::kPrefillFails, i);
    }
    for (std::size_t g = 0; g < decode_.size(); ++g) {
      queue_.add(next_failure(options_.decode().ranks()), Kind::kDecodeFails, g);
    }
  }

  Nanos next_failure(int gpus) {
    const double mean_h = options_.faults().gpu_mtbf_hours() / gpus;
    const double h = -std::log(1 - faults_.unit()) * mean_h;
    return now_ + Nanos{static_cast<std::int64_t>(std::min(h, 1e5) * 3.6e12)};
  }

  Nanos detected() const { return now_ + milliseconds(options_.control().detect_ms()); }

  Nanos repaired() const { return now_ + seconds(options_.faults().repair_s()); }

  void prefill_fails(std::size_t instance) {
    queue_.add(next_failure(options_.prefill().ranks()), Kind::kPrefillFails, instance);
    if (!prefill_[instance].is_up()) {
      return;
    }
    ++tally_.figures.prefill_failures;
    prefill_[instance].fail();
    queue_.add(detected(), Kind::kPrefillNoticed, instance);
    queue_.add(repaired(), Kind::kPrefillUp, instance);
  }

  void prefill_noticed(std::size_t instance) {
    report(instance, now_);
    for (const std::uint64_t id : prefill_[instance].take_lost()) {
      advance(id, RequestEvent::kLost);
    }
  }

  // What was sent there before its death was heard of everywhere is lost, too.
  void prefill_up(std::size_t instance) {
    prefill_[instance].up();
    prefill_noticed(instance);
  }

  void decode_fails(std::size_t group) {
    queue_.add(next_failure(options_.decode().ranks()), Kind::kDecodeFails, group);
    const std::size_t rank = faults_.below(ranks_of_group());
    const std::uint64_t subject = group * ranks_of_group() + rank;
    ++tally_.figures.decode_failures;
    decode_[group].fail(rank);
    decode_[group].stand_still(detected() + milliseconds(options_.faults().regroup_ms()));
    queue_.add(detected(), Kind::kDecodeNoticed, subject);
    queue_.add(repaired(), Kind::kDecodeUp, subject);
  }

  void decode_noticed(std::uint64_t subject) {
    const std::size_t group = group_of(subject);
    decode_[group].notice(rank_of(subject));
    for (const auto& [id, given] : decode_[group].take_lost()) {
      live_.at(id).given += given;
      advance(id, RequestEvent::kLost);
    }
    queue_.add(now_ + milliseconds(options_.faults().regroup_ms()), Kind::kDecodeRegrouped, group);
  }

  void end_minute() {
    tally_.end_minute(prefill_, decode_);
    for (const std::uint64_t id : std::exchange(homeless_, {})) {
      place_prefill(id);
    }
    queue_.add(now_ + minutes(1), Kind::kMinute, 0);
  }

  fleet::Fleet options_;
  FleetLoad load_;
  CostModel cost_;
  CostModel decode_cost_;
  PrefillChooser chooser_;
  FleetLinks links_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Draw faults_;
  std::vector<FleetPrefill> prefill_;
  std::vector<FleetDecode> decode_;
  EventQueue<Kind> queue_;
  FleetTally tally_;
  std::unordered_map<std::uint64_t, Request> live_;
  std::deque<std::pair<std::uint64_t, std::uint32_t>> waiting_;  // for a place in decode
  std::vector<std::uint64_t> homeless_;                          // for an instance that is up
  std::vector<DecodeRank> ranks_;
  std::uint64_t next_ = 0;
  bool arriving_ = true;
  Nanos now_{0};
};

}  // namespace

FleetFigures run_fleet(const fleet::Fleet& fleet,
                       const FleetLoad& load,
                       std::uint64_t seed,
                       const std::function<void(Nanos)>& progress) {
  CHECK(!load.requests.empty() && load.rate > 0);
  return Fleet(fleet, load, seed).run(progress);
}

}  // namespace shoal::sim
