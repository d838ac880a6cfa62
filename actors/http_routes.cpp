// The table of routes and how a request finds its row.
#include "actors/http_routes.h"

#include <array>

namespace shoal {
namespace {

constexpr std::string_view kPost = "POST, OPTIONS";
constexpr std::string_view kGet = "GET, HEAD, OPTIONS";

struct Row {
  std::string_view path;
  std::string_view allow;
  Route route;
};

// With and without /v1 where DeepSeek's clients leave it out, and where vLLM has none.
constexpr std::array kRows = {
    Row{"/v1/completions", kPost, Route::kCompletions},
    Row{"/completions", kPost, Route::kCompletions},
    Row{"/v1/chat/completions", kPost, Route::kChat},
    Row{"/chat/completions", kPost, Route::kChat},
    Row{"/tokenize", kPost, Route::kTokenize},
    Row{"/detokenize", kPost, Route::kDetokenize},
    Row{"/v1/models", kGet, Route::kModels},
    Row{"/models", kGet, Route::kModels},
    Row{"/health", kGet, Route::kHealth},
    Row{"/ready", kGet, Route::kReady},
    Row{"/live", kGet, Route::kLive},
    Row{"/metrics", kGet, Route::kMetrics},
    Row{"/version", kGet, Route::kVersion},
};
// Whatever follows is the name: that of a model may contain slashes.
constexpr std::array kNameRows = {
    Row{"/v1/models/", kGet, Route::kModel},
    Row{"/models/", kGet, Route::kModel},
    Row{"/v1/requests/", kGet, Route::kRequest},
};

bool allows(std::string_view allow, std::string_view method) {
  return allow == kPost ? method == "POST" : method == "GET" || method == "HEAD";
}

tl::expected<RouteMatch, HttpReply> match_method(const HttpRequest& request,
                                                 const Row& row,
                                                 std::string_view rest) {
  if (allows(row.allow, request.method))
    return RouteMatch{.route = row.route, .rest = rest, .allow = row.allow};
  if (request.method == "OPTIONS")
    return RouteMatch{.route = Route::kOptions, .rest = {}, .allow = row.allow};
  HttpReply reply =
      error_reply({.status = 405,
                   .message = request.method + " is not possible on " +
                              replace_unprintable(request.path) + "; use " + std::string(row.allow),
                   .code = "method_not_allowed"});
  reply.fields.emplace_back("Allow", row.allow);
  return tl::unexpected(std::move(reply));
}

HttpReply no_such_path(std::string_view path) {
  std::string message = "nothing is at " + std::string(path.substr(0, 200)) + "; there is";
  for (const Row& row : kRows) {
    message.append(&row == kRows.data() ? " " : ", ")
        .append(row.allow == kPost ? "POST " : "GET ")
        .append(row.path);
  }
  return error_reply({.status = 404, .message = replace_unprintable(message), .code = "not_found"});
}

}  // namespace

tl::expected<RouteMatch, HttpReply> match_route(const HttpRequest& request) {
  for (const Row& row : kRows) {
    if (request.path == row.path)
      return match_method(request, row, {});
  }
  for (const Row& row : kNameRows) {
    if (request.path.starts_with(row.path))
      return match_method(request, row, std::string_view(request.path).substr(row.path.size()));
  }
  return tl::unexpected(no_such_path(request.path));
}

bool has_body(Route route) {
  return route <= Route::kDetokenize;
}

bool is_open(Route route) {
  switch (route) {
    case Route::kHealth:
    case Route::kReady:
    case Route::kLive:
    case Route::kMetrics:
    case Route::kVersion:
    case Route::kOptions:
      return true;
    default:
      return false;
  }
}

}  // namespace shoal
