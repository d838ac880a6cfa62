// Requests to answers, and arrivals from the actors to the answers they belong to.
#include "actors/http_shard.h"

#include <algorithm>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr std::size_t kRequestIdBytes = 128;
constexpr std::size_t kStampLetters = 24;

// Safe to log and to send back.
bool is_sane_id(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytes && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
}

}  // namespace

// The shard's number is in the top bits of its request ids, so that no two shards ever make the
// same one.
HttpShard::HttpShard(std::uint32_t index, HttpService& service, HttpWorker& worker)
    : index_(index),
      service_(service),
      worker_(worker),
      random_state_(service.parts().seed + (std::uint64_t{index} << 32)),
      next_request_(service.parts().front_door.first_request(index)) {}

std::optional<HttpReply> HttpShard::refuse(const HttpRequest& head) {
  return service_.refuse(head, draining_);
}

std::string HttpShard::request_id(const HttpRequest& request) {
  const std::string_view given = request.field("x-request-id");
  return is_sane_id(given) ? std::string(given) : "req-" + make_stamp().id;
}

std::shared_ptr<HttpExchange> HttpShard::answer(HttpRequest request, HttpResponder& responder) {
  const auto match = match_route(request);
  CHECK(match.has_value());  // refuse() saw to the rest
  if (has_body(match->route))
    return answer_body(std::move(request), match->route, responder);
  if (match->route == Route::kRequest) {
    const Tenant* tenant = service_.tenant_of(request);
    CHECK(tenant != nullptr);
    responder.reply(service_.request_page(*tenant, match->rest));
  } else {
    responder.reply(service_.page(*match, draining_));
  }
  return nullptr;
}

std::shared_ptr<HttpExchange> HttpShard::answer_body(HttpRequest request,
                                                     Route route,
                                                     HttpResponder& responder) {
  Tenant* tenant = service_.tenant_of(request);
  CHECK(tenant != nullptr);
  AnswerHost& host = *this;
  auto answer = std::make_shared<HttpAnswer>(host, responder, *tenant, request.id);
  const AnswerStamp stamp = make_stamp();
  if (request.body.size() <= config().limits.inline_body_bytes) {
    answer->start(service_.prepare(request, route, stamp));
  } else if (!prepare_elsewhere(std::move(request), route, stamp, answer)) {
    answer->start(error_reply({.status = 503,
                               .message = "too many large requests are waiting; try again later",
                               .code = "no_capacity",
                               .retry_after = config().limits.retry_after}));
  }
  return answer;
}

// Counted until it is freed, whoever holds it last.
std::shared_ptr<const HttpRequest> HttpShard::counted(HttpRequest request) {
  const auto bytes = static_cast<std::int64_t>(request.body.size());
  Counter& gauge = metrics().body_bytes;
  gauge.fetch_add(bytes);
  return {new HttpRequest(std::move(request)), [&gauge, bytes](const HttpRequest* freed) {
            delete freed;
            gauge.fetch_sub(bytes);
          }};
}

bool HttpShard::prepare_elsewhere(HttpRequest request,
                                  Route route,
                                  AnswerStamp stamp,
                                  const std::shared_ptr<HttpAnswer>& answer) {
  return worker_.push([this,
                       held = counted(std::move(request)),
                       route,
                       stamp = std::move(stamp),
                       waiting = std::weak_ptr(answer)] {
    auto prepared = std::make_shared<Prepared>(service_.prepare(*held, route, stamp));
    post_([waiting, prepared] {
      if (const auto still_there = waiting.lock())
        still_there->start(std::move(*prepared));
    });
  });
}

// Splitmix64: ids and seeds need spread, not secrecy.
std::uint64_t HttpShard::random() {
  std::uint64_t z = random_state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

AnswerStamp HttpShard::make_stamp() {
  constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuv";  // five bits each
  AnswerStamp stamp{.id = {}, .created = service_.parts().clocks.unix_seconds()};
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kStampLetters; ++i, bits >>= 5) {
    if (i % 12 == 0)
      bits = random();
    stamp.id += kAlphabet[bits % kAlphabet.size()];
  }
  return stamp;
}

RequestId HttpShard::expect_tokens(HttpAnswer& answer, std::uint32_t choice) {
  const RequestId request{next_request_.value++};
  listeners_.emplace(request, Listener{&answer, choice});
  return request;
}

// The first arrival wakes the thread; those that come before it looks leave together.
template <class Fill>
void HttpShard::hand_over(Fill fill) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = arrivals_.empty();
    fill(arrivals_);
  }
  if (was_empty)
    post_([this] { take_arrivals(); });
}

void HttpShard::deliver(std::vector<TokenRun> runs) {
  if (runs.empty())
    return;
  hand_over([&runs](std::vector<Arrival>& arrivals) {
    std::ranges::move(runs, std::back_inserter(arrivals));
  });
}

void HttpShard::fail(StreamFailure failure) {
  hand_over(
      [&failure](std::vector<Arrival>& arrivals) { arrivals.emplace_back(std::move(failure)); });
}

void HttpShard::take_arrivals() {
  std::vector<Arrival> arrivals;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(arrivals_);
  }
  for (Arrival& arrival : arrivals) {
    const RequestId request = std::visit([](const auto& event) { return event.request; }, arrival);
    const auto found = listeners_.find(request);
    if (found == listeners_.end())
      continue;  // closed before: the node was told then
    const auto [answer, choice] = found->second;
    if (auto* run = std::get_if<TokenRun>(&arrival)) {
      answer->on_tokens(choice, std::move(*run));
    } else {
      answer->on_failure(choice, std::get<StreamFailure>(arrival));
    }
  }
}

}  // namespace shoal
