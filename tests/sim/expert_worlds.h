// Worlds whose experts are on shards, and what their answers must be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/cluster_setup.h"
#include "tests/sim/event_line.h"

namespace shoal::sim {

inline constexpr NodeRoles kExperts{.experts = true};
inline constexpr NodeRoles kFrontPrefill{.gateway = true, .router = true, .prefill = true};

inline WorldSetup guppy(std::vector<NodeRoles> nodes,
                        std::uint64_t seed,
                        int shards,
                        int redundant = 0) {
  WorldSetup setup = setup_of(std::move(nodes), seed);
  setup.model.weights = built_in_model("guppy").value();
  setup.size.blocks = 32;
  setup.configure = [shards, redundant](Config& config) {
    config.mutable_experts()->set_shards(shards);
    config.mutable_experts()->set_redundant(redundant);
    config.mutable_request()->set_attempts(20);
  };
  return setup;
}

// At node 0.
inline std::vector<RequestId> ask(World& world, int count) {
  std::vector<RequestId> asked;
  for (int i = 0; i < count; ++i) {
    auto& random = world.random();
    const auto prompt = static_cast<std::int64_t>(1 + random() % 200);
    const int answer = static_cast<int>(10 + random() % 20);
    testing::Wanted wanted = testing::wanted(random(), prompt, answer);
    wanted.mode = i % 2 == 0 ? BasisMode::kExact : BasisMode::kBounded;
    asked.push_back(world.clients(NodeId{0}).ask(wanted));
  }
  return asked;
}

// Complete, and token for token what a device answers that runs its experts itself.
inline void check_truth(World& world, const std::vector<RequestId>& asked) {
  DeviceModel local;
  local.weights = built_in_model("guppy").value();
  for (const RequestId request : asked) {
    const testing::Answer answer = world.clients(NodeId{0}).answer(request);
    CAPTURE((answer.error ? answer.error->message : std::string()));
    REQUIRE_FALSE(answer.error.has_value());
    REQUIRE(answer.basis.has_value());
    CHECK(answer.tokens == true_answer(local,
                                       world.clients(NodeId{0}).asked(request),
                                       {{.from = 0, .basis = *answer.basis, .blocks = {}}},
                                       world.context()));
  }
}

inline std::ptrdiff_t count_events(const World& world, std::string_view name) {
  return std::count_if(world.events().begin(), world.events().end(), [name](const auto& line) {
    return event_name(line) == name;
  });
}

}  // namespace shoal::sim
