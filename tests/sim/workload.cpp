// Everything is drawn when a client comes, from the world's seed.
#include "tests/sim/workload.h"

#include <algorithm>

namespace shoal::sim {

Workload::Workload(World& world, const scenario::Workload& plan) : world_(world), plan_(plan) {}

bool Workload::chance(std::int32_t percent) {
  return static_cast<std::int32_t>(world_.random()() % 100) < percent;
}

std::int64_t Workload::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(
                   world_.random()() %
                   static_cast<std::uint64_t>(std::max<std::int64_t>(1, high - low + 1)));
}

void Workload::schedule() {
  Nanos at{0};
  to_come_ = plan_.requests() + plan_.burst();
  for (int i = 0; i < plan_.requests(); ++i) {
    world_.timeline().after(at, [this] { arrive(); });
    at += std::chrono::microseconds(between(0, 2 * plan_.gap_us()));
  }
  for (int i = 0; i < plan_.burst(); ++i) {
    world_.timeline().after(std::chrono::milliseconds(plan_.burst_at_ms()), [this] { arrive(); });
  }
}

// At a gateway that listens; where none does, the client finds the connection refused.
void Workload::arrive() {
  --to_come_;
  const std::vector<NodeId> gateways = listening();
  if (!gateways.empty()) {
    ask(gateways[world_.random()() % gateways.size()], false);
  }
}

std::vector<NodeId> Workload::listening() const {
  std::vector<NodeId> gateways;
  for (std::uint32_t n = 0; n < world_.size(); ++n) {
    const NodeId node{n};
    if (world_.alive(node) && world_.has_clients(node) && !world_.paused(node) &&
        !world_.draining(node)) {
      gateways.push_back(node);
    }
  }
  return gateways;
}

void Workload::probe() {
  first_probe_ = std::min(first_probe_, asked_.size());
  for (const NodeId gateway : listening()) {
    ask(gateway, true);
  }
}

void Workload::ask(NodeId gateway, bool plain) {
  const int answer = static_cast<int>(between(plan_.answer_min(), plan_.answer_max()));
  testing::Wanted wanted =
      testing::wanted(world_.random()(), between(plan_.prompt_min(), plan_.prompt_max()), answer);
  ask(gateway, std::move(wanted), plain ? 0 : 1);
}

// Turn 0: a plain one that goes on to its end.
void Workload::ask(NodeId gateway, testing::Wanted wanted, int turn) {
  testing::Clients& clients = world_.clients(gateway);
  watch(clients);
  const bool plain = turn == 0;
  const std::int64_t answer = wanted.sampling.max_tokens;
  const Instant now = world_.now_at(gateway);
  wanted.mode = chance(plan_.exact_percent()) ? BasisMode::kExact : BasisMode::kBounded;
  wanted.deadline = now + std::chrono::minutes(5);
  if (!plain && chance(plan_.deadline_percent())) {
    wanted.deadline = now + std::chrono::milliseconds(plan_.deadline_ms());
  }
  wanted.reads_per_s = !plain && chance(plan_.slow_percent()) ? plan_.slow_reads_per_s() : 0;
  Asked one{&clients, gateway, {}, wanted.deadline, 0, turn};
  const bool leaves = !plain && chance(plan_.leave_percent());
  if (!plain && !leaves && answer > 2 && chance(plan_.stop_percent())) {
    one.stop_after = between(1, answer - 1);
  }
  const auto leaves_after = static_cast<std::size_t>(between(0, answer));
  one.request = clients.ask(wanted);
  asked_.push_back(one);
  if (leaves && leaves_after > 0) {
    leaving_.push_back({one.request, leaves_after});
  } else if (leaves) {
    world_.timeline().after(std::chrono::microseconds(between(0, 20'000)),
                            [&clients, request = one.request] {
                              if (!clients.answer(request).over()) {
                                clients.leave(request);
                              }
                            });
  }
}

// The next turn has the whole conversation so far in front of the user's new words.
void Workload::ended(testing::Clients& clients, RequestId request) {
  const auto one = std::find_if(
      asked_.rbegin(), asked_.rend(), [request](const Asked& a) { return a.request == request; });
  if (one == asked_.rend() || one->turn == 0 || one->turn >= plan_.turns() ||
      clients.answer(request).error) {
    return;
  }
  ++to_come_;
  std::vector<TokenId> talk = clients.asked(request).prompt;
  const testing::Answer answer = clients.answer(request);
  talk.insert(talk.end(), answer.tokens.begin(), answer.tokens.end());
  world_.timeline().after(
      std::chrono::microseconds(between(0, 2 * plan_.think_us())),
      [this, talk = std::move(talk), turn = one->turn + 1]() mutable {
        --to_come_;
        const std::vector<NodeId> gateways = listening();
        testing::Wanted wanted =
            testing::wanted(world_.random()(),
                            between(plan_.prompt_min(), plan_.prompt_max()),
                            static_cast<int>(between(plan_.answer_min(), plan_.answer_max())));
        wanted.prompt.insert(wanted.prompt.begin(), talk.begin(), talk.end());
        const bool fits =
            static_cast<Position>(wanted.prompt.size()) + wanted.sampling.max_tokens <=
            world_.context();
        if (!gateways.empty() && fits) {
          ask(gateways[world_.random()() % gateways.size()], std::move(wanted), turn);
        }
      });
}

void Workload::watch(testing::Clients& clients) {
  if (std::find(watched_.begin(), watched_.end(), &clients) != watched_.end()) {
    return;
  }
  watched_.push_back(&clients);
  clients.on_end([this, &clients](RequestId request) { ended(clients, request); });
  clients.on_tokens([this, &clients](RequestId request, std::size_t answered) {
    const auto one = std::find_if(
        asked_.rbegin(), asked_.rend(), [request](const Asked& a) { return a.request == request; });
    if (one == asked_.rend() || clients.answer(request).over()) {
      return;
    }
    if (one->stop_after > 0 && static_cast<std::int64_t>(answered) >= one->stop_after) {
      clients.stop_at(
          request, static_cast<Position>(clients.asked(request).prompt.size()) + one->stop_after);
      return;
    }
    const auto leaving = std::find_if(leaving_.begin(), leaving_.end(), [request](const auto& l) {
      return l.request == request;
    });
    if (leaving != leaving_.end() && answered >= leaving->after) {
      clients.leave(request);
    }
  });
}

}  // namespace shoal::sim
