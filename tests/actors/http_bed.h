// A server on a free port over a front door and a clock that the test drives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/front_door.h"
#include "actors/http_server.h"
#include "actors/log.h"

namespace shoal::test {

// Remembers what it was asked, answers only when the test says so.
class FakeFrontDoor final : public FrontDoor {
 public:
  struct Stopped {
    RequestId request;
    AttemptId attempt;
    Position end = 0;
  };

  void attach(std::uint32_t shard, ShardInbox& inbox) override;
  void submit(Submission submission) override;
  void stop(RequestId request, AttemptId attempt, Position end) override;
  void closed(RequestId request) override;
  NodeHealth health() const override;
  std::optional<RequestTimeline> explain(RequestId request) const override;

  // Each waits for the next one, and throws when none comes.
  Submission next_submission();
  Stopped next_stop();
  RequestId next_closed();

  // The answer's tokens from `index` on (0 = first after the prompt).
  void send_tokens(const Submission& to,
                   std::size_t index,
                   std::vector<TokenId> tokens,
                   Finish finish = Finish::kNone);
  void send(const Submission& to, TokenRun run);
  void fail(const Submission& to,
            Error error,
            bool retry,
            std::optional<Nanos> retry_after = std::nullopt);

  // Of every prompt from now on.
  void set_cached_tokens(std::int64_t tokens) { cached_tokens_ = tokens; }

  void set_state(PartState state);
  void set_timeline(const RequestTimeline& timeline);
  void forget_timelines();

  std::size_t submissions_seen() const;

 private:
  template <class T>
  T next(std::deque<T>& queue, std::string_view what);
  template <class T>
  void add(std::deque<T>& queue, T value);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ShardInbox*> inboxes_;
  std::deque<Submission> submissions_;
  std::deque<Stopped> stops_;
  std::deque<RequestId> closed_;
  std::map<RequestId, RequestTimeline> timelines_;
  std::size_t submissions_seen_ = 0;
  std::int64_t cached_tokens_ = 0;
  PartState state_ = PartState::kOk;
};

// Stands still until the test moves it.
class FakeClock {
 public:
  Instant now() const { return Instant(Nanos(ns_.load())); }

  void advance(Nanos by) { ns_.fetch_add(by.count()); }

 private:
  std::atomic<std::int64_t> ns_{1'000'000'000};
};

// Keeps the lines of every level, each behind its level's name.
class LogLines {
 public:
  void add(LogLevel level, std::string_view line);
  // Lines that hold `part`.
  std::size_t count(std::string_view part) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::shared_ptr<const Tokenizer> guppy_tokenizer();

struct HttpBed {
  explicit HttpBed(HttpConfig config = {},
                   std::int64_t context_tokens = 1'024,
                   std::vector<std::string> nodes = {});
  ~HttpBed();

  std::uint16_t port() const { return server->port(); }

  FakeFrontDoor door;
  FakeClock clock;
  LogLines log;
  std::unique_ptr<HttpServer> server;
};

// Text as the ids that the model would send.
std::vector<TokenId> ids_of(std::string_view text);

}  // namespace shoal::test
