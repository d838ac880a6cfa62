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
  figures.hit_tokens += request.prefill.hit;
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
  figures.good += ttft <= static_cast<double>(slo_.ttft_ms()) && tpot <= slo_.tpot_ms();
}

void FleetTally::refused(bool had_first_token) {
  ++figures.refused;
  unanswered_ -= had_first_token ? 0 : 1;
}

void FleetTally::end_minute(std::span<const FleetPrefill> prefill,
                            std::span<const FleetDecode> decode) {
  const std::int64_t busy = busy_ns(prefill);
  minute_.prefill_busy_ns = busy - std::exchange(busy_before_, busy);
  for (const FleetDecode& group : decode) {
    minute_.decode_live += group.live();
  }
  minute_.queued = unanswered_;
  figures.minutes.push_back(std::exchange(minute_, {}));
  auto& ranks = figures.decode_ranks_ms.emplace_back();
  for (const std::int64_t ns : decode.front().rank_ns()) {
    ranks.push_back(static_cast<double>(ns) * 1e-6);
  }
}

FleetFigures FleetTally::end(const fleet::Fleet& fleet,
                             std::span<const FleetPrefill> prefill,
                             std::span<const FleetDecode> decode,
                             Nanos arrivals,
                             Nanos now) {
  const double ranks = static_cast<double>(prefill.size()) * fleet.prefill().ranks();
  figures.prefill_use = static_cast<double>(busy_ns(prefill)) /
                        (ranks * std::max(1.0, static_cast<double>(arrivals.count())));
  figures.prefill_imbalance = imbalance(prefill);
  figures.decode_imbalance = imbalance(decode);
  figures.ended = now;
  figures.attempts += figures.requests;
  return std::move(figures);
}

}  // namespace shoal::sim
