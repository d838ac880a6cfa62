// One generation request from its first token to its last byte: one stream per choice, merged into
// one response.
//
// Lives on the thread of its shard. The streams are the truth (actors/stream.h); a format turns
// their tokens into a protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/front_door.h"
#include "actors/http_access.h"
#include "actors/http_config.h"
#include "actors/http_exchange.h"
#include "actors/http_message.h"
#include "actors/http_metrics.h"
#include "actors/stream.h"
#include "schemas/sampling.h"

namespace shoal {

// New tokens of one choice. The token that ended the answer (EOS, a stop token) is among them.
struct ChoiceTokens {
  std::uint32_t choice = 0;
  std::span<const TokenId> tokens;
  std::span<const LogprobEntry> logprobs;  // one per token when asked for
  Finish finish = Finish::kNone;
  TokenId stop_token = -1;
};

// Tokens to the bytes of one protocol. When the request streams, bytes are appended as they become
// known; else all at the end.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // Says how many tokens of the choice's answer count when a stop string ended it among these ones.
  // An error fails the request.
  virtual Result<std::optional<std::int64_t>> add(const ChoiceTokens& tokens,
                                                  std::string& events) = 0;
  // The choice is complete. `cached_tokens` of its prompt were not computed.
  virtual void finish(std::uint32_t choice, std::int64_t cached_tokens, std::string& events) = 0;
  // After every choice: what ends the stream, or the whole body.
  virtual void end(std::string& out) = 0;
};

// What a request asks for, checked and tokenised; everything but when and where.
struct AnswerPlan {
  TokenBuffer prompt;
  Sampling sampling;  // max_tokens is set
  std::string id{};   // of the answer, as its client will read it
  std::uint32_t choices = 1;
  bool stream = false;
  BasisMode mode = BasisMode::kBounded;
  TtlClass ttl = TtlClass::kChat;
  bool names_ttl = false;  // the client did; else that of its key comes first
  std::optional<Nanos> timeout;
  std::unique_ptr<AnswerFormat> format;
};

// A body turned into work, or into its answer already.
using Prepared = std::variant<HttpReply, AnswerPlan>;

class HttpAnswer;

// What an answer needs of its shard.
class AnswerHost {
 public:
  virtual ~AnswerHost() = default;
  virtual FrontDoor& front_door() = 0;
  virtual HttpMetrics& metrics() = 0;
  virtual std::atomic<std::size_t>& choices_in_flight() = 0;  // of all shards
  virtual const HttpConfig& config() const = 0;
  virtual const StreamLimits& stream_limits() const = 0;
  virtual Instant now() const = 0;
  virtual std::uint32_t shard() const = 0;
  virtual std::uint64_t random() = 0;
  virtual RequestId expect_tokens(
      HttpAnswer& answer, std::uint32_t choice) = 0;  // a new id, whose tokens come to `answer`
  virtual void expect_no_tokens(RequestId request) = 0;
  // Both ids that the client is told may be asked about later.
  virtual void remember(const Tenant& tenant,
                        const std::vector<std::string>& ids,
                        const std::vector<RequestId>& choices) = 0;
};

class HttpAnswer final : public HttpExchange {
 public:
  // `request_id`: in the head of the answer.
  HttpAnswer(AnswerHost& host, HttpResponder& responder, Tenant& tenant, std::string request_id);
  ~HttpAnswer() override;

  // Once, at any time: a large body is prepared elsewhere.
  void start(Prepared prepared);

  void on_tokens(std::uint32_t choice, TokenRun run);
  void on_failure(std::uint32_t choice, const StreamFailure& failure);
  void on_client_left() override;
  void on_shutdown() override;
  void on_tick(Instant now) override;

 private:
  struct Choice {
    Stream stream;
    std::optional<Instant> last_tokens{};
    Finish finish = Finish::kNone;
    bool left = false;  // finished, failed or given up: nothing comes any more
  };

  bool take_slots(std::uint32_t choices);
  void submit_choices(const AnswerPlan& plan);
  void act(std::uint32_t choice, StreamStep step);
  Result<void> send_tokens(std::uint32_t choice, StreamStep& step);
  void count_tokens(Choice& choice, std::size_t tokens);
  void finish_choice(std::uint32_t choice);
  void end();
  void fail(const HttpError& error);
  void leave(Choice& choice);
  void close_choices();
  void send_events();
  void reply(HttpReply reply);

  AnswerHost& host_;
  HttpResponder& responder_;
  Tenant& tenant_;
  std::string request_id_;
  Instant received_;
  Instant last_sent_;
  std::unique_ptr<AnswerFormat> format_;
  bool wants_events_ = false;
  bool streaming_ =
      false;  // the head of the events is sent: an error cannot have a status any more
  bool ended_ = false;
  std::vector<Choice> choices_;
  std::size_t slots_ = 0;  // taken from the limits in flight
  std::string events_;     // not handed to the responder yet
};

}  // namespace shoal
