// Whole passes against the golden data, with every fp32 sum in double ("way 1"): all rows within
// 1e-4.
//
// The limit: with exact sums nothing is left to order, and the golden run moves by 3e-7 under
// double-sized noise, while the smallest deliberate mistake tried moves rows by more than 1e-2.
#include <algorithm>
#include <doctest/doctest.h>

#include "tests/kernels/golden.h"
#include "tests/kernels/model_runner.h"

namespace shoal::kernels {
namespace {

constexpr float kLimit = 1e-4F;
const std::string kTiny = std::string(SHOAL_GOLDEN_DIR) + "/model/tiny-random";

std::vector<float> slice(const std::vector<float>& values,
                         std::int64_t row,
                         std::int64_t count,
                         std::int64_t width) {
  return std::vector<float>(values.begin() + row * width, values.begin() + (row + count) * width);
}

TokenId argmax(const std::vector<float>& row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace

TEST_CASE("a full pass gives the golden logits of every row") {
  const test::Golden golden("forward");
  ModelRunner runner(kTiny, 1, SumPrecision::kDouble);
  for (const std::string name : {"random", "text"}) {
    const std::vector<TokenId> tokens = token_ids(golden.ints(name + ".tokens"));
    RunningSequence sequence = runner.open(static_cast<std::int64_t>(tokens.size()));
    CHECK(max_difference(runner.full(sequence, tokens), golden.floats(name + ".logits")) <= kLimit);
  }
}

TEST_CASE("split prefill and the decode steps after it give the golden logits") {
  const test::Golden golden("split_prefill");
  const std::vector<TokenId> tokens = token_ids(test::Golden("forward").ints("random.tokens"));
  ModelRunner runner(kTiny, 1, SumPrecision::kDouble);
  for (const int n : {15, 16, 17, 33, 64, 150}) {
    CAPTURE(n);
    const std::string p = "n" + std::to_string(n) + ".";
    RunningSequence sequence = runner.open(n + 4);
    const RunResult kept = runner.split(sequence, prefix(tokens, n));
    CHECK(kept.first_logits == golden.ints(p + "first_row")[0]);
    CHECK(max_difference(kept.logits, golden.floats(p + "logits")) <= kLimit);
    std::vector<float> next;
    for (const TokenId token : token_ids(golden.ints(p + "next_tokens"))) {
      const std::vector<float> row = runner.full(sequence, {token});
      next.insert(next.end(), row.begin(), row.end());
    }
    CHECK(max_difference(next, golden.floats(p + "next_logits")) <= kLimit);
    runner.backend().arena().give_sequence(sequence.id);
    runner.backend().arena().give_blocks(sequence.blocks);
  }
}

TEST_CASE("replay behind a prefix hit gives the golden logits and leaves cached KV alone") {
  const test::Golden golden("replay");
  const std::vector<TokenId> tokens = token_ids(test::Golden("forward").ints("random.tokens"));
  ModelRunner runner(kTiny, 1, SumPrecision::kDouble);
  KvArena& arena = runner.backend().arena();
  const int cases[][2] = {{32, 1}, {32, 15}, {32, 40}, {48, 1}, {48, 16}, {96, 40}};
  for (const auto& [hit, suffix] : cases) {
    CAPTURE(hit);
    CAPTURE(suffix);
    const std::string p = "hit" + std::to_string(hit) + ".suffix" + std::to_string(suffix) + ".";
    RunningSequence sequence = runner.open(hit + suffix);
    runner.full(sequence, prefix(tokens, hit));
    const std::byte* first = arena.block(sequence.blocks[0]);
    const std::int64_t cached =
        arena.layout().main_row * hit / 2;  // main rows of the first source that the prefix owns
    const std::vector<std::byte> before(first, first + cached);
    runner.backend().reset_sequence(sequence.id);
    const RunResult kept = runner.split(sequence, prefix(tokens, hit + suffix), {}, hit);
    CHECK(kept.first_logits == golden.ints(p + "first_row")[0]);
    CHECK(max_difference(kept.logits, golden.floats(p + "logits")) <= kLimit);
    CHECK(std::equal(before.begin(), before.end(), first));
    arena.give_sequence(sequence.id);
    arena.give_blocks(sequence.blocks);
  }
}

TEST_CASE("an image span uses its features, its routing bias and no Engram") {
  const test::Golden golden("image");
  ModelRunner runner(kTiny, 1, SumPrecision::kDouble);
  const std::vector<TokenId> tokens = token_ids(golden.ints("tokens"));
  RunningSequence sequence = runner.open(static_cast<std::int64_t>(tokens.size()));
  RowRun run = runner.full_run(sequence, tokens);
  run.image = golden.bytes("image");
  run.features = golden.bf16("features");
  CHECK(max_difference(runner.execute({run}).runs[0].logits, golden.floats("logits")) <= kLimit);
}

TEST_CASE("verify rows and the row after a roll-back give the golden logits") {
  const test::Golden golden("speculation");
  const std::vector<TokenId> tokens = token_ids(test::Golden("forward").ints("random.tokens"));
  ModelRunner runner(kTiny, 1, SumPrecision::kDouble);
  for (const int n : {33, 34}) {
    const std::string run = "n" + std::to_string(n) + ".";
    const std::vector<TokenId> truth = token_ids(golden.ints(run + "greedy"));
    for (int accepted = 0; accepted <= 5; ++accepted) {
      CAPTURE(n);
      CAPTURE(accepted);
      const std::string p = run + "accept" + std::to_string(accepted) + ".";
      RunningSequence sequence = runner.open(64);
      const std::vector<float> prompt = runner.full(sequence, prefix(tokens, n));
      CHECK(argmax(slice(prompt, n - 1, 1, runner.vocab())) == truth[0]);
      std::vector<TokenId> rows = token_ids(golden.ints(p + "drafts"));
      rows.insert(rows.begin(), truth[0]);
      CHECK(max_difference(runner.full(sequence, rows), golden.floats(p + "verify_logits")) <=
            kLimit);
      runner.truncate(sequence, n + 1 + accepted);
      CHECK(max_difference(runner.full(sequence, token_ids(golden.ints(p + "next"))),
                           golden.floats(p + "after_logits")) <= kLimit);
      runner.backend().arena().give_sequence(sequence.id);
      runner.backend().arena().give_blocks(sequence.blocks);
    }
  }
}

}  // namespace shoal::kernels
