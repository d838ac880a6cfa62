// A device of any row of the registry, driven as workers do: what the tests over all rows share.
#pragma once

#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/registry.h"

namespace shoal::kernels {

inline constexpr TokenId kFirst = 300;  // plain tokens of the model that rows open here
inline constexpr std::int64_t kPlain = 1000;
inline constexpr std::int64_t kVocab = 2496;

inline DeviceConfig device_config() {
  DeviceConfig config;
  config.model = std::string(SHOAL_MODELS_DIR) + "/guppy";
  config.kv_blocks = 32;
  config.sequences = 8;
  config.sim.model.vocab = kVocab;
  config.sim.model.greedy = true;
  for (TokenId id = kFirst; id < kFirst + kPlain; ++id) {
    config.sim.model.tokens.push_back(id);
  }
  return config;
}

inline std::vector<TokenId> prompt(std::int64_t length, std::int64_t salt) {
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<TokenId>(kFirst + (salt * 131 + i * i * 7) % kPlain));
  }
  return tokens;
}

struct Sequence {
  SequenceId id;
  std::vector<BlockId> blocks;
  Position length = 0;
};

class DeviceUnderTest {
 public:
  explicit DeviceUnderTest(std::string_view name) {
    auto opened = open_device(name, device_config());
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    device_ = *std::move(opened);
  }

  Backend& backend() { return device_->backend(); }

  Sequence open(std::int64_t tokens) {
    const auto id = backend().arena().take_sequence();
    auto blocks = backend().arena().take_blocks((tokens + kBlockTokens - 1) / kBlockTokens);
    REQUIRE(id.has_value());
    REQUIRE(blocks.has_value());
    backend().reset_sequence(*id);
    return {*id, *std::move(blocks)};
  }

  static RowRun run(const Sequence& sequence, const std::vector<TokenId>& tokens) {
    RowRun run;
    run.sequence = sequence.id;
    run.first = sequence.length;
    run.tokens = tokens;
    run.blocks = sequence.blocks;
    run.sample = true;
    return run;
  }

  Result<StepResult> step(std::vector<RowRun> runs) {
    StepPlan plan;
    plan.runs = std::move(runs);
    TRY(auto step, backend().begin(std::move(plan)));
    REQUIRE(backend().advance(*step) == StepYield::kDone);
    return backend().take(*step);
  }

  // Feeds the tokens and returns the one chosen after them.
  TokenId feed(Sequence& sequence,
               const std::vector<TokenId>& tokens,
               const SampleSpec& sampling = {}) {
    RowRun next = run(sequence, tokens);
    next.sampling = sampling;
    const auto result = step({next});
    REQUIRE_MESSAGE(result.has_value(), result.error().message);
    sequence.length += static_cast<Position>(tokens.size());
    return result->runs[0].drawn.at(0).token;
  }

  // `count` tokens after the prompt, each fed back.
  std::vector<TokenId> answer(Sequence& sequence, const std::vector<TokenId>& prompt, int count) {
    std::vector<TokenId> tokens{feed(sequence, prompt)};
    while (static_cast<int>(tokens.size()) < count) {
      tokens.push_back(feed(sequence, {tokens.back()}));
    }
    return tokens;
  }

 private:
  std::unique_ptr<Device> device_;
};

template <class Test>
void for_each_device(const Test& test) {
  for (const std::string_view name : device_names()) {
    CAPTURE(std::string(name));
    test(name);
  }
}

}  // namespace shoal::kernels
