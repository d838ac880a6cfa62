// Machines that fail, come back, come and go with the load.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/sim/fleet/fleet_run.h"

namespace shoal::sim {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// What expired in between counts as missing, but still takes its room.
constexpr std::size_t kMinutesToExpire = 10;

}  // namespace

void FleetRun::handle_machine(Kind kind, std::uint64_t subject, std::uint64_t /*version*/) {
  switch (kind) {
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
      return decode_[group_of(subject)].up(rank_of(subject));
    case Kind::kVisionFails:
      return vision_fails(subject);
    case Kind::kVisionNoticed:
      vision_->notice(subject, now_);
      return start_vision();
    case Kind::kVisionUp:
      vision_->up(subject, now_);
      return start_vision();
    case Kind::kPrefillOpens:
      scale_.came_up(FleetPool::kPrefill, subject);
      return open_prefill(subject, true);
    case Kind::kDecodeOpens:
      scale_.came_up(FleetPool::kDecode, subject);
      return open_decode(subject, true);
    default:
      return end_minute();
  }
}

// --- failures

void FleetRun::plan_faults() {
  if (options_.faults().gpu_mtbf_hours() <= 0) {
    return;
  }
  for (std::size_t i = 0; i < prefill_.size(); ++i) {
    queue_.add(next_failure(options_.prefill().ranks()), Kind::kPrefillFails, i);
  }
  for (std::size_t g = 0; g < decode_.size(); ++g) {
    queue_.add(next_failure(options_.decode().ranks()), Kind::kDecodeFails, g);
  }
  for (int e = 0; e < options_.vision().encoders(); ++e) {
    queue_.add(next_failure(1), Kind::kVisionFails, static_cast<std::uint64_t>(e));
  }
}

Nanos FleetRun::next_failure(int gpus) {
  const double mean_h = options_.faults().gpu_mtbf_hours() / gpus;
  const double h = -std::log(1 - faults_.unit()) * mean_h;
  return now_ + Nanos{static_cast<std::int64_t>(std::min(h, 1e5) * 3.6e12)};
}

Nanos FleetRun::detected() const {
  return now_ + milliseconds(options_.control().detect_ms());
}

Nanos FleetRun::repaired() const {
  return now_ + seconds(options_.faults().repair_s());
}

void FleetRun::prefill_fails(std::size_t instance) {
  queue_.add(next_failure(options_.prefill().ranks()), Kind::kPrefillFails, instance);
  if (!prefill_[instance].is_up() || !scale_.works(FleetPool::kPrefill, instance)) {
    return;
  }
  ++tally_.figures.prefill_failures;
  prefill_[instance].fail();
  queue_.add(detected(), Kind::kPrefillNoticed, instance);
  queue_.add(repaired(), Kind::kPrefillUp, instance);
}

void FleetRun::prefill_noticed(std::size_t instance) {
  report(instance, now_);
  for (const std::uint64_t id : prefill_[instance].take_lost()) {
    advance(id, RequestEvent::kLost);
  }
}

// What was sent there before its death was heard of everywhere is lost, too.
void FleetRun::prefill_up(std::size_t instance) {
  prefill_[instance].up();
  prefill_noticed(instance);
}

void FleetRun::decode_fails(std::size_t group) {
  queue_.add(next_failure(options_.decode().ranks()), Kind::kDecodeFails, group);
  if (!scale_.works(FleetPool::kDecode, group)) {
    return;
  }
  const std::size_t rank = faults_.below(ranks_of_group());
  const std::uint64_t subject = group * ranks_of_group() + rank;
  ++tally_.figures.decode_failures;
  decode_[group].fail(rank);
  decode_[group].stand_still(detected() + milliseconds(options_.faults().regroup_ms()));
  queue_.add(detected(), Kind::kDecodeNoticed, subject);
  queue_.add(repaired(), Kind::kDecodeUp, subject);
}

void FleetRun::decode_noticed(std::uint64_t subject) {
  const std::size_t group = group_of(subject);
  decode_[group].notice(rank_of(subject));
  for (const auto& [id, given] : decode_[group].take_lost()) {
    live_.at(id).given += given;
    advance(id, RequestEvent::kLost);
  }
  queue_.add(now_ + milliseconds(options_.faults().regroup_ms()), Kind::kDecodeRegrouped, group);
}

void FleetRun::vision_fails(std::size_t encoder) {
  queue_.add(next_failure(1), Kind::kVisionFails, encoder);
  if (vision_->fail(encoder)) {
    ++tally_.figures.vision_failures;
    queue_.add(detected(), Kind::kVisionNoticed, encoder);
    queue_.add(repaired(), Kind::kVisionUp, encoder);
  }
}

// --- minutes

FleetMinute FleetRun::minute_state() const {
  FleetMinute state;
  state.store_bytes = store_ ? store_->bytes() : 0;
  state.prefill_paid = scale_.paid(FleetPool::kPrefill);
  state.decode_paid = scale_.paid(FleetPool::kDecode);
  return state;
}

void FleetRun::end_minute() {
  tally_.end_minute(prefill_, decode_, minute_state());
  if (store_ && tally_.figures.minutes.size() % kMinutesToExpire == 0) {
    store_->expire(now_);
  }
  scale();
  for (const std::uint64_t id : std::exchange(homeless_, {})) {
    place_prefill(id);
  }
  queue_.add(now_ + minutes(1), Kind::kMinute, 0);
}

void FleetRun::scale() {
  for (const FleetScale::Change& change : scale_.plan()) {
    const bool is_prefill = change.pool == FleetPool::kPrefill;
    if (!change.at_once) {
      queue_.add(now_ + scale_.provisioning(),
                 is_prefill ? Kind::kPrefillOpens : Kind::kDecodeOpens,
                 change.unit);
    } else if (is_prefill) {
      open_prefill(change.unit, change.opens);
    } else {
      open_decode(change.unit, change.opens);
    }
  }
  close_empty();
}

void FleetRun::close_empty() {
  for (std::size_t i = 0; i < prefill_.size(); ++i) {
    if (scale_.is_closing(FleetPool::kPrefill, i) && prefill_[i].is_idle()) {
      scale_.emptied(FleetPool::kPrefill, i);
    }
  }
  for (std::size_t g = 0; g < decode_.size(); ++g) {
    if (scale_.is_closing(FleetPool::kDecode, g) && decode_[g].live() == 0) {
      scale_.emptied(FleetPool::kDecode, g);
    }
  }
}

void FleetRun::open_prefill(std::size_t instance, bool is_open) {
  prefill_[instance].open(is_open);
  report(instance, now_);
}

void FleetRun::open_decode(std::size_t group, bool is_open) {
  decode_[group].open(is_open);
  place_waiting();
}

}  // namespace shoal::sim
