// The scripted front door and the server around it.
#include "tests/actors/http_bed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace shoal::test {
namespace {

constexpr auto kPatience =
    std::chrono::seconds(20);  // far beyond any right answer, even on a busy machine

template <class T>
T value_of(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  return *std::move(result);
}

}  // namespace

template <class T>
void FakeFrontDoor::add(std::deque<T>& queue, T value) {
  {
    const std::lock_guard lock(mutex_);
    queue.push_back(std::move(value));
  }
  changed_.notify_all();
}

template <class T>
T FakeFrontDoor::next(std::deque<T>& queue, std::string_view what) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return !queue.empty(); }))
    throw std::runtime_error("no " + std::string(what) + " came");
  T value = std::move(queue.front());
  queue.pop_front();
  return value;
}

void FakeFrontDoor::attach(std::uint32_t shard, ShardInbox& inbox) {
  const std::lock_guard lock(mutex_);
  if (inboxes_.size() <= shard)
    inboxes_.resize(shard + 1);
  inboxes_[shard] = &inbox;
}

void FakeFrontDoor::submit(Submission submission) {
  {
    const std::lock_guard lock(mutex_);
    ++submissions_seen_;
  }
  add(submissions_, std::move(submission));
}

void FakeFrontDoor::stop(RequestId request, AttemptId attempt, Position end) {
  add(stops_, Stopped{request, attempt, end});
}

void FakeFrontDoor::closed(RequestId request) {
  add(closed_, request);
}

NodeHealth FakeFrontDoor::health() const {
  const std::lock_guard lock(mutex_);
  return {.state = state_,
          .parts = {{.name = "decode",
                     .state = state_,
                     .cause = "",
                     .since_progress = std::chrono::milliseconds(3)}}};
}

Submission FakeFrontDoor::next_submission() {
  return next(submissions_, "submission");
}

FakeFrontDoor::Stopped FakeFrontDoor::next_stop() {
  return next(stops_, "stop");
}

RequestId FakeFrontDoor::next_closed() {
  return next(closed_, "closed");
}

void FakeFrontDoor::send(const Submission& to, TokenRun run) {
  run.request = to.request;
  run.attempt = to.attempt;
  std::vector<TokenRun> runs;
  runs.push_back(std::move(run));
  inboxes_.at(to.shard)->deliver(std::move(runs));
}

void FakeFrontDoor::send_tokens(const Submission& to,
                                std::size_t index,
                                std::vector<TokenId> tokens,
                                Finish finish) {
  TokenRun run;
  run.first_position = static_cast<Position>(to.prompt->size() + index);
  run.finish = finish;
  if (finish == Finish::kStop && !tokens.empty())
    run.stop_token = tokens.back();
  run.tokens = std::move(tokens);
  run.basis = Basis{};
  run.cached_tokens = cached_tokens_;
  send(to, std::move(run));
}

void FakeFrontDoor::fail(const Submission& to,
                         Error error,
                         bool retry,
                         std::optional<Nanos> retry_after) {
  inboxes_.at(to.shard)->fail({.request = to.request,
                               .attempt = to.attempt,
                               .error = std::move(error),
                               .retry = retry,
                               .retry_after = retry_after});
}

void FakeFrontDoor::set_state(PartState state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

std::optional<RequestTimeline> FakeFrontDoor::explain(RequestId request) const {
  const std::lock_guard lock(mutex_);
  const auto found = timelines_.find(request);
  return found == timelines_.end() ? std::nullopt : std::optional(found->second);
}

void FakeFrontDoor::set_timeline(const RequestTimeline& timeline) {
  const std::lock_guard lock(mutex_);
  timelines_[timeline.request] = timeline;
}

void FakeFrontDoor::forget_timelines() {
  const std::lock_guard lock(mutex_);
  timelines_.clear();
}

std::size_t FakeFrontDoor::submissions_seen() const {
  const std::lock_guard lock(mutex_);
  return submissions_seen_;
}

void LogLines::add(LogLevel level, std::string_view line) {
  constexpr std::array<std::string_view, 4> kNames = {"debug ", "info ", "warning ", "error "};
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::string(kNames[static_cast<std::size_t>(level)]).append(line));
}

std::size_t LogLines::count(std::string_view part) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(
      lines_, [part](const std::string& line) { return line.find(part) != line.npos; }));
}

std::shared_ptr<const Tokenizer> guppy_tokenizer() {
  static const auto tokenizer = value_of(Tokenizer::load(SHOAL_MODELS_DIR "/guppy/tokenizer.json"));
  return tokenizer;
}

HttpBed::HttpBed(HttpConfig config, std::int64_t context_tokens, std::vector<std::string> nodes) {
  config.port = 0;
  config.tick = std::chrono::milliseconds(2);
  const auto tokenizer = guppy_tokenizer();
  const auto profile = value_of(make_profile(detect_generation(*tokenizer), *tokenizer));
  HttpParts parts{.front_door = door,
                  .model = {.names = {"guppy", "default"},
                            .context_tokens = context_tokens,
                            .vocabulary_size = tokenizer->vocabulary_size(),
                            .created = 1'790'000'000,
                            .tokenizer = tokenizer,
                            .profile = std::make_shared<const ModelProfile>(profile)},
                  .clocks = {.now = [this] { return clock.now(); },
                             .unix_seconds = [] { return std::int64_t{1'800'000'000}; }},
                  .seed = 7,
                  .version = "1.2.3",
                  .nodes = std::move(nodes),
                  .log = EventLog(LogLevel::kDebug, [this](LogLevel level, std::string_view line) {
                    log.add(level, line);
                  })};
  server = value_of(HttpServer::start(std::move(config), std::move(parts)));
}

HttpBed::~HttpBed() {
  if (server)
    server->stop();
}

std::vector<TokenId> ids_of(std::string_view text) {
  return guppy_tokenizer()->encode(text);
}

}  // namespace shoal::test
