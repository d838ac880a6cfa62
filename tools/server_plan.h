// Everything that a server needs besides weights: read and checked before they are loaded, and all
// that `shoal config` checks.
#pragma once

#include <memory>
#include <optional>

#include "actors/codec/model_profile.h"
#include "actors/codec/tokenizer.h"
#include "actors/config.h"
#include "actors/http_config.h"
#include "actors/topology.h"
#include "schemas/result.h"
#include "schemas/sampling.h"
#include "tools/device_plan.h"

namespace shoal::tools {

// Of a node with HTTP.
struct FrontPlan {
  HttpConfig http;
  std::shared_ptr<const Tokenizer> tokenizer;
  ModelProfile profile;
  Sampling sampling;  // what clients leave out
};

struct ServerPlan {
  DevicePlan device;
  std::optional<FrontPlan> front;
};

// Errors name the option, flag, file or field and what to do.
Result<ServerPlan> plan_server(const Config& config, const NodeRoles& roles = kAllRoles);

}  // namespace shoal::tools
