// The runner keeps what a worker keeps: tokens, blocks and floors of each sequence.
#include "tests/kernels/model_runner.h"

#include <cmath>
#include <doctest/doctest.h>
#include <random>

namespace shoal::kernels {

ModelRunner::ModelRunner(const std::string& directory,
                         int threads,
                         SumPrecision sums,
                         const std::string& instructions) {
  DeviceConfig config;
  config.model = directory;
  config.threads = threads;
  config.kv_blocks = 64;
  config.sequences = 16;
  config.sums = sums;
  config.instructions = instructions;
  auto device = open_device("cpu", config);
  REQUIRE_MESSAGE(device.has_value(), device.error().message);
  device_ = std::move(*device);
}

RunningSequence ModelRunner::open(std::int64_t max_tokens) {
  RunningSequence out;
  const auto id = backend().arena().take_sequence();
  auto blocks = backend().arena().take_blocks((max_tokens + kBlockTokens - 1) / kBlockTokens);
  REQUIRE(id.has_value());
  REQUIRE(blocks.has_value());
  out.id = *id;
  out.blocks = std::move(*blocks);
  backend().reset_sequence(out.id);
  return out;
}

RowRun ModelRunner::full_run(const RunningSequence& sequence,
                             const std::vector<TokenId>& tokens,
                             WantLogits want) const {
  RowRun run;
  run.sequence = sequence.id;
  run.first = sequence.length();
  run.tokens = tokens;
  run.encoder_floor = sequence.encoder_floor;
  run.decoder_floor = sequence.decoder_floor;
  run.blocks = sequence.blocks;
  run.logits = want;
  return run;
}

StepResult ModelRunner::execute(std::vector<RowRun> runs, Queue queue) {
  StepPlan plan;
  plan.queue = queue;
  plan.runs = std::move(runs);
  auto step = backend().begin(std::move(plan));
  REQUIRE_MESSAGE(step.has_value(), step.error().message);
  REQUIRE(backend().advance(**step) == StepYield::kDone);
  return backend().take(**step);
}

std::vector<float> ModelRunner::full(RunningSequence& sequence,
                                     const std::vector<TokenId>& tokens) {
  StepResult result = execute({full_run(sequence, tokens)});
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  return std::move(result.runs[0].logits);
}

RunResult ModelRunner::split(RunningSequence& sequence,
                             const std::vector<TokenId>& prompt,
                             std::vector<std::int64_t> chunks,
                             Position hit) {
  const auto n = static_cast<Position>(prompt.size());
  const Position window = backend().shape().window;
  sequence.encoder_floor = hit > 0 ? hit - window : 0;
  sequence.decoder_floor = std::max(sequence.encoder_floor, n - window);
  if (chunks.empty()) {
    chunks = {n - sequence.encoder_floor};
  }
  RunResult last;
  Position at = sequence.encoder_floor;
  for (const std::int64_t size : chunks) {
    RowRun run = full_run(sequence,
                          std::vector<TokenId>(prompt.begin() + at, prompt.begin() + at + size),
                          WantLogits::kNone);
    run.first = at;
    run.history.assign(prompt.begin() + std::max<Position>(0, at - 3), prompt.begin() + at);
    run.stack = Stack::kEncoder;
    run.writes_from = hit;
    at += size;
    run.finishes_prompt = at == n;
    run.logits = run.finishes_prompt ? WantLogits::kAll : WantLogits::kNone;
    last = std::move(execute({run}).runs[0]);
  }
  REQUIRE(at == n);
  sequence.tokens = prompt;
  return last;
}

void ModelRunner::truncate(RunningSequence& sequence, Position length) {
  sequence.tokens.resize(static_cast<std::size_t>(length));
}

std::vector<TokenId> token_ids(const std::vector<std::int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

std::vector<TokenId> prefix(const std::vector<TokenId>& tokens, std::int64_t count) {
  return std::vector<TokenId>(tokens.begin(), tokens.begin() + count);
}

std::vector<TokenId> random_tokens(std::uint64_t seed,
                                   std::int64_t count,
                                   TokenId from,
                                   TokenId to) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(from + static_cast<TokenId>(random() % static_cast<std::uint64_t>(to - from)));
  }
  return out;
}

float max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(!a.empty());
  REQUIRE(a.size() == b.size());
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(
        worst,
        std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : std::numeric_limits<float>::infinity());
  }
  return worst;
}

}  // namespace shoal::kernels
