// One shard: its routes, its answers in the making, and the inbox through which the actors reach
// them.
//
// Everything runs on the shard's I/O thread except deliver() and fail(), which hand over to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "actors/front_door.h"
#include "actors/http_answer.h"
#include "actors/http_exchange.h"
#include "actors/http_service.h"
#include "actors/http_worker.h"

namespace shoal {

// Runs work on the I/O thread of the shard; any thread may call it.
using PostToShard = std::function<void(std::function<void()>)>;

class HttpShard final : public HttpApp, public ShardInbox, private AnswerHost {
 public:
  HttpShard(std::uint32_t index, HttpService& service, HttpWorker& worker);

  // Before the first request.
  void connect(PostToShard post) { post_ = std::move(post); }

  // On the shard's thread.
  void start_draining() { draining_ = true; }

  std::optional<HttpReply> refuse(const HttpRequest& head) override;
  std::shared_ptr<HttpExchange> answer(HttpRequest request, HttpResponder& responder) override;
  std::string request_id(const HttpRequest& request) override;

  void deliver(std::vector<TokenRun> runs) override;
  void fail(StreamFailure failure) override;

 private:
  using Arrival = std::variant<TokenRun, StreamFailure>;

  struct Listener {
    HttpAnswer* answer;
    std::uint32_t choice;
  };

  FrontDoor& front_door() override { return service_.parts().front_door; }

  HttpMetrics& metrics() override { return service_.metrics(); }

  std::atomic<std::size_t>& choices_in_flight() override { return service_.choices_in_flight(); }

  const HttpConfig& config() const override { return service_.config(); }

  const StreamLimits& stream_limits() const override { return service_.parts().stream_limits; }

  Instant now() const override { return service_.parts().clocks.now(); }

  std::uint32_t shard() const override { return index_; }

  std::uint64_t random() override;
  RequestId expect_tokens(HttpAnswer& answer, std::uint32_t choice) override;

  void expect_no_tokens(RequestId request) override { listeners_.erase(request); }

  void remember(const Tenant& tenant,
                const std::vector<std::string>& ids,
                const std::vector<RequestId>& choices) override {
    service_.names().remember(tenant.name, ids, choices);
  }

  std::shared_ptr<HttpExchange> answer_body(HttpRequest request,
                                            Route route,
                                            HttpResponder& responder);
  bool prepare_elsewhere(HttpRequest request,
                         Route route,
                         AnswerStamp stamp,
                         const std::shared_ptr<HttpAnswer>& answer);
  std::shared_ptr<const HttpRequest> counted(HttpRequest request);
  AnswerStamp make_stamp();
  template <class Fill>
  void hand_over(Fill fill);
  void take_arrivals();

  std::uint32_t index_;
  HttpService& service_;
  HttpWorker& worker_;
  PostToShard post_;
  bool draining_ = false;
  std::uint64_t random_state_;
  RequestId next_request_;
  std::unordered_map<RequestId, Listener> listeners_;

  std::mutex mutex_;  // guards what follows: what arrived and is not taken yet, in order
  std::vector<Arrival> arrivals_;
};

}  // namespace shoal
