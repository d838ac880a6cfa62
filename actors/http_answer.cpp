// Streams to events: see the header.
#include "actors/http_answer.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr std::string_view kKeepAlive = ": keep-alive\n\n";

HttpError too_many(const HttpLimits& limits, std::string_view whose, std::size_t limit) {
  return {.status = 429,
          .message = std::string(whose) + " has " + std::to_string(limit) +
                     " answers in progress, the most allowed; try again when one is complete",
          .code = "rate_limit_exceeded",
          .retry_after = limits.retry_after};
}

// Adds unless that would pass the limit.
bool take(std::atomic<std::size_t>& counter, std::size_t count, std::size_t limit) {
  if (counter.fetch_add(count) + count <= limit)
    return true;
  counter.fetch_sub(count);
  return false;
}

}  // namespace

HttpAnswer::HttpAnswer(AnswerHost& host,
                       HttpResponder& responder,
                       Tenant& tenant,
                       std::string request_id)
    : host_(host),
      responder_(responder),
      tenant_(tenant),
      request_id_(std::move(request_id)),
      received_(host.now()),
      last_sent_(received_) {}

HttpAnswer::~HttpAnswer() {
  close_choices();
  tenant_.choices_in_flight.fetch_sub(slots_);
  host_.choices_in_flight().fetch_sub(slots_);
}

void HttpAnswer::start(Prepared prepared) {
  CHECK(choices_.empty() && !ended_);
  if (auto* done = std::get_if<HttpReply>(&prepared))
    return reply(std::move(*done));
  auto& plan = std::get<AnswerPlan>(prepared);
  if (!take_slots(plan.choices))
    return;
  wants_events_ = plan.stream;
  format_ = std::move(plan.format);
  submit_choices(plan);
}

bool HttpAnswer::take_slots(std::uint32_t choices) {
  const HttpLimits& limits = host_.config().limits;
  if (!take(host_.choices_in_flight(), choices, limits.choices_in_flight)) {
    fail(too_many(limits, "the server", limits.choices_in_flight));
    return false;
  }
  if (!take(tenant_.choices_in_flight, choices, limits.choices_per_key)) {
    host_.choices_in_flight().fetch_sub(choices);
    fail(too_many(limits, "this key", limits.choices_per_key));
    return false;
  }
  slots_ = choices;
  return true;
}

void HttpAnswer::submit_choices(const AnswerPlan& plan) {
  const Nanos timeout = plan.timeout.value_or(host_.config().limits.request_timeout);
  Submission submission{.request = {},
                        .attempt = AttemptId{1},
                        .gateway = {},
                        .shard = host_.shard(),
                        .choice = 0,
                        .prompt = plan.prompt,
                        .forced = {},
                        .sampling = plan.sampling,
                        .mode = plan.mode,
                        .basis = std::nullopt,
                        .deadline = received_ + timeout,
                        .tenant = tenant_.name,
                        .ttl = plan.names_ttl ? plan.ttl : tenant_.ttl.value_or(plan.ttl)};
  if (!submission.sampling.has_seed) {
    submission.sampling.seed = host_.random();
    submission.sampling.has_seed = true;
  }
  std::vector<RequestId> requests;
  for (std::uint32_t choice = 0; choice < plan.choices; ++choice) {
    submission.choice = choice;
    submission.request = host_.expect_tokens(*this, choice);
    requests.push_back(submission.request);
    choices_.push_back({.stream = Stream(submission, host_.stream_limits(), host_.now())});
    host_.metrics().choices_waiting.fetch_add(1);
    host_.metrics().prompt_tokens.fetch_add(static_cast<std::int64_t>(plan.prompt->size()));
  }
  host_.remember(tenant_, {plan.id, request_id_}, requests);
  for (const Choice& choice : choices_)
    host_.front_door().submit(choice.stream.submission());
}

void HttpAnswer::on_tokens(std::uint32_t choice, TokenRun run) {
  act(choice, choices_[choice].stream.on_tokens(std::move(run), host_.now()));
}

void HttpAnswer::on_failure(std::uint32_t choice, const StreamFailure& failure) {
  act(choice, choices_[choice].stream.on_failure(failure, host_.now()));
}

void HttpAnswer::act(std::uint32_t choice, StreamStep step) {
  Choice& self = choices_[choice];
  if (!step.tokens.empty() || step.finish != Finish::kNone) {
    if (auto sent = send_tokens(choice, step); !sent)
      return fail(http_error(sent.error()));
  }
  for (const StreamStop& stop : step.stops)
    host_.front_door().stop(self.stream.request(), stop.attempt, stop.end);
  if (step.submit) {
    host_.metrics().retries.fetch_add(1);
    host_.front_door().submit(*std::move(step.submit));
  }
  if (step.error)
    return fail(http_error(*step.error, step.retry_after));
  if (self.stream.done())
    finish_choice(choice);
  send_events();
}

Result<void> HttpAnswer::send_tokens(std::uint32_t choice, StreamStep& step) {
  Choice& self = choices_[choice];
  count_tokens(self, step.tokens.size());
  self.finish = step.finish;
  const ChoiceTokens tokens{.choice = choice,
                            .tokens = step.tokens,
                            .logprobs = step.logprobs,
                            .finish = step.finish,
                            .stop_token = step.stop_token};
  TRY(const auto counted, format_->add(tokens, events_));
  if (!counted)
    return {};
  self.finish = Finish::kStop;
  const StreamStep stopped = self.stream.on_stop_string(self.stream.prompt_tokens() + *counted);
  step.stops.insert(step.stops.end(), stopped.stops.begin(), stopped.stops.end());
  return {};
}

void HttpAnswer::count_tokens(Choice& choice, std::size_t tokens) {
  HttpMetrics& metrics = host_.metrics();
  const Instant now = host_.now();
  if (choice.last_tokens) {
    metrics.between_tokens.observe(now - *choice.last_tokens);
  } else {
    metrics.first_token.observe(now - received_);
    metrics.choices_waiting.fetch_sub(1);
    metrics.choices_running.fetch_add(1);
    metrics.cached_tokens.fetch_add(choice.stream.cached_tokens());
  }
  choice.last_tokens = now;
  metrics.generation_tokens.fetch_add(static_cast<std::int64_t>(tokens), std::memory_order_relaxed);
}

void HttpAnswer::finish_choice(std::uint32_t choice) {
  Choice& self = choices_[choice];
  format_->finish(choice, self.stream.cached_tokens(), events_);
  (self.finish == Finish::kLength ? host_.metrics().finished_length : host_.metrics().finished_stop)
      .fetch_add(1);
  leave(self);
  if (std::ranges::all_of(choices_, &Choice::left))
    end();
}

void HttpAnswer::end() {
  host_.metrics().whole_request.observe(host_.now() - received_);
  if (wants_events_) {
    format_->end(events_);
    send_events();
    ended_ = true;
    responder_.end_events();
    return;
  }
  HttpReply whole;
  format_->end(whole.body);
  reply(std::move(whole));
}

void HttpAnswer::fail(const HttpError& error) {
  host_.metrics().finished_error.fetch_add(1);
  close_choices();
  if (!streaming_)
    return reply(error_reply(error));
  events_.append("data: ").append(error_body(error_shape(error))).append("\n\n");
  send_events();
  ended_ = true;
  responder_.end_events();
}

void HttpAnswer::reply(HttpReply reply) {
  ended_ = true;
  responder_.reply(std::move(reply));
}

void HttpAnswer::send_events() {
  if (events_.empty() || ended_)
    return;
  if (!streaming_) {
    streaming_ = true;
    responder_.begin_events();
  }
  responder_.events(events_);
  events_.clear();
  last_sent_ = host_.now();
}

void HttpAnswer::leave(Choice& choice) {
  choice.left = true;
  host_.expect_no_tokens(choice.stream.request());
  (choice.last_tokens ? host_.metrics().choices_running : host_.metrics().choices_waiting)
      .fetch_sub(1);
}

void HttpAnswer::close_choices() {
  for (Choice& choice : choices_) {
    if (choice.left)
      continue;
    choice.stream.on_client_left();
    host_.front_door().closed(choice.stream.request());
    leave(choice);
  }
}

void HttpAnswer::on_client_left() {
  ended_ = true;
  close_choices();
}

void HttpAnswer::on_shutdown() {
  if (!ended_)
    fail(shutting_down(host_.config().limits.retry_after));
}

void HttpAnswer::on_tick(Instant now) {
  for (std::uint32_t choice = 0; choice < choices_.size() && !ended_; ++choice) {
    if (!choices_[choice].left && now >= choices_[choice].stream.next_due())
      act(choice, choices_[choice].stream.on_time(now));
  }
  if (wants_events_ && !ended_ && now - last_sent_ >= host_.config().keep_alive_comment) {
    events_ += kKeepAlive;
    send_events();
  }
}

}  // namespace shoal
