// The sim device: its tokens come from the rows in KV memory, so a wrong row shows, and a moved
// sequence goes on as if it had stayed.
#include "kernels/sim/sim_backend.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <vector>

#include "kernels/kv_image.h"

using namespace shoal;
using namespace shoal::kernels;

namespace {

struct Place {
  SequenceId sequence;
  std::vector<BlockId> blocks;
};

Result<StepResult> execute(SimBackend& backend, const RowRun& run) {
  StepPlan plan;
  plan.runs = {run};
  TRY(auto step, backend.begin(std::move(plan)));
  return backend.take(*step);
}

Result<StepResult> try_rows(SimBackend& backend,
                            const Place& place,
                            Position first,
                            const std::vector<TokenId>& tokens) {
  RowRun run;
  run.sequence = place.sequence;
  run.first = first;
  run.tokens = tokens;
  run.blocks = place.blocks;
  run.sample = true;
  return execute(backend, run);
}

TokenId rows(SimBackend& backend,
             const Place& place,
             Position first,
             const std::vector<TokenId>& tokens) {
  auto result = try_rows(backend, place, first, tokens);
  REQUIRE_MESSAGE(result.has_value(), result.error().message);
  return result->runs[0].drawn.at(0).token;
}

Place there() {
  return {SequenceId{5}, {BlockId{7}, BlockId{2}, BlockId{6}}};
}

Place here() {
  return {SequenceId{0}, {BlockId{0}, BlockId{1}, BlockId{2}}};
}

}  // namespace

TEST_CASE("the sim device shows a wrong history and a foreign block") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  const Place one{SequenceId{0}, {BlockId{0}}};
  const Place two{SequenceId{1}, {BlockId{1}}};
  rows(backend, one, 0, {7});
  rows(backend, two, 0, {8});
  CHECK(try_rows(backend, two, 0, {7}).error().code == Code::kInvalid);  // position 0 was written
  rows(backend, one, 1, {7});
  const Place mixed{two.sequence, one.blocks};
  CHECK(try_rows(backend, mixed, 1, {7}).error().code == Code::kCorrupt);
  const Place outside{two.sequence, {BlockId{8}}};
  CHECK(try_rows(backend, outside, 1, {7}).error().code == Code::kInvalid);
}

TEST_CASE("the sim device sees any row of its history that was overwritten") {
  for (const Position row : {0, 1, 127, 128, 199}) {
    CAPTURE(row);
    SimBackend backend({}, {.blocks = 8, .sequences = 8});
    rows(backend, here(), 0, std::vector<TokenId>(200, 9));
    std::byte* block = backend.arena().block(here().blocks[static_cast<std::size_t>(row / 128)]);
    block[row % 128 * 8] ^= std::byte{1};
    CHECK(try_rows(backend, here(), 200, {7}).error().code == Code::kCorrupt);
  }
}

TEST_CASE("a moved sim sequence answers as if it had stayed, there and back") {
  const SimModel model{.image_padding = 1000};
  for (const Position length : {1, 127, 128, 129, 300}) {
    CAPTURE(length);
    SimBackend a(model, {.blocks = 8, .sequences = 8});
    SimBackend b(model, {.blocks = 8, .sequences = 8});
    std::vector<TokenId> tokens(static_cast<std::size_t>(length), 9);
    rows(a, here(), 0, tokens);
    const auto image = a.export_sequence(here().sequence, here().blocks, length);
    REQUIRE(image.has_value());
    CHECK(static_cast<Position>(image->size()) > length * 8 + 1000);
    REQUIRE(b.import_sequence(there().sequence, there().blocks, *image).has_value());
    tokens.push_back(11);
    CHECK(rows(b, there(), length, {11}) == sim_token(model, {}, 0, 0, SimHistory(tokens)));
    const auto back = b.export_sequence(there().sequence, there().blocks, length + 1);
    REQUIRE(back.has_value());
    REQUIRE(a.import_sequence(there().sequence, there().blocks, *back).has_value());
    tokens.push_back(12);
    CHECK(rows(a, there(), length + 1, {12}) == sim_token(model, {}, 0, 0, SimHistory(tokens)));
  }
}

TEST_CASE("an image of other rows changes what follows") {
  SimBackend a({}, {.blocks = 8, .sequences = 8});
  rows(a, here(), 0, {9, 9});
  const auto image = a.export_sequence(here().sequence, here().blocks, 2);
  REQUIRE(image.has_value());
  REQUIRE(a.import_sequence(there().sequence, there().blocks, *image).has_value());
  CHECK(rows(a, there(), 2, {11}) !=
        sim_token({}, {}, 0, 0, SimHistory(std::vector<TokenId>{9, 8, 11})));
}

TEST_CASE("a sim sequence with an unfinished prompt is not exported") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  RowRun run;
  run.tokens = {9, 9};
  run.blocks = {BlockId{0}};
  run.stack = Stack::kEncoder;
  REQUIRE(execute(backend, run).has_value());
  CHECK(backend.export_sequence(SequenceId{0}, run.blocks, 2).error().code == Code::kInvalid);
  run.first = 2;
  run.finishes_prompt = true;
  REQUIRE(execute(backend, run).has_value());
  CHECK(backend.export_sequence(SequenceId{0}, run.blocks, 4).has_value());
  CHECK(backend.export_sequence(SequenceId{0}, run.blocks, 5).error().code == Code::kInvalid);
  CHECK(backend.export_sequence(SequenceId{0}, {}, 4).error().code == Code::kInvalid);
}

TEST_CASE("the sim device refuses damaged images and lives with sealed garbage") {
  const std::uint64_t seed = 31;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  rows(backend, here(), 0, std::vector<TokenId>(20, 9));
  const auto image = backend.export_sequence(here().sequence, here().blocks, 20);
  REQUIRE(image.has_value());
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::byte> bytes = *image;
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    const auto damaged = backend.import_sequence(there().sequence, there().blocks, bytes);
    REQUIRE_FALSE(damaged.has_value());
    CHECK(damaged.error().code == Code::kCorrupt);
    if (bytes.size() >= 32) {
      seal_kv_image(bytes);
      const bool taken =
          backend.import_sequence(there().sequence, there().blocks, bytes).has_value();
      CHECK((taken || !try_rows(backend, there(), 20, {7})));
    }
  }
}

namespace {

// Behind the blocks of `from` that are whole below the first row, and the tail.
Result<StepResult> behind_tail(SimBackend& backend,
                               const Place& from,
                               const std::vector<std::byte>& tail,
                               Position first) {
  RowRun run;
  run.sequence = there().sequence;
  run.first = first;
  run.tokens = {11};
  run.blocks = there().blocks;
  std::vector<std::byte> block(static_cast<std::size_t>(backend.shape().block_bytes));
  for (std::size_t b = 0; b < static_cast<std::size_t>(first / kBlockTokens); ++b) {
    backend.read_block(from.blocks[b], block);
    backend.write_block(run.blocks[b], block);
  }
  TRY_VOID(backend.import_tail(run, tail));
  return try_rows(backend, there(), first, run.tokens);
}

}  // namespace

TEST_CASE("the sim device goes on from a tail, and shows that of another session") {
  const SimModel model{.image_padding = 1000};
  for (const Position length : {20, 130, 256, 261}) {
    CAPTURE(length);
    SimBackend backend(model, {.blocks = 16, .sequences = 8});
    const Place other{SequenceId{1}, {BlockId{9}, BlockId{10}, BlockId{11}}};
    std::vector<TokenId> tokens(static_cast<std::size_t>(length), 9);
    rows(backend, here(), 0, tokens);
    tokens[3] = 8;
    rows(backend, other, 0, tokens);
    const auto tail = backend.export_tail(here().sequence, here().blocks, length);
    REQUIRE(tail.has_value());
    for (Position first = length - 7; first <= length; ++first) {
      CAPTURE(first);
      std::vector<TokenId> all(static_cast<std::size_t>(first), 9);
      all.push_back(11);
      const auto own = behind_tail(backend, here(), *tail, first);
      REQUIRE(own.has_value());
      const TokenId truth = sim_token(model, {}, 0, 0, SimHistory(all));
      CHECK(own->runs[0].drawn.at(0).token == truth);
      all[3] = 8;
      const auto foreign = behind_tail(backend, other, *tail, first);
      if (first < kBlockTokens) {  // no block is there to compare with
        CHECK(foreign->runs[0].drawn.at(0).token != sim_token(model, {}, 0, 0, SimHistory(all)));
      } else {
        REQUIRE_FALSE(foreign.has_value());
        CHECK(foreign.error().code == Code::kCorrupt);
      }
    }
  }
}

TEST_CASE("the sim device misses window rows as a model would") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  RowRun run;
  run.tokens = std::vector<TokenId>(200, 9);
  run.blocks = here().blocks;
  run.stack = Stack::kEncoder;
  run.finishes_prompt = true;
  run.decoder_floor = 72;
  REQUIRE(execute(backend, run).has_value());
  run.first = 200;
  run.tokens = {7};
  run.stack = Stack::kAll;
  run.decoder_floor = 71;
  CHECK(execute(backend, run).has_value());  // position 73 is the first that it sees
  run.decoder_floor = 72;
  const auto tail = backend.export_tail(SequenceId{0}, run.blocks, 198);
  REQUIRE(tail.has_value());
  run.first = 198;
  CHECK(backend.import_tail(run, *tail).has_value());
  run.decoder_floor = 71;
  CHECK(backend.import_tail(run, *tail).error().code == Code::kCorrupt);
}

TEST_CASE("the rule for a token does not change") {
  const std::vector<TokenId> tokens{7, 8, 9};
  const auto drawn = [&tokens](std::int64_t eos_period) {
    std::vector<TokenId> out;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const SampleSpec sampling{.seed = seed, .choice = 1, .forbidden = {}};
      out.push_back(sim_token({.eos_period = eos_period}, sampling, 0, 3, SimHistory(tokens)));
    }
    return out;
  };
  CHECK(drawn(0) == std::vector<TokenId>{441, 82, 200, 74, 28, 336, 288, 14});
  CHECK(drawn(2) == std::vector<TokenId>{1, 1, 200, 1, 1, 1, 1, 14});
}

TEST_CASE("answers are made of the given tokens and the given end only") {
  const SimModel model{.vocab = 100, .eos_period = 4, .tokens = {5, 17, 60}, .eos = 99};
  std::vector<TokenId> tokens;
  SimHistory history;
  for (int i = 0; i < 1000; ++i) {
    tokens.push_back(sim_token(model, {}, 0, 0, history));
    history.add(tokens.back());
  }
  for (const TokenId token : {5, 17, 60, 99}) {
    CHECK(std::count(tokens.begin(), tokens.end(), token) > 150);
  }
  CHECK(std::count(tokens.begin(), tokens.end(), 99) < 350);
  for (const TokenId token : tokens) {
    CHECK((token == 5 || token == 17 || token == 60 || token == 99));
  }
}

TEST_CASE("the tokens listed beside a drawn one can be drawn too") {
  SimBackend backend({.tokens = {5, 17, 60}}, {.blocks = 8, .sequences = 8});
  RowRun run;
  run.tokens = {9};
  run.blocks = {BlockId{0}};
  run.sample = true;
  run.sampling.top_logprobs = 3;
  const auto result = execute(backend, run);
  REQUIRE(result.has_value());
  const DrawnToken& drawn = result->runs[0].drawn.at(0);
  REQUIRE(drawn.top.size() == 3);
  CHECK(drawn.top[0].token == drawn.token);
  std::vector<TokenId> listed;
  for (const TokenLogprob& other : drawn.top) {
    listed.push_back(other.token);
  }
  std::sort(listed.begin(), listed.end());
  CHECK(listed == std::vector<TokenId>{5, 17, 60});
}

TEST_CASE("a greedy model draws by seed and choice only above temperature 0") {
  const SimModel model{.greedy = true};
  const std::vector<TokenId> tokens{7, 8, 9};
  const auto drawn = [&](float temperature, std::uint64_t seed, std::uint32_t choice) {
    SampleSpec sampling;
    sampling.temperature = temperature;
    sampling.seed = seed;
    sampling.choice = choice;
    return sim_token(model, sampling, 0, 0, SimHistory(tokens));
  };
  CHECK(drawn(0, 1, 0) == drawn(0, 2, 1));
  CHECK(drawn(1, 1, 0) == drawn(1, 1, 0));
  CHECK(drawn(1, 1, 0) != drawn(1, 2, 0));
  CHECK(drawn(1, 1, 0) != drawn(1, 1, 1));
}

TEST_CASE("an end that is forbidden is not drawn for ever") {
  const SimModel model{.eos_period = 1};
  CHECK(sim_token(model, {}, 0, 0, SimHistory(std::vector<TokenId>{7})) == 1);
  CHECK(sim_token(model, {.forbidden = {1}}, 0, 0, SimHistory(std::vector<TokenId>{7})) >= 3);
}
