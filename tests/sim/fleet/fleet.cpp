// Events in the order of time; what happens to a request is decided by the ledger's table.
#include "tests/sim/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"
#include "tests/sim/fleet/fleet_run.h"

namespace shoal::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;

namespace {

constexpr std::uint64_t kFaultSeed = 0x5EEDFA017ULL;

CostModel prefill_cost(const fleet::Prefill& prefill) {
  return CostModel({.step = microseconds(prefill.step_us()),
                    .row_ps = prefill.row_ns() * 1'000,
                    .pair_fs = prefill.pair_fs()});
}

CostModel decode_cost(const fleet::Decode& decode) {
  return CostModel({.step = microseconds(decode.step_us()),
                    .row_ps = decode.request_ns() * 1'000,
                    .pair_fs = decode.token_fs()});
}

}  // namespace

FleetRun::FleetRun(const fleet::Fleet& fleet, const FleetLoad& load, std::uint64_t seed)
    : options_(fleet),
      load_(load),
      cost_(prefill_cost(fleet.prefill())),
      decode_cost_(decode_cost(fleet.decode())),
      chooser_(*find_prefill_policy(fleet.prefill().policy()),
               seed,
               static_cast<std::size_t>(fleet.prefill().instances()),
               milliseconds(fleet.control().stale_ms())),
      links_(fleet.store(), static_cast<std::size_t>(fleet.prefill().instances())),
      random_(seed),
      faults_(seed ^ kFaultSeed),
      scale_(fleet),
      arrivals_(load, fleet.store().bytes() > 0),
      tally_(fleet) {
  for (int i = 0; i < fleet.prefill().instances(); ++i) {
    prefill_.emplace_back(fleet.prefill());
  }
  std::optional<DraftSource> drafts;
  if (!fleet.verify().policy().empty()) {
    drafts.emplace(fleet.verify().concentration(), seed, fleet.verify().confidence());
  }
  for (int g = 0; g < fleet.decode().groups(); ++g) {
    decode_.emplace_back(
        fleet, drafts ? &*drafts : nullptr, seed + static_cast<std::uint64_t>(g) * kFaultSeed);
  }
  if (fleet.store().bytes() > 0) {
    store_.emplace(fleet.store(), cost_, load.trace->prompts);
  }
  if (fleet.vision().encoders() > 0) {
    vision_.emplace(fleet.vision(), seed);
  }
  for (std::size_t i = 0; i < prefill_.size(); ++i) {
    report(i, -milliseconds(fleet.control().stale_ms()));
  }
  plan_faults();
}

FleetFigures FleetRun::run(const std::function<void(Nanos)>& progress) {
  schedule_arrival();
  queue_.add(minutes(1), Kind::kMinute, 0);
  while (!queue_.empty() && (arriving_ || !live_.empty()) && now_ < load_.time + kFleetDeadline) {
    const auto event = queue_.take();
    now_ = event.at;
    tally_.event(now_, event.subject * kKinds + static_cast<std::uint64_t>(event.kind));
    handle(event.kind, event.subject, event.version);
    if (progress && event.kind == Kind::kMinute) {
      progress(now_);
    }
  }
  if (vision_) {
    tally_.figures.images = vision_->images();
    tally_.figures.images_encoded = vision_->encoded();
  }
  if (store_) {
    tally_.figures.evicted_tokens = store_->evicted_blocks() * kBlockTokens;
    tally_.figures.expired_tokens = store_->expired_blocks() * kBlockTokens;
  }
  tally_.figures.scale_changes = scale_.changes();
  return tally_.end(prefill_, decode_, minute_state(), load_.time, now_);
}

void FleetRun::handle(Kind kind, std::uint64_t subject, std::uint64_t version) {
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
    case Kind::kEncoded:
      return encoded(subject, version);
    default:
      return handle_machine(kind, subject, version);
  }
}

// --- arrivals

void FleetRun::remember(const FleetArrival& arrival) {
  const StoredPrompt prompt{arrival.copy, arrival.what->last_run};
  store_->use(prompt, arrival.at);
  store_->write(prompt, arrival.what->ttl, arrival.at);
}

void FleetRun::schedule_arrival() {
  coming_ = arrivals_.next();
  for (; coming_.at < Nanos{0} || coming_.is_past; coming_ = arrivals_.next()) {
    remember(coming_);
  }
  arriving_ = coming_.at < load_.time;
  if (arriving_) {
    queue_.add(coming_.at, Kind::kArrival, next_);
  }
}

void FleetRun::arrive() {
  const std::uint64_t id = next_++;
  Request& request = live_[id];
  request.what = coming_.what;
  request.copy = coming_.copy;
  request.arrived = now_;
  tally_.arrived(*request.what);
  schedule_arrival();
  if (!waits_for_images(id)) {
    advance(id, RequestEvent::kAccepted);
  }
}

// --- the ledger

void FleetRun::advance(std::uint64_t id, RequestEvent event) {
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
void FleetRun::finish(std::uint64_t id, RequestState state) {
  Request& request = live_.at(id);
  if (state != RequestState::kFinished && request.attempt < kFleetAttempts) {
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

bool FleetRun::is_current(std::uint64_t id, std::uint64_t attempt) const {
  const auto request = live_.find(id);
  return request != live_.end() && request->second.attempt == attempt;
}

Nanos FleetRun::hop() const {
  return microseconds(options_.control().message_us());
}

// --- images: the request is not accepted before they are there

bool FleetRun::waits_for_images(std::uint64_t id) {
  if (!vision_) {
    return false;
  }
  const auto patches = vision_->patches_of(live_.at(id).what->patches);
  if (patches.empty()) {
    return false;
  }
  if (!vision_->arrive(id, patches, now_)) {
    tally_.images_ready(Nanos{0});
    return false;
  }
  start_vision();
  return true;
}

void FleetRun::start_vision() {
  for (const FleetVision::Begun& begun : vision_->begin(now_)) {
    queue_.add(now_ + begun.time, Kind::kEncoded, begun.encoder, begun.version);
  }
}

void FleetRun::encoded(std::size_t encoder, std::uint64_t version) {
  for (const std::uint64_t id : vision_->end(encoder, version)) {
    tally_.images_ready(now_ - live_.at(id).arrived);
    advance(id, RequestEvent::kAccepted);
  }
  start_vision();
}

FleetFigures run_fleet(const fleet::Fleet& fleet,
                       const FleetLoad& load,
                       std::uint64_t seed,
                       const std::function<void(Nanos)>& progress) {
  CHECK(load.trace != nullptr && !load.trace->requests.empty());
  CHECK(load.rate > 0 && load.copies > 0);
  return FleetRun(fleet, load, seed).run(progress);
}

}  // namespace shoal::sim
