// Times in ms, since that is what they are compared in.
#include "tests/sim/fleet/fleet_tally.h"

#include <algorithm>
#include <utility>

#include "actors/policy/rendezvous.h"

namespace shoal::sim {
namespace {

double to_ms(Nanos time) {
  return static_cast<double>(time.count()) * 1e-6;
}

std::int64_t busy_ns(std::span<const FleetPrefill> prefill) {
  std::int64_t busy = 0;
  for (const FleetPrefill& site : prefill) {
    busy += site.busy_ns();
  }
  return busy;
}

// Over all steps of all sites: the longest ranks' time over the mean ranks' time.
template <class Site>
double imbalance(std::span<const Site> sites) {
  double longest = 0;
  double mean = 0;
  for (const Site& site : sites) {
    longest += site.longest_ns();
    mean += site.mean_ns();
  }
  return mean > 0 ? longest / mean : 1;
}

}  // namespace

void FleetTally::event(Nanos at, std::uint64_t what) {
  figures.hash = rendezvous_weight(figures.hash ^ static_cast<std::uint64_t>(at.count()), what);
  ++figures.events;
}

void FleetTally::arrived(const FleetRequest& request) {
  ++figures.requests;
  ++minute_.arrived;
  ++unanswered_;
  figures.prompt_tokens += request.prefill.hit + request.prefill.rows;
}

void FleetTally::answered(std::int64_t tokens, Nanos to_first_token, Nanos behind_it) {
  ++figures.answered;
  figures.answer_tokens += tokens;
  const double ttft = to_ms(to_first_token);
  const double tpot = tokens > 1 ? to_ms(behind_it) / static_cast<double>(tokens - 1) : 0;
  figures.ttft_ms.add(ttft);
  if (tokens > 1) {
    figures.tpot_ms.add(tpot);
  }
  figures.good +=
      ttft <= static_cast<double>(fleet_.slo().ttft_ms()) && tpot <= fleet_.slo().tpot_ms();
}

void FleetTally::refused(bool had_first_token) {
  ++figures.refused;
  unanswered_ -= had_first_token ? 0 : 1;
}

void FleetTally::images_ready(Nanos behind_arrival) {
  figures.images_ready_ms.add(to_ms(behind_arrival));
}

void FleetTally::pay(const FleetMinute& state, double hours) {
  const auto gpus =
      static_cast<double>(state.prefill_paid * fleet_.prefill().ranks() +
                          state.decode_paid * fleet_.decode().ranks() + fleet_.vision().encoders());
  figures.gpu_hours += gpus * hours;
}

void FleetTally::end_minute(std::span<const FleetPrefill> prefill,
                            std::span<const FleetDecode> decode,
                            const FleetMinute& state) {
  pay(state, 1.0 / 60);
  const std::int64_t busy = busy_ns(prefill);
  minute_.prefill_busy_ns = busy - std::exchange(busy_before_, busy);
  for (const FleetDecode& group : decode) {
    minute_.decode_live += group.live();
  }
  minute_.queued = unanswered_;
  minute_.store_bytes = state.store_bytes;
  minute_.prefill_paid = state.prefill_paid;
  minute_.decode_paid = state.decode_paid;
  figures.minutes.push_back(std::exchange(minute_, {}));
  auto& ranks = figures.decode_ranks_ms.emplace_back();
  for (const std::int64_t ns : decode.front().rank_ns()) {
    ranks.push_back(static_cast<double>(ns) * 1e-6);
  }
}

void FleetTally::end_decode(std::span<const FleetDecode> decode, double hours) {
  std::int64_t requests = 0;
  std::int64_t gained = 0;
  std::int64_t verified = 0;
  double moved = 0;
  double tokens = 0;
  double weighted = 0;
  for (const FleetDecode& group : decode) {
    requests += group.request_steps();
    gained += group.gained();
    verified += group.verified();
    if (group.experts()) {
      moved += group.experts()->moved_bytes();
      tokens += group.experts()->tokens();
      weighted += group.experts()->weighted();
    }
  }
  const double all = std::max(1.0, static_cast<double>(requests));
  figures.moe_lb = tokens > 0 ? weighted / tokens : fleet_.decode().moe_lb();
  figures.tokens_a_step = static_cast<double>(gained) / all;
  figures.drafts_a_step = static_cast<double>(verified - requests) / all;
  figures.expert_bytes_an_hour = hours > 0 ? moved / hours : 0;
  if (decode.front().experts()) {
    figures.expert_gpus = decode.front().experts()->gpus();
    figures.experts = decode.front().experts()->experts();
  }
}

FleetFigures FleetTally::end(std::span<const FleetPrefill> prefill,
                             std::span<const FleetDecode> decode,
                             const FleetMinute& state,
                             Nanos arrivals,
                             Nanos now) {
  const double ranks = static_cast<double>(prefill.size()) * fleet_.prefill().ranks();
  const double hours = static_cast<double>(now.count()) / 3.6e12;
  pay(state, hours - static_cast<double>(figures.minutes.size()) / 60);
  figures.prefill_use = static_cast<double>(busy_ns(prefill)) /
                        (ranks * std::max(1.0, static_cast<double>(arrivals.count())));
  figures.prefill_imbalance = imbalance(prefill);
  figures.decode_imbalance = imbalance(decode);
  end_decode(decode, hours);
  figures.ended = now;
  figures.attempts += figures.requests;
  return std::move(figures);
}

}  // namespace shoal::sim
