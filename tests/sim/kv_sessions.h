// What tests of worlds that keep KV share: requests, and what makes their answers true.
#pragma once

#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schemas/kv_record.h"
#include "tests/sim/cluster_setup.h"

namespace shoal::sim {

inline const std::vector<std::vector<NodeRoles>> kClusters = {
    {kAllRoles}, {kFront, kPrefill, kDecode}, {kFront, kPrefill, kPrefill, kDecode, kDecode}};

inline testing::Wanted story(std::uint64_t seed,
                             std::int64_t prompt,
                             BasisMode mode = BasisMode::kBounded,
                             int answer = 20) {
  testing::Wanted wanted = testing::wanted(seed, prompt, answer);
  wanted.mode = mode;
  return wanted;
}

// Returns when its last blocks are durable, and all nodes know them.
inline testing::Answer ask(World& world, const testing::Wanted& wanted) {
  const RequestId request = world.clients(NodeId{0}).ask(wanted);
  REQUIRE(world.run_until_all_over(std::chrono::seconds(120)));
  world.run_for(std::chrono::seconds(3));
  return world.clients(NodeId{0}).answer(request);
}

// Complete, and token for token what the device's rule says behind the blocks that were loaded.
inline void check_true(const World& world,
                       const testing::Answer& answer,
                       const testing::Wanted& wanted) {
  CAPTURE((answer.error ? answer.error->message : std::string()));
  REQUIRE(answer.terminal_events == 1);
  REQUIRE_FALSE(answer.error.has_value());
  REQUIRE(answer.basis.has_value());
  auto bases = answer.bases;
  REQUIRE(world.kv_truth().add_loaded(bases));
  CHECK(answer.tokens == testing::sim_answer({}, wanted, bases, 4096));
  for (const Violation& violation : world.kv_truth().violations()) {
    FAIL_CHECK(violation.what);
  }
}

// Flips a bit in every record that is there, or in those of one block of all sequences.
inline void damage_records(World& world, std::optional<std::uint32_t> number = {}) {
  for (const std::string& name : world.segments()) {
    auto& content = world.disk().content(name);
    for (std::size_t page = 0; page + kKvRecordAlign <= content.size(); page += kKvRecordAlign) {
      const auto block = read_kv_header(std::span(content).subspan(page));
      if (block && (!number || block->number == *number)) {
        content[page + kKvHeaderBytes] ^= std::byte{1};
      }
    }
  }
}

// Runs `test` in whole worlds of these clusters, `setup` of each, under several seeds.
template <class Setup, class Test>
void for_each_cluster(const Setup& setup, const Test& test) {
  for (const auto& nodes : kClusters) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(nodes.size());
      CAPTURE(seed);
      World world(setup(nodes, seed));
      REQUIRE(world.run_until_whole());
      test(world, seed);
    }
  }
}

}  // namespace shoal::sim
