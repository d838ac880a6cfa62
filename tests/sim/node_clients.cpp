// Streams driven by deliveries, failures and time, with every submission and stop sent back to the
// front door.
#include "tests/sim/node_clients.h"

#include <algorithm>
#include <random>
#include <utility>

#include "actors/policy/answer_end.h"
#include "actors/policy/kv_budget.h"

namespace shoal::testing {

Wanted wanted(std::uint64_t seed, std::int64_t prompt_tokens, int max_tokens) {
  std::mt19937_64 random(seed);
  Wanted request;
  for (std::int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(3 + random() % 500));
  }
  request.sampling.max_tokens = max_tokens;
  request.sampling.seed = seed;
  request.sampling.has_seed = true;
  return request;
}

namespace {

kernels::SimHistory history_of(std::span<const TokenId> tokens, const BasisFrom& under) {
  const auto hit = static_cast<std::size_t>(under.basis.hit);
  kernels::SimHistory history =
      under.loaded ? kernels::SimHistory(*under.loaded) : kernels::SimHistory(tokens.first(hit));
  for (std::size_t i = hit; i < tokens.size(); ++i) {
    if (i == hit && hit > 0) {
      history.add_behind_hit(tokens[i], under.basis.replay_floor);
    } else {
      history.add(tokens[i]);
    }
  }
  return history;
}

}  // namespace

std::vector<TokenId> sim_answer(const kernels::SimModel& model,
                                const Wanted& request,
                                const std::vector<BasisFrom>& bases,
                                Position context) {
  const auto prompt = static_cast<Position>(request.prompt.size());
  const AnswerRules rules = answer_rules(
      request.sampling, answer_ceiling(prompt, request.sampling.max_tokens, context), 1);
  std::vector<TokenId> all = request.prompt;
  auto under = bases.begin();
  kernels::SimHistory history = history_of(all, *under);
  for (std::size_t count = 1;; ++count) {
    while (std::next(under) != bases.end() && std::next(under)->from < count) {
      history = history_of(all, *++under);
    }
    kernels::SampleSpec spec;
    spec.seed = request.sampling.seed;
    spec.choice = request.choice;
    spec.forbidden = forbidden_tokens(rules, static_cast<std::int64_t>(count) - 1);
    all.push_back(kernels::sim_token(
        model, spec, under->basis.replay_floor, under->basis.tail_start, history));
    history.add(all.back());
    if (answer_end(rules, static_cast<std::int64_t>(count), all.back()) != AnswerEnd::kGoesOn) {
      return {all.begin() + prompt, all.end()};
    }
  }
}

std::vector<TokenId> sim_answer(const kernels::SimModel& model,
                                const Wanted& request,
                                const Basis& basis,
                                Position context) {
  return sim_answer(model, request, std::vector<BasisFrom>{{0, basis}}, context);
}

Clients::Clients(FrontDoor& door, std::function<Instant()> clock, const StreamLimits& limits)
    : door_(door),
      clock_(std::move(clock)),
      limits_(limits),
      next_(door.first_request(0).value) {
  door_.attach(0, *this);
}

RequestId Clients::ask(const Wanted& request) {
  Submission submission;
  submission.prompt = std::make_shared<const std::vector<TokenId>>(request.prompt);
  submission.sampling = request.sampling;
  submission.mode = request.mode;
  submission.choice = request.choice;
  submission.tenant = request.tenant;
  submission.deadline = request.deadline;
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    submission.request = RequestId{next_++};
    const auto [client, added] = clients_.emplace(
        submission.request, Client{Stream(submission, limits_, clock_()), {}, request});
    todo.submissions.push_back(client->second.stream.submission());
    due_ = std::min(due_, client->second.stream.next_due());
    ++open_;
    if (request.reads_per_s > 0) {
      slow_readers_.push_back(submission.request);
    }
  }
  act(std::move(todo));
  return submission.request;
}

void Clients::leave(RequestId request) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    Client& client = clients_.at(request);
    close(client, client.answer.left, todo);
    todo.closed.push_back(request);
  }
  act(std::move(todo));
  changed_.notify_all();
}

void Clients::reset_connections() {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    dead_ = true;
    for (auto& [request, client] : clients_) {
      if (!client.answer.over()) {
        close(client, client.answer.reset, todo);
      }
    }
  }
  act(std::move(todo));
}

// The connection is gone, for one of the reasons.
void Clients::close(Client& client, bool& how, Todo& todo) {
  if (!client.answer.over()) {
    --open_;
    todo.over.push_back(client.stream.request());
  }
  how = true;
  client.stream.on_client_left();
}

std::vector<RequestId> Clients::requests() const {
  const std::lock_guard lock(mutex_);
  std::vector<RequestId> requests;
  for (const auto& [request, client] : clients_) {
    requests.push_back(request);
  }
  return requests;
}

Wanted Clients::asked(RequestId request) const {
  const std::lock_guard lock(mutex_);
  return clients_.at(request).asked;
}

void Clients::stop_at(RequestId request, Position end) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    Client& client = clients_.at(request);
    take(client, client.stream.on_stop_string(end), todo);
  }
  act(std::move(todo));
}

void Clients::deliver(std::vector<TokenRun> runs) {
  Todo todo;
  std::vector<std::pair<RequestId, std::size_t>> answered;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) {
      return;
    }
    for (TokenRun& run : runs) {
      const auto found = clients_.find(run.request);
      if (found == clients_.end()) {
        continue;  // of the process before this one
      }
      Client& client = found->second;
      const std::size_t before = client.answer.tokens.size();
      if (run.basis && run.attempt == client.stream.attempt()) {
        client.answer.bases.push_back({before, *run.basis});
      }
      take(client, client.stream.on_tokens(std::move(run), clock_()), todo);
      read(client, client.answer.tokens.size() - before, todo);
      answered.emplace_back(client.stream.request(), client.answer.tokens.size());
    }
  }
  act(std::move(todo));
  for (const auto& [request, count] : answered) {
    if (on_tokens_) {
      on_tokens_(request, count);
    }
  }
}

void Clients::fail(StreamFailure failure) {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) {
      return;
    }
    if (const auto found = clients_.find(failure.request); found != clients_.end()) {
      take(found->second, found->second.stream.on_failure(failure, clock_()), todo);
    }
  }
  act(std::move(todo));
}

void Clients::pass_time() {
  Todo todo;
  {
    const std::lock_guard lock(mutex_);
    if (clock_() < due_) {
      return;
    }
    due_ = Instant::max();
    for (auto& [request, client] : clients_) {
      if (!client.stream.done() && clock_() >= client.stream.next_due()) {
        take(client, client.stream.on_time(clock_()), todo);
      }
      if (!client.stream.done()) {
        due_ = std::min(due_, client.stream.next_due());
      }
    }
  }
  act(std::move(todo));
}

// A client that reads slower than tokens come is cut off when too many wait for it.
void Clients::read(Client& client, std::size_t arrived, Todo& todo) {
  if (client.asked.reads_per_s == 0 || client.answer.over()) {
    client.unread = 0;
    return;
  }
  const Instant now = clock_();
  if (client.unread > 0) {
    const std::int64_t had = (now - client.read_at).count() * client.asked.reads_per_s /
                             Nanos(std::chrono::seconds(1)).count();
    client.unread = std::max<std::int64_t>(0, client.unread - had);
  }
  client.read_at = now;
  client.unread += static_cast<std::int64_t>(arrived);
  if (client.unread > unread_limit_) {
    close(client, client.answer.cut, todo);
    client.unread = 0;
    todo.closed.push_back(client.stream.request());
  }
}

std::int64_t Clients::most_unread() const {
  const std::lock_guard lock(mutex_);
  std::int64_t most = 0;
  for (const RequestId request : slow_readers_) {
    most = std::max(most, clients_.at(request).unread);
  }
  return most;
}

void Clients::take(Client& client, StreamStep step, Todo& todo) {
  Answer& answer = client.answer;
  const bool was_over = answer.over();
  answer.tokens.insert(answer.tokens.end(), step.tokens.begin(), step.tokens.end());
  answer.basis = client.stream.basis();
  answer.cached_tokens = client.stream.cached_tokens();
  answer.attempts = client.stream.attempt().value;
  answer.retry_after = step.retry_after ? step.retry_after : answer.retry_after;
  for (const StreamStop& stop : step.stops) {
    todo.stops.emplace_back(client.stream.request(), stop);
  }
  if (step.finish != Finish::kNone) {
    answer.finish = step.finish;
    ++answer.terminal_events;
    answer.ended = clock_();
  }
  if (step.error) {
    answer.error = step.error;
    ++answer.terminal_events;
    answer.ended = clock_();
    todo.closed.push_back(client.stream.request());
  }
  if (step.submit) {
    todo.submissions.push_back(std::move(*step.submit));
  }
  if (answer.over() && !was_over) {
    --open_;
    todo.over.push_back(client.stream.request());
  }
  if (!client.stream.done()) {
    due_ = std::min(due_, client.stream.next_due());
  }
}

// Unlocked: the front door may answer within the call.
void Clients::act(Todo todo) {
  for (const auto& [request, stop] : todo.stops) {
    door_.stop(request, stop.attempt, stop.end);
  }
  for (Submission& submission : todo.submissions) {
    door_.submit(std::move(submission));
  }
  for (const RequestId request : todo.closed) {
    door_.closed(request);
  }
  for (const RequestId request : todo.over) {
    if (on_over_) {
      on_over_(request);
    }
  }
  changed_.notify_all();
}

Answer Clients::answer(RequestId request) const {
  const std::lock_guard lock(mutex_);
  return clients_.at(request).answer;
}

std::size_t Clients::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

bool Clients::wait(const std::function<bool()>& until, Nanos limit) {
  const Instant end = clock_() + limit;
  while (!until()) {
    if (clock_() >= end) {
      return false;
    }
    pass_time();
    std::unique_lock lock(mutex_);
    // The condition is read without this lock held, so a wake-up may be missed: look again soon.
    changed_.wait_for(lock, std::chrono::milliseconds(2));
  }
  return true;
}

bool Clients::wait_until_all_over(Nanos limit) {
  return wait([this] { return open() == 0; }, limit);
}

bool Clients::wait_for_tokens(RequestId request, std::size_t count, Nanos limit) {
  return wait([this, request, count] { return answer(request).tokens.size() >= count; }, limit);
}

}  // namespace shoal::testing
