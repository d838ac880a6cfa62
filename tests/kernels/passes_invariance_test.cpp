// The model agrees with itself bit for bit: however rows are cut, batched, spread over threads or
// rolled back. No golden data needed.
#include <algorithm>
#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/experts.h"
#include "kernels/model/model_backend.h"
#include "tests/kernels/model_runner.h"

namespace shoal::kernels {
namespace {

const std::string kTiny = std::string(SHOAL_GOLDEN_DIR) + "/model/tiny-random";
const std::string kGuppy = std::string(SHOAL_MODELS_DIR) + "/guppy";

std::vector<float> full_in_chunks(ModelRunner& runner,
                                  const std::vector<TokenId>& tokens,
                                  const std::vector<std::int64_t>& chunks) {
  RunningSequence sequence = runner.open(static_cast<std::int64_t>(tokens.size()));
  std::vector<float> logits;
  std::int64_t at = 0;
  for (const std::int64_t size : chunks) {
    const auto part = runner.full(
        sequence, std::vector<TokenId>(tokens.begin() + at, tokens.begin() + at + size));
    logits.insert(logits.end(), part.begin(), part.end());
    at += size;
  }
  REQUIRE(at == static_cast<std::int64_t>(tokens.size()));
  return logits;
}

// Chunk sizes that cover n rows, drawn from the seed.
std::vector<std::int64_t> random_cuts(std::uint64_t seed, std::int64_t n) {
  std::vector<std::int64_t> out;
  for (const TokenId cut : random_tokens(seed, n, 1, 40)) {
    const std::int64_t size = std::min<std::int64_t>(cut, n);
    out.push_back(size);
    n -= size;
    if (n == 0) {
      break;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("full mode: prefill equals any chunking equals token-by-token decode, bit for bit") {
  const std::vector<TokenId> tokens = random_tokens(11, 70, 3, 500);
  ModelRunner runner(kTiny);
  const std::vector<float> whole = full_in_chunks(runner, tokens, {70});
  CHECK(full_in_chunks(runner, tokens, {7, 6, 57}) == whole);
  CHECK(full_in_chunks(runner, tokens, {16, 17, 37}) == whole);
  CHECK(full_in_chunks(runner, tokens, std::vector<std::int64_t>(70, 1)) == whole);
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    CHECK(full_in_chunks(runner, tokens, random_cuts(seed, 70)) == whole);
  }
}

TEST_CASE(
    "full mode on guppy past window, top-k and candidates: decode equals prefill, one or two "
    "threads") {
  const std::vector<TokenId> tokens = random_tokens(12, 420, 3, 2400);
  ModelRunner one(kGuppy, 1);
  const std::vector<float> whole = full_in_chunks(one, tokens, {420});
  ModelRunner two(kGuppy, 2);
  CHECK(full_in_chunks(two, tokens, {420}) == whole);
  CHECK(full_in_chunks(one, tokens, random_cuts(4, 420)) == whole);
  std::vector<std::int64_t> prompt_then_decode(60, 1);
  prompt_then_decode.insert(prompt_then_decode.begin(), 360);
  CHECK(full_in_chunks(two, tokens, prompt_then_decode) == whole);
}

TEST_CASE("split mode: given lo and t, any chunking gives the same bits, hits included") {
  const std::vector<TokenId> tokens = random_tokens(13, 131, 3, 500);
  ModelRunner runner(kTiny);
  const auto run = [&](const std::vector<std::int64_t>& chunks, Position hit) {
    RunningSequence sequence = runner.open(140);
    if (hit > 0) {
      runner.full(sequence, std::vector<TokenId>(tokens.begin(), tokens.begin() + hit));
      runner.backend().reset_sequence(sequence.id);
    }
    std::vector<float> logits = runner.split(sequence, tokens, chunks, hit).logits;
    const auto next = runner.full(sequence, {5, 6, 7});
    logits.insert(logits.end(), next.begin(), next.end());
    runner.backend().arena().give_sequence(sequence.id);
    runner.backend().arena().give_blocks(sequence.blocks);
    return logits;
  };
  const std::vector<float> cold = run({131}, 0);
  CHECK(run({15, 18, 1, 97}, 0) == cold);
  CHECK(run(random_cuts(5, 131), 0) == cold);
  const std::vector<float> behind_hit = run({131 - 96 + 16}, 96);
  CHECK(behind_hit != cold);
  CHECK(run({5, 11, 35}, 96) == behind_hit);
  CHECK(run(std::vector<std::int64_t>(51, 1), 96) == behind_hit);
}

TEST_CASE("split prefill of at most one window equals full prefill") {
  ModelRunner runner(kTiny);
  for (const std::int64_t n : {1, 2, 15, 16}) {
    const std::vector<TokenId> tokens = random_tokens(14, n, 3, 500);
    RunningSequence sequence = runner.open(n);
    CHECK(runner.split(sequence, tokens).logits == full_in_chunks(runner, tokens, {n}));
  }
}

TEST_CASE("a row does not notice what else runs in its step") {
  ModelRunner runner(kTiny, 2);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::vector<float>> alone;
  for (const std::int64_t n : {1, 3, 16, 17, 33, 64}) {
    prompts.push_back(random_tokens(static_cast<std::uint64_t>(n), n, 3, 500));
    alone.push_back(full_in_chunks(runner, prompts.back(), {n}));
  }
  // One step: five sequences prefilled whole, the sixth in split mode beside them.
  std::vector<RunningSequence> sequences;
  std::vector<RowRun> runs;
  for (const auto& prompt : prompts) {
    sequences.push_back(runner.open(static_cast<std::int64_t>(prompt.size()) + 4));
    runs.push_back(runner.full_run(sequences.back(), prompt));
  }
  RunningSequence split = runner.open(64);
  const std::vector<TokenId> long_prompt = random_tokens(99, 50, 3, 500);
  RowRun encoder = runner.full_run(split, long_prompt);
  encoder.stack = Stack::kEncoder;
  encoder.finishes_prompt = true;
  encoder.decoder_floor = 50 - 16;
  runs.insert(runs.begin() + 2, encoder);
  const StepResult together = runner.execute(runs);
  RunningSequence again = runner.open(64);
  CHECK(together.runs[2].logits == runner.split(again, long_prompt).logits);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    CHECK(together.runs[i < 2 ? i : i + 1].logits == alone[i]);
  }
}

TEST_CASE("verify rows equal decode rows and a roll-back leaves the state of plain decode") {
  const std::vector<TokenId> tokens = random_tokens(15, 60, 3, 500);
  ModelRunner runner(kTiny);
  for (const std::int64_t start : {33, 34}) {
    const std::vector<TokenId> prompt(tokens.begin(), tokens.begin() + start);
    const std::vector<TokenId> future(tokens.begin() + start, tokens.begin() + start + 12);
    RunningSequence plain = runner.open(80);
    runner.full(plain, prompt);
    std::vector<std::vector<float>> rows;
    for (const TokenId token : future) {
      rows.push_back(runner.full(plain, {token}));
    }
    for (std::int64_t accepted = 0; accepted <= 5; ++accepted) {
      CAPTURE(start);
      CAPTURE(accepted);
      RunningSequence sequence = runner.open(80);
      runner.full(sequence, prompt);
      std::vector<TokenId> drafts(future.begin(), future.begin() + 6);
      for (std::int64_t i = accepted + 1; i < 6; ++i) {
        drafts[static_cast<std::size_t>(i)] = drafts[static_cast<std::size_t>(i)] == 3 ? 4 : 3;
      }
      const std::vector<float> verified = runner.full(sequence, drafts);
      for (std::int64_t i = 0; i <= accepted; ++i) {
        CHECK(std::equal(rows[static_cast<std::size_t>(i)].begin(),
                         rows[static_cast<std::size_t>(i)].end(),
                         verified.begin() + i * runner.vocab()));
      }
      runner.truncate(sequence, start + 1 + accepted);
      for (std::int64_t i = accepted + 1; i < 12; ++i) {
        CHECK(runner.full(sequence, {future[static_cast<std::size_t>(i)]}) ==
              rows[static_cast<std::size_t>(i)]);
      }
      runner.backend().arena().give_sequence(sequence.id);
      runner.backend().arena().give_blocks(sequence.blocks);
    }
    runner.backend().arena().give_sequence(plain.id);
    runner.backend().arena().give_blocks(plain.blocks);
  }
}

TEST_CASE("a row may be that of the token which its sequence's last step drew") {
  ModelRunner runner(kTiny);
  const std::vector<TokenId> prompt = random_tokens(16, 20, 3, 500);
  RunningSequence a = runner.open(40);
  RunningSequence b = runner.open(40);
  RowRun first = runner.full_run(a, prompt, WantLogits::kLast);
  first.sample = true;
  const TokenId token = runner.execute({first}, Queue::kDecode).runs[0].drawn.at(0).token;
  a.tokens = prompt;
  RowRun resolved = runner.full_run(a, {}, WantLogits::kLast);
  resolved.continues = true;
  const std::vector<float> device_side = runner.execute({resolved}, Queue::kDecode).runs[0].logits;
  runner.full(b, prompt);
  CHECK(runner.full(b, {token}) == device_side);
}

TEST_CASE("a pass gives the same logits with every instruction set") {
  const std::vector<TokenId> tokens = random_tokens(18, 40, 3, 500);
  ModelRunner best(kTiny);
  const std::vector<float> expected = full_in_chunks(best, tokens, {40});
  for (const cpu::LaneKernels* lanes : cpu::lane_kernels()) {
    if (lanes->is_available()) {
      CAPTURE(lanes->name);
      ModelRunner runner(kTiny, 1, SumPrecision::kSingle, std::string(lanes->name));
      CHECK(full_in_chunks(runner, tokens, {40}) == expected);
    }
  }
}

TEST_CASE("a step that waits for its experts goes on where it stopped, with the same bits") {
  const std::vector<TokenId> tokens = random_tokens(17, 40, 3, 500);
  ModelRunner runner(kTiny);
  const std::vector<float> expected = full_in_chunks(runner, tokens, {40});

  auto model = Model::load(kTiny);
  REQUIRE(model.has_value());
  ComputePool pool(1);
  const auto ops = make_cpu_ops(pool, SumPrecision::kSingle);
  const LocalExperts local(**model, *ops);
  YieldedExperts deferred;
  ModelBackend backend(**model, *ops, pool, deferred, BackendLimits{4, 2}, "test");
  RowRun run;
  run.sequence = *backend.arena().take_sequence();
  run.blocks = *backend.arena().take_blocks(1);
  run.tokens = tokens;
  run.logits = WantLogits::kAll;
  backend.reset_sequence(run.sequence);
  auto step = backend.begin(StepPlan{StepId{1}, EpochId{1}, Queue::kPrefill, {run}});
  REQUIRE(step.has_value());
  int exchanges = 0;
  while (backend.advance(**step) == StepYield::kNeedsExchange) {
    local.run(backend.exchange(**step));
    ++exchanges;
  }
  CHECK(exchanges == (*model)->config.layers);
  CHECK(backend.take(**step).runs[0].logits == expected);
}

TEST_CASE("a plan that cannot be right is refused with the reason") {
  ModelRunner runner(kTiny);
  RunningSequence sequence = runner.open(20);
  const auto refused = [&](RowRun run, const std::string& why) {
    auto step =
        runner.backend().begin(StepPlan{StepId{1}, EpochId{1}, Queue::kPrefill, {std::move(run)}});
    REQUIRE_FALSE(step.has_value());
    CHECK(step.error().code == Code::kInvalid);
    CHECK_MESSAGE(step.error().message.find(why) != std::string::npos, step.error().message);
  };
  RowRun good = runner.full_run(sequence, {1, 2, 3});
  RowRun run = good;
  run.tokens = {512};
  refused(run, "token 512");
  run = good;
  run.first = 5000;
  refused(run, "exceed the model's 4096");
  run = good;
  run.first = 127;
  refused(run, "block table");
  run = good;
  run.sequence = SequenceId{9};
  refused(run, "never reset");
  run = good;
  run.tokens.clear();
  refused(run, "needs either tokens");
  run = good;
  run.stack = Stack::kEncoder;
  run.finishes_prompt = true;
  run.decoder_floor = 2;
  runner.execute({run});
  run.first = 3;
  run.decoder_floor = 1;
  refused(run, "layer 6 lacks window rows of positions 1..2");
  auto twice =
      runner.backend().begin(StepPlan{StepId{1}, EpochId{1}, Queue::kPrefill, {good, good}});
  CHECK_FALSE(twice.has_value());
}

}  // namespace shoal::kernels
