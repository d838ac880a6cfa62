// Reports wait their time in a queue; what was sent meanwhile is added to them again.
#include "tests/sim/fleet/prefill_chooser.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {

PrefillChooser::PrefillChooser(const PrefillPolicyRow& policy,
                               std::uint64_t seed,
                               std::size_t instances,
                               Nanos stale)
    : binds_ranks_(policy.binds_ranks),
      policy_(policy.make(seed)),
      stale_(stale),
      known_(instances),
      view_(instances) {}

std::optional<PrefillChoice> PrefillChooser::choose(const PrefillNeed& need, Nanos now) {
  hear(now);
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const PrefillReport& report = known_[i].report;
    view_[i] = report.state;
    view_[i].ranks = report.ranks;
    view_[i].step_left = std::max(Nanos{0}, report.step_ends - now);
  }
  const auto choice = policy_->pick(view_, need);
  if (choice) {
    Known& known = known_[choice->instance];
    ++known.count;
    known.sent.push_back({choice->rank, need});
    add(known.report, known.sent.back());
  }
  return choice;
}

void PrefillChooser::add(PrefillReport& report, const Sent& sent) const {
  ++report.state.requests;
  if (!binds_ranks_) {
    report.state.queued[static_cast<std::size_t>(sent.need.length_class)] += sent.need.work;
  } else if (sent.rank < report.ranks.size()) {
    PrefillRankLoad& rank = report.ranks[sent.rank];
    ++rank.requests;
    rank.rows += sent.need.rows;
    rank.work += sent.need.work;
  }
}

void PrefillChooser::report(std::size_t instance, PrefillReport report, Nanos now) {
  Late late{now + stale_, instance, std::move(report), known_[instance].count};
  if (stale_ == Nanos{0}) {
    hear(std::move(late));
  } else {
    late_.push_back(std::move(late));
  }
}

void PrefillChooser::hear(Nanos now) {
  while (!late_.empty() && late_.front().heard <= now) {
    hear(std::move(late_.front()));
    late_.pop_front();
  }
}

void PrefillChooser::hear(Late late) {
  Known& known = known_[late.instance];
  known.report = std::move(late.report);
  while (known.sent.size() > known.count - late.received) {
    known.sent.pop_front();
  }
  for (const Sent& sent : known.sent) {
    add(known.report, sent);
  }
}

}  // namespace shoal::sim
