// Checks by the head, the small pages, and which function reads which body.
#include "actors/http_service.h"

#include <charconv>
#include <cmath>

#include "actors/codec/json_fields.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"
#include "actors/http_bodies.h"
#include "actors/http_explain.h"
#include "schemas/check.h"

namespace shoal {
namespace {

std::string_view to_string(PartState state) {
  switch (state) {
    case PartState::kStarting:
      return "starting";
    case PartState::kOk:
      return "ok";
    case PartState::kBusy:
      return "busy";
    case PartState::kDegraded:
      return "degraded";
    case PartState::kDead:
      return "dead";
    case PartState::kDraining:
      return "draining";
    case PartState::kLeft:
      return "left";
  }
  return "unknown";
}

// Parameters such as a charset change nothing: JSON is UTF-8.
bool is_json_type(std::string_view type) {
  constexpr std::string_view kSuffix = "+json";
  type = type.substr(0, type.find(';'));
  type = type.substr(0, type.find_last_not_of(" \t") + 1);
  if (equals_ignoring_case(type, "application/json"))
    return true;
  const auto slash = type.find('/');
  return slash != 0 && slash != std::string_view::npos &&
         type.size() > slash + 1 + kSuffix.size() &&
         equals_ignoring_case(type.substr(type.size() - kSuffix.size()), kSuffix);
}

std::optional<HttpReply> refuse_body(const HttpRequest& head) {
  const std::string_view encoding = head.field("content-encoding");
  if (!encoding.empty() && !equals_ignoring_case(encoding, "identity")) {
    return error_reply({.status = 415,
                        .message = "the body is encoded as " + replace_unprintable(encoding) +
                                   "; send it without Content-Encoding",
                        .code = "unsupported_encoding"});
  }
  // Clients that name no type mean JSON.
  if (head.has_field("content-type") && !is_json_type(head.field("content-type"))) {
    return error_reply({.status = 415,
                        .message = "the body is of type " +
                                   replace_unprintable(head.field("content-type")) +
                                   "; send application/json",
                        .code = "unsupported_media_type"});
  }
  return std::nullopt;
}

constexpr std::string_view kTimeoutField = "x-request-timeout";

tl::unexpected<Error> bad_timeout_header(std::string_view what) {
  return fail(Code::kInvalid,
              "invalid request header: " + std::string(kTimeoutField) + ": " + std::string(what));
}

// Seconds.
Result<std::optional<double>> header_timeout(const HttpRequest& request) {
  if (!request.has_field(kTimeoutField))
    return std::nullopt;
  const std::string_view text = request.field(kTimeoutField);
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(seconds) ||
      seconds <= 0)
    return bad_timeout_header("expected a number of seconds above 0");
  return seconds;
}

void append_model(std::string& out, const std::string& name, const ServedModel& model) {
  out += R"({"id":)";
  append_json_string(out, name);
  out += R"(,"object":"model","created":)";
  append_json_int(out, model.created);
  out += R"(,"owned_by":"shoal","root":)";
  append_json_string(out, model.names.front());
  out += R"(,"parent":null,"max_model_len":)";
  append_json_int(out, model.context_tokens);
  out += '}';
}

void append_part(std::string& out, const PartHealth& part) {
  out += R"({"name":)";
  append_json_string(out, part.name);
  out.append(R"(,"state":")").append(to_string(part.state)).append(R"(","cause":)");
  append_json_string(out, part.cause);
  out += R"(,"since_progress_ms":)";
  append_json_int(
      out, std::chrono::duration_cast<std::chrono::milliseconds>(part.since_progress).count());
  out += '}';
}

// Which parts a node that is not ready waits for.
void append_missing(std::string& out, const NodeHealth& health) {
  std::string names;
  for (const PartHealth& part : health.parts) {
    if (part.state != PartState::kOk && part.state != PartState::kBusy) {
      names += names.empty() ? "" : ",";
      append_json_string(names, part.name);
    }
  }
  if (!names.empty())
    out.append(R"(,"missing":[)").append(names).append("]");
}

}  // namespace

HttpService::HttpService(const HttpConfig& config, const HttpParts& parts, HttpMetrics& metrics)
    : config_(config),
      parts_(parts),
      metrics_(metrics),
      access_(config.keys),
      names_(config.limits.explained_answers) {}

std::optional<HttpReply> HttpService::refuse(const HttpRequest& head, bool draining) {
  auto match = match_route(head, routes());
  if (!match)
    return std::move(match).error();
  if (!is_open(match->route) && access_.tenant_of(head) == nullptr) {
    return error_reply(
        {.status = 401,
         .message = "no valid API key; send `Authorization: Bearer KEY` or `x-api-key: KEY`",
         .code = "invalid_api_key"});
  }
  if (!has_body(match->route))
    return std::nullopt;
  if (draining)
    return error_reply(shutting_down(config_.limits.retry_after));
  return refuse_body(head);
}

HttpReply HttpService::page(const RouteMatch& match, bool draining) const {
  switch (match.route) {
    case Route::kModels:
      return models_page();
    case Route::kModel:
      return model_page(match.rest);
    case Route::kHealth:
      return health_page();
    case Route::kReady:
      return ready_page(draining);
    case Route::kLive:
      return {.body = R"({"status":"ok"})"};
    case Route::kMetrics:
      return metrics_page();
    case Route::kVersion:
      return {.body = R"({"version":")" + parts_.version + R"("})"};
    case Route::kIndex:
      return index_page();
    case Route::kOptions:
      return {.status = 204, .fields = {{"Allow", std::string(match.allow)}}};
    default:
      break;
  }
  CHECK(!has_body(match.route));
  return {.status = 500};
}

HttpReply HttpService::models_page() const {
  HttpReply reply{.body = R"({"object":"list","data":[)"};
  for (const std::string& name : parts_.model.names) {
    if (&name != &parts_.model.names.front())
      reply.body += ',';
    append_model(reply.body, name, parts_.model);
  }
  reply.body += "]}";
  return reply;
}

HttpReply HttpService::model_page(std::string_view name) const {
  if (auto known = check_model(replace_unprintable(name), parts_.model); !known)
    return error_reply(http_error(known.error()));
  HttpReply reply;
  append_model(reply.body, std::string(name), parts_.model);
  return reply;
}

// What another tenant asked does not exist.
HttpReply HttpService::request_page(const Tenant& tenant, std::string_view id) const {
  const std::string shown = "the request `" + replace_unprintable(id.substr(0, 128)) + "`";
  const std::vector<RequestId> requests = names_.find(tenant.name, id);
  std::vector<RequestTimeline> choices;
  for (const RequestId request : requests) {
    if (auto timeline = parts_.front_door.explain(request))
      choices.push_back(*std::move(timeline));
  }
  if (!choices.empty())
    return {.body = explained(id, parts_.nodes, choices)};
  return error_reply(
      {.status = 404,
       .message = requests.empty()
                      ? shown + " is not known here: ask this server for one of its newest since "
                                "it was started, by the id or the x-request-id of the answer"
                      : shown + " has no timeline on this node: another node's router owns it, or "
                                "it is too old",
       .code = "not_found"});
}

HttpReply HttpService::health_page() const {
  const NodeHealth health = parts_.front_door.health();
  HttpReply reply{.status = health.state == PartState::kDead ? 503 : 200};
  reply.body.append(R"({"status":")").append(to_string(health.state)).append(R"(","parts":[)");
  for (const PartHealth& part : health.parts) {
    if (&part != &health.parts.front())
      reply.body += ',';
    append_part(reply.body, part);
  }
  reply.body += "]}";
  return reply;
}

HttpReply HttpService::ready_page(bool draining) const {
  const NodeHealth health = parts_.front_door.health();
  const PartState state = draining ? PartState::kDraining : health.state;
  const bool ready =
      state == PartState::kOk || state == PartState::kBusy || state == PartState::kDegraded;
  HttpReply reply{.status = ready ? 200 : 503};
  reply.body.append(R"({"status":")").append(to_string(state)).append("\"");
  if (!ready) {
    reply.fields.emplace_back("Retry-After", "1");
    append_missing(reply.body, health);
  }
  reply.body += '}';
  return reply;
}

HttpReply HttpService::metrics_page() const {
  HttpReply reply{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
  if (!config_.is_for_monitors)
    reply.body = metrics_.text(parts_.model.names.front());
  if (parts_.node_metrics)
    parts_.node_metrics(reply.body);
  return reply;
}

HttpReply HttpService::index_page() const {
  HttpReply reply{.body = R"({"endpoints":[)"};
  for (const std::string& name : route_names(routes())) {
    if (reply.body.back() != '[')
      reply.body += ',';
    append_json_string(reply.body, name);
  }
  reply.body += "]}";
  return reply;
}

Prepared HttpService::prepare(const HttpRequest& request,
                              Route route,
                              const AnswerStamp& stamp) const {
  auto prepared = read_request(request, route, stamp);
  if (!prepared)
    return error_reply(http_error(prepared.error()));
  return std::move(*prepared);
}

// A time limit in the body goes before one in the header.
Result<Prepared> HttpService::read_request(const HttpRequest& request,
                                           Route route,
                                           const AnswerStamp& stamp) const {
  TRY(const auto seconds, header_timeout(request));
  TRY(Prepared prepared, read_body(request, route, stamp));
  auto* plan = std::get_if<AnswerPlan>(&prepared);
  if (plan == nullptr || plan->timeout || !seconds)
    return prepared;
  if (const auto fault = timeout_fault(*seconds, config_.limits.request_timeout); !fault.empty())
    return bad_timeout_header(fault);
  plan->timeout = nanos_of(*seconds);
  return prepared;
}

Result<Prepared> HttpService::read_body(const HttpRequest& request,
                                        Route route,
                                        const AnswerStamp& stamp) const {
  const BodyContext context{.model = parts_.model,
                            .default_mode = parts_.default_mode,
                            .longest_timeout = config_.limits.request_timeout,
                            .stamp = stamp};
  TRY(JsonValue body, read_json(request.body));
  if (!body.is_object())
    return fail(Code::kInvalid, "the body is not a JSON object");
  TRY(const auto model, string_field(body, "model"));
  if (model) {
    TRY_VOID(check_model(*model, parts_.model));
  } else {
    // The APIs demand a name; here there is only one model it can be.
    std::erase_if(body.members, [](const JsonMember& member) { return member.name == "model"; });
    body.members.push_back({"model", JsonValue::string(parts_.model.names.front())});
  }
  switch (route) {
    case Route::kCompletions:
      return prepare_completion(body, context);
    case Route::kChat:
      return prepare_chat(body, context);
    case Route::kTokenize:
      return tokenize_reply(body, context);
    case Route::kDetokenize:
      return detokenize_reply(body, context);
    default:
      return fail(Code::kInternal, "no body is read on this route");
  }
}

}  // namespace shoal
