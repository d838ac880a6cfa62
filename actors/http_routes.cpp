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
    Row{"/", kGet, Route::kIndex},
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

bool has(Routes routes, const Row& row) {
  return routes == Routes::kAll || is_open(row.route);
}

HttpReply no_such_path(std::string_view path, Routes routes) {
  std::string message = "nothing is at " + std::string(path.substr(0, 200)) + "; there is ";
  for (const std::string& name : route_names(routes))
    message.append(name).append(", ");
  message.resize(message.size() - 2);
  return error_reply({.status = 404, .message = replace_unprintable(message), .code = "not_found"});
}

}  // namespace

tl::expected<RouteMatch, HttpReply> match_route(const HttpRequest& request, Routes routes) {
  for (const Row& row : kRows) {
    if (has(routes, row) && request.path == row.path)
      return match_method(request, row, {});
  }
  for (const Row& row : kNameRows) {
    if (has(routes, row) && request.path.starts_with(row.path))
      return match_method(request, row, std::string_view(request.path).substr(row.path.size()));
  }
  return tl::unexpected(no_such_path(request.path, routes));
}

std::vector<std::string> route_names(Routes routes) {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (has(routes, row))
      names.push_back((row.allow == kPost ? "POST " : "GET ") + std::string(row.path));
  }
  for (const Row& row : kNameRows) {
    if (has(routes, row))
      names.push_back("GET " + std::string(row.path) +
                      (row.route == Route::kModel ? "MODEL" : "ID"));
  }
  return names;
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
    case Route::kIndex:
    case Route::kOptions:
      return true;
    default:
      return false;
  }
}

}  // namespace shoal
