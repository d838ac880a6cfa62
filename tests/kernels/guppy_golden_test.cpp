// The built-in model continues its golden prompts token for token wherever the margin is safe.
#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/kernels/model_runner.h"

namespace shoal::kernels {
namespace {

// Below this margin a different order of summation may choose the other token; the model's README
// compares strictly above it.
constexpr double kSafeMargin = 1.0;

struct GoldenAnswer {
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  std::vector<double> margins;
};

std::vector<GoldenAnswer> read_answers() {
  std::ifstream file(std::string(SHOAL_MODELS_DIR) + "/guppy/golden.jsonl");
  std::vector<GoldenAnswer> out;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    out.push_back({json["prompt_ids"].get<std::vector<TokenId>>(),
                   json["output_ids"].get<std::vector<TokenId>>(),
                   json["margins"].get<std::vector<double>>()});
  }
  return out;
}

// Greedy decoding; where the golden margin is unsafe, the golden token is forced so that the rest
// stays comparable.
int follow(ModelRunner& runner, const GoldenAnswer& golden) {
  RunningSequence sequence =
      runner.open(static_cast<std::int64_t>(golden.prompt.size() + golden.output.size()));
  RowRun run = runner.full_run(sequence, golden.prompt, WantLogits::kNone);
  run.sample = true;
  int compared = 0;
  for (std::size_t i = 0; i < golden.output.size(); ++i) {
    const TokenId token = runner.execute({run}).runs[0].drawn.at(0).token;
    if (golden.margins[i] > kSafeMargin) {
      CAPTURE(i);
      CHECK(token == golden.output[i]);
      ++compared;
    }
    sequence.tokens.insert(sequence.tokens.end(), run.tokens.begin(), run.tokens.end());
    run = runner.full_run(sequence, {golden.output[i]}, WantLogits::kNone);
    run.sample = true;
  }
  runner.backend().arena().give_sequence(sequence.id);
  runner.backend().arena().give_blocks(sequence.blocks);
  return compared;
}

}  // namespace

TEST_CASE("guppy's greedy continuations are the golden ones") {
  ModelRunner runner(std::string(SHOAL_MODELS_DIR) + "/guppy", 2);
  const std::vector<GoldenAnswer> answers = read_answers();
  REQUIRE(answers.size() == 60);
  int compared = 0;
  for (const GoldenAnswer& answer : answers) {
    compared += follow(runner, answer);
  }
  CHECK(compared == 1155);  // of 1,179 output tokens
}

}  // namespace shoal::kernels
