// Which answer belongs to a method and a path: one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/http_message.h"

namespace shoal {

enum class Route : std::uint8_t {
  kCompletions,
  kChat,
  kTokenize,
  kDetokenize,  // with a body
  kModels,
  kModel,
  kRequest,
  kHealth,
  kReady,
  kLive,
  kMetrics,
  kVersion,
  kIndex,
  kOptions,  // without
};

struct RouteMatch {
  Route route = Route::kHealth;
  std::string_view
      rest;  // what the path names after the route: a model, a request; points into the request
  std::string_view allow;  // kOptions: the methods of the path
};

// Of a whole server, or of one for monitors.
enum class Routes : std::uint8_t { kAll, kForMonitors };

// 404 and 405 name what exists.
tl::expected<RouteMatch, HttpReply> match_route(const HttpRequest& request,
                                                Routes routes = Routes::kAll);

// "POST /v1/completions", one each.
std::vector<std::string> route_names(Routes routes);

bool has_body(Route route);
// Whether a client without a key may ask: what monitors and load balancers read.
bool is_open(Route route);

}  // namespace shoal
