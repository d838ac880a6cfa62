// Everything that no trace says is drawn when a client comes, from the world's seed.
#include "tests/sim/workload.h"

#include <algorithm>
#include <utility>

namespace shoal::sim {
namespace {

constexpr Nanos kDeadline = std::chrono::minutes(5);

}  // namespace

Workload::Workload(World& world, const scenario::Workload& plan, std::optional<Trace> trace)
    : world_(world),
      plan_(plan),
      trace_(std::move(trace)) {}

bool Workload::chance(std::int32_t percent) {
  return static_cast<std::int32_t>(world_.random()() % 100) < percent;
}

std::int64_t Workload::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(
                   world_.random()() %
                   static_cast<std::uint64_t>(std::max<std::int64_t>(1, high - low + 1)));
}

Nanos Workload::longest() const {
  return std::max<Nanos>(std::chrono::minutes(10),
                         trace_ ? trace_->longest(2 * kDeadline) : Nanos{0});
}

void Workload::schedule() {
  began_ = world_.now();
  if (trace_) {
    to_come_ = static_cast<std::int64_t>(trace_->size());
    for (const Trace::Coming& coming : trace_->arrivals()) {
      send(coming);
    }
    return;
  }
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

void Workload::arrive() {
  --to_come_;
  if (const auto gateway = pick_gateway()) {
    ask(*gateway, false);
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

// One that listens; where none does, the client finds the connection refused.
std::optional<NodeId> Workload::pick_gateway() {
  const std::vector<NodeId> gateways = listening();
  if (gateways.empty()) {
    ++unsent_["refused"];
    return std::nullopt;
  }
  return gateways[world_.random()() % gateways.size()];
}

bool Workload::fits(std::int64_t prompt, std::int64_t answer) {
  const bool fits = prompt + answer <= world_.context();
  if (!fits) {
    ++unsent_["too_long"];
  }
  return fits;
}

void Workload::probe() {
  first_probe_ = std::min(first_probe_, asked_.size());
  for (const NodeId gateway : listening()) {
    ask(gateway, true);
  }
}

void Workload::ask(NodeId gateway, bool plain) {
  ask(gateway, drawn(), {.turn = plain ? 0 : 1});
}

testing::Wanted Workload::drawn() {
  const int answer = static_cast<int>(between(plan_.answer_min(), plan_.answer_max()));
  testing::Wanted wanted =
      testing::wanted(world_.random()(), between(plan_.prompt_min(), plan_.prompt_max()), answer);
  if (plan_.texts() > 0) {
    const auto text = static_cast<std::uint64_t>(between(1, plan_.texts()));
    wanted.prompt = testing::wanted(text, std::ssize(wanted.prompt), answer).prompt;
  }
  if (plan_.tenants() > 1) {
    wanted.tenant = "tenant " + std::to_string(between(1, plan_.tenants()));
  }
  if (plan_.penalty_percent() > 0 && chance(plan_.penalty_percent())) {
    penalise(wanted.sampling);
  }
  return wanted;
}

// Tokens of the built-in model's text are likely ones.
void Workload::penalise(Sampling& sampling) {
  const auto token = [this] { return static_cast<TokenId>(between(10, 900)); };
  sampling.repetition_penalty = 1.0F + static_cast<float>(between(0, 4)) / 4;
  sampling.frequency_penalty = static_cast<float>(between(-2, 4)) / 2;
  sampling.presence_penalty = static_cast<float>(between(-2, 4)) / 2;
  for (int i = 0; i < 40; ++i) {
    sampling.logit_bias.emplace_back(token(), static_cast<float>(between(-8, 8)));
    sampling.bad_words.push_back({token()});
    sampling.bad_words.push_back({token(), token()});
  }
}

void Workload::ask(NodeId gateway, testing::Wanted wanted, Asked one) {
  testing::Clients& clients = world_.clients(gateway);
  watch(clients);
  const bool plain = one.turn == 0;
  const std::int64_t answer = wanted.sampling.max_tokens;
  const Instant now = world_.now_at(gateway);
  wanted.mode = chance(plan_.exact_percent()) ? BasisMode::kExact : BasisMode::kBounded;
  wanted.deadline = now + kDeadline;
  if (!plain && chance(plan_.deadline_percent())) {
    wanted.deadline = now + std::chrono::milliseconds(plan_.deadline_ms());
  }
  wanted.reads_per_s = !plain && chance(plan_.slow_percent()) ? plan_.slow_reads_per_s() : 0;
  one.clients = &clients;
  one.gateway = gateway;
  one.deadline = wanted.deadline;
  const bool leaves = !plain && chance(plan_.leave_percent());
  if (!plain && !leaves && answer > 2 && chance(plan_.stop_percent())) {
    one.stop_after = between(1, answer - 1);
  }
  const auto leaves_after = static_cast<std::size_t>(between(0, answer));
  one.request = clients.ask(wanted);
  by_request_.emplace(one.request.value, asked_.size());
  asked_.push_back(one);
  if (leaves) {
    leave_later(one, leaves_after);
  }
  if (one.traced && clients.answer(one.request).over()) {
    on_over(clients, one.request);  // within ask, when nobody knew it yet
  }
}

void Workload::leave_later(const Asked& one, std::size_t after) {
  if (after > 0) {
    leaving_.emplace(one.request.value, after);
    return;
  }
  world_.timeline().after(std::chrono::microseconds(between(0, 20'000)),
                          [clients = one.clients, request = one.request] {
                            if (!clients->answer(request).over()) {
                              clients->leave(request);
                            }
                          });
}

void Workload::watch(testing::Clients& clients) {
  if (std::find(watched_.begin(), watched_.end(), &clients) != watched_.end()) {
    return;
  }
  watched_.push_back(&clients);
  clients.on_over([this, &clients](RequestId request) { on_over(clients, request); });
  clients.on_tokens([this, &clients](RequestId request, std::size_t answered) {
    on_tokens(clients, request, answered);
  });
}

void Workload::on_tokens(testing::Clients& clients, RequestId request, std::size_t answered) {
  const auto known = by_request_.find(request.value);
  if (known == by_request_.end()) {
    return;
  }
  const std::int64_t stop_after = asked_[known->second].stop_after;
  const auto leaving = leaving_.find(request.value);
  const bool stops = stop_after > 0 && static_cast<std::int64_t>(answered) >= stop_after;
  const bool leaves = leaving != leaving_.end() && answered >= leaving->second;
  if ((!stops && !leaves) || clients.answer(request).over()) {
    return;
  }
  if (stops) {
    const auto prompt = static_cast<Position>(clients.asked(request).prompt.size());
    clients.stop_at(request, prompt + stop_after);
  } else {
    clients.leave(request);
  }
}

void Workload::on_over(testing::Clients& clients, RequestId request) {
  const auto known = by_request_.find(request.value);
  if (known == by_request_.end()) {
    return;
  }
  const Asked& one = asked_[known->second];
  if (one.traced) {
    go_on_after(*one.traced);
  } else if (one.turn > 0 && one.turn < plan_.turns()) {
    next_turn(clients.asked(request), clients.answer(request), one.turn + 1);
  }
}

// It has the whole conversation so far in front of the user's new words.
void Workload::next_turn(testing::Wanted before, const testing::Answer& answer, int turn) {
  if (answer.error || answer.left || answer.cut || answer.reset) {
    return;
  }
  ++to_come_;
  std::vector<TokenId> talk = std::move(before.prompt);
  talk.insert(talk.end(), answer.tokens.begin(), answer.tokens.end());
  const std::string tenant = before.tenant;
  world_.timeline().after(std::chrono::microseconds(between(0, 2 * plan_.think_us())),
                          [this, talk = std::move(talk), tenant, turn] {
                            --to_come_;
                            testing::Wanted wanted = testing::wanted(
                                world_.random()(),
                                between(plan_.prompt_min(), plan_.prompt_max()),
                                static_cast<int>(between(plan_.answer_min(), plan_.answer_max())));
                            wanted.tenant = tenant;
                            wanted.prompt.insert(wanted.prompt.begin(), talk.begin(), talk.end());
                            if (!fits(std::ssize(wanted.prompt), wanted.sampling.max_tokens)) {
                              return;
                            }
                            if (const auto gateway = pick_gateway()) {
                              ask(*gateway, std::move(wanted), {.turn = turn});
                            }
                          });
}

void Workload::send(const Trace::Coming& coming) {
  world_.timeline().after(coming.after, [this, traced = coming.request] { send(traced); });
}

void Workload::send(std::size_t traced) {
  --to_come_;
  const auto answer = static_cast<int>(trace_->answer_tokens(traced));
  const bool possible = fits(trace_->prompt_tokens(traced), answer);
  const auto gateway = possible ? pick_gateway() : std::nullopt;
  if (!gateway) {
    go_on_after(traced);
    return;
  }
  testing::Wanted wanted = testing::wanted(world_.random()(), 0, answer);
  wanted.prompt = trace_->prompt(traced);
  ask(*gateway, std::move(wanted), {.traced = traced});
}

// Whatever became of a turn, its session goes on.
void Workload::go_on_after(std::size_t traced) {
  if (const auto next = trace_->next_turn(traced, world_.now() - began_)) {
    send(*next);
  }
}

}  // namespace shoal::sim
