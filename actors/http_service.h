// What the node says to each request: checks by the head, the small pages, and a body turned into a
// plan. Fixed after construction and shared by all I/O threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/model_profile.h"
#include "actors/codec/tokenizer.h"
#include "actors/front_door.h"
#include "actors/http_access.h"
#include "actors/http_answer.h"
#include "actors/http_config.h"
#include "actors/http_exchange.h"
#include "actors/http_metrics.h"
#include "actors/http_names.h"
#include "actors/http_routes.h"
#include "actors/log.h"

namespace shoal {

// The model as clients see it.
struct ServedModel {
  std::vector<std::string> names{};  // the first one is its own, the others are accepted as well
  std::int64_t context_tokens = 0;   // most tokens of prompt and answer together
  TokenId vocabulary_size = 0;       // ids below may stand in a prompt
  Sampling sampling{};               // what clients leave out: the model's own choice
  std::int64_t created = 0;          // unix seconds
  std::shared_ptr<const Tokenizer> tokenizer{};
  std::shared_ptr<const ModelProfile> profile{};
};

struct HttpParts {
  FrontDoor& front_door;
  ServedModel model;
  HttpClocks clocks;
  std::uint64_t seed = 0;  // of request ids and of the sampling seeds that clients leave out
  StreamLimits stream_limits{};
  BasisMode default_mode = BasisMode::kBounded;
  std::string version = "0";
  std::vector<std::string> nodes{};                  // names of the cluster's, by NodeId
  std::function<void(std::string&)> node_metrics{};  // appends the node's own page to /metrics
  EventLog log{LogLevel::kError, [](LogLevel, std::string_view) {}};  // any thread
};

// What tells one answer from another.
struct AnswerStamp {
  std::string id;  // 24 letters and digits, without the protocol's prefix
  std::int64_t created = 0;
};

class HttpService {
 public:
  HttpService(const HttpConfig& config, const HttpParts& parts, HttpMetrics& metrics);

  std::optional<HttpReply> refuse(const HttpRequest& head, bool draining);
  // For routes without a body; the request was not refused.
  HttpReply page(const RouteMatch& match, bool draining) const;
  // The timelines of one of the tenant's answers.
  HttpReply request_page(const Tenant& tenant, std::string_view id) const;
  // For routes with a body: parses, checks, tokenises. Any thread; takes as long as the body is
  // large.
  Prepared prepare(const HttpRequest& request, Route route, const AnswerStamp& stamp) const;

  Tenant* tenant_of(const HttpRequest& request) { return access_.tenant_of(request); }

  const HttpConfig& config() const { return config_; }

  const HttpParts& parts() const { return parts_; }

  HttpMetrics& metrics() { return metrics_; }

  RequestNames& names() { return names_; }

  std::atomic<std::size_t>& choices_in_flight() { return choices_in_flight_; }

 private:
  Result<Prepared> read_request(const HttpRequest& request,
                                Route route,
                                const AnswerStamp& stamp) const;
  Result<Prepared> read_body(const HttpRequest& request,
                             Route route,
                             const AnswerStamp& stamp) const;
  HttpReply models_page() const;
  HttpReply model_page(std::string_view name) const;
  HttpReply health_page() const;
  HttpReply ready_page(bool draining) const;
  HttpReply metrics_page() const;
  HttpReply index_page() const;

  Routes routes() const { return config_.is_for_monitors ? Routes::kForMonitors : Routes::kAll; }

  const HttpConfig& config_;
  const HttpParts& parts_;
  HttpMetrics& metrics_;
  HttpAccess access_;
  RequestNames names_;
  std::atomic<std::size_t> choices_in_flight_{0};
};

}  // namespace shoal
