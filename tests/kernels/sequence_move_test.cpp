// A sequence that moves between devices of the model goes on with the same bits, and no image can
// harm the device it is given to.
#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <random>

#include "kernels/kv_image.h"
#include "tests/kernels/model_runner.h"

namespace shoal::kernels {
namespace {

const std::string kTiny = std::string(SHOAL_GOLDEN_DIR) + "/model/tiny-random";
const std::string kGuppy = std::string(SHOAL_MODELS_DIR) + "/guppy";
constexpr std::int64_t kRoom = 400;  // tokens

using Image = std::vector<std::byte>;

Image export_from(ModelRunner& from, const RunningSequence& sequence) {
  auto image = from.backend().export_sequence(sequence.id, sequence.blocks, sequence.length());
  REQUIRE_MESSAGE(image.has_value(), image.error().message);
  return *std::move(image);
}

// A slot with blocks in another order that hold something else.
RunningSequence open_used(ModelRunner& runner) {
  RunningSequence out = runner.open(kRoom);
  std::reverse(out.blocks.begin(), out.blocks.end());
  for (const BlockId block : out.blocks) {
    std::memset(runner.backend().arena().block(block),
                0x5A,
                static_cast<std::size_t>(runner.backend().shape().block_bytes));
  }
  return out;
}

RunningSequence move(ModelRunner& from, const RunningSequence& sequence, ModelRunner& to) {
  const Image image = export_from(from, sequence);
  RunningSequence out = open_used(to);
  const auto done = to.backend().import_sequence(out.id, out.blocks, image);
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  out.tokens = sequence.tokens;
  out.encoder_floor = sequence.encoder_floor;
  out.decoder_floor = sequence.decoder_floor;
  return out;
}

void close(ModelRunner& runner, const RunningSequence& sequence) {
  runner.backend().arena().give_sequence(sequence.id);
  runner.backend().arena().give_blocks(sequence.blocks);
}

// Decodes the same tokens on both sides.
void check_same(ModelRunner& one,
                RunningSequence& stays,
                ModelRunner& other,
                RunningSequence& moved,
                const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) {
    CHECK(other.full(moved, {token}) == one.full(stays, {token}));
  }
}

enum class Prefill : std::uint8_t { kFull, kSplit, kSplitBehindHit };

RunningSequence prefilled(ModelRunner& runner, const std::vector<TokenId>& prompt, Prefill mode) {
  RunningSequence sequence = runner.open(kRoom);
  if (mode == Prefill::kFull) {
    runner.full(sequence, prompt);
    return sequence;
  }
  const Position hit = mode == Prefill::kSplitBehindHit ? kBlockTokens : 0;
  if (hit > 0) {
    runner.full(sequence, prefix(prompt, hit));
    runner.backend().reset_sequence(sequence.id);
  }
  runner.split(sequence, prompt, {}, hit);
  return sequence;
}

void check_there_and_back(ModelRunner& a, ModelRunner& b, std::int64_t length, Prefill mode) {
  CAPTURE(length);
  CAPTURE(static_cast<int>(mode));
  const std::vector<TokenId> prompt = random_tokens(21, length, 3, 500);
  RunningSequence stays = prefilled(a, prompt, mode);
  RunningSequence there = move(a, stays, b);
  check_same(a, stays, b, there, {5, 6, 7});
  RunningSequence back = move(b, there, a);
  check_same(a, stays, a, back, {8, 9});
  close(a, stays);
  close(b, there);
  close(a, back);
}

}  // namespace

TEST_CASE("a moved sequence of guppy goes on bit for bit, there and back again") {
  ModelRunner a(kGuppy);
  ModelRunner b(kGuppy);
  open_used(b);  // so that slots and blocks differ
  for (const std::int64_t length : {1, 2, 37, 126, 127, 128, 129, 255, 256, 257}) {
    check_there_and_back(a, b, length, Prefill::kFull);
    check_there_and_back(a, b, length, Prefill::kSplit);
  }
  check_there_and_back(a, b, 301, Prefill::kSplitBehindHit);
}

TEST_CASE("a moved sequence of the random model goes on bit for bit at every length") {
  ModelRunner a(kTiny);
  ModelRunner b(kTiny);
  for (std::int64_t length = 1; length <= 40; ++length) {
    check_there_and_back(a, b, length, Prefill::kFull);
    check_there_and_back(a, b, length, Prefill::kSplit);
  }
  for (const std::int64_t length : {255, 256, 257}) {
    check_there_and_back(a, b, length, Prefill::kSplitBehindHit);
  }
}

TEST_CASE("rejected drafts do not travel") {
  ModelRunner a(kTiny);
  ModelRunner b(kTiny);
  for (const std::int64_t accepted : {1, 2, 6}) {
    CAPTURE(accepted);
    RunningSequence plain = prefilled(a, random_tokens(22, 33, 3, 500), Prefill::kFull);
    RunningSequence drafted = prefilled(a, random_tokens(22, 33, 3, 500), Prefill::kFull);
    const std::vector<TokenId> drafts = {11, 12, 13, 14, 15, 16};
    a.full(drafted, drafts);
    a.truncate(drafted, 33 + accepted);
    a.full(plain, prefix(drafts, accepted));
    RunningSequence moved = move(a, drafted, b);
    check_same(a, plain, b, moved, random_tokens(23, 10, 3, 500));
    close(a, plain);
    close(a, drafted);
    close(b, moved);
  }
}

namespace {

// Goes on from the tail at `position` with other tokens, and is compared with a run from the start.
void check_tail(ModelRunner& runner,
                const RunningSequence& session,
                const Image& tail,
                Position position) {
  CAPTURE(position);
  const std::vector<TokenId> suffix = random_tokens(28, 20, 3, 500);
  RunningSequence cold = runner.open(kRoom);
  runner.full(cold, prefix(session.tokens, position));
  RunningSequence warm = open_used(runner);
  std::vector<std::byte> bytes(static_cast<std::size_t>(runner.backend().shape().block_bytes));
  for (std::size_t b = 0; b < static_cast<std::size_t>(position / kBlockTokens); ++b) {
    runner.backend().read_block(session.blocks[b], bytes);
    runner.backend().write_block(warm.blocks[b], bytes);
  }
  warm.tokens = cold.tokens;
  const auto done = runner.backend().import_tail(runner.full_run(warm, suffix), tail);
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  CHECK(runner.full(warm, suffix) == runner.full(cold, suffix));
  close(runner, cold);
  close(runner, warm);
}

Image export_tail(ModelRunner& runner, const RunningSequence& session) {
  auto tail = runner.backend().export_tail(session.id, session.blocks, session.length());
  REQUIRE_MESSAGE(tail.has_value(), tail.error().message);
  CHECK(static_cast<std::int64_t>(tail->size()) <= runner.backend().shape().tail_bytes);
  return *std::move(tail);
}

}  // namespace

TEST_CASE("a tail of the random model serves its end and seven positions before, at every length") {
  ModelRunner runner(kTiny);
  for (const std::int64_t length : {8, 15, 16, 17, 22, 23, 24, 40, 128, 131, 134, 135}) {
    CAPTURE(length);
    RunningSequence session = prefilled(runner, random_tokens(29, length, 3, 500), Prefill::kFull);
    const Image tail = export_tail(runner, session);
    for (Position position = std::max<Position>(1, length - kTailReach); position <= length;
         ++position) {
      check_tail(runner, session, tail, position);
    }
    close(runner, session);
  }
}

TEST_CASE("behind rejected drafts a tail serves what the rings still hold") {
  ModelRunner runner(kTiny);
  RunningSequence session = prefilled(runner, random_tokens(30, 40, 3, 500), Prefill::kFull);
  runner.full(session, {11, 12, 13, 14, 15, 16});
  runner.truncate(session, 42);
  const Image tail = export_tail(runner, session);
  for (const Position position : {35, 39, 40, 41, 42}) {
    check_tail(runner, session, tail, position);
  }
  RunningSequence slot = runner.open(kRoom);
  slot.tokens = prefix(session.tokens, 34);
  const auto done = runner.backend().import_tail(runner.full_run(slot, {7}), tail);
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error().code == Code::kCorrupt);
  CHECK_MESSAGE(done.error().message.find("layer 0 lacks window rows of positions 19..33") !=
                    std::string::npos,
                done.error().message);
}

TEST_CASE("only a finished sequence is exported") {
  ModelRunner runner(kTiny);
  RunningSequence sequence = runner.open(kRoom);
  const auto refused = [&](Position tokens) {
    const auto image = runner.backend().export_sequence(sequence.id, sequence.blocks, tokens);
    REQUIRE_FALSE(image.has_value());
    CHECK(image.error().code == Code::kInvalid);
  };
  refused(0);
  refused(1);
  RowRun run = runner.full_run(sequence, random_tokens(24, 20, 3, 500), WantLogits::kNone);
  run.stack = Stack::kEncoder;
  run.decoder_floor = 24;
  runner.execute({run});
  refused(20);  // nothing kept yet
  run.first = 20;
  runner.execute({run});
  refused(40);  // rows wait for the decoder half
  run.first = 40;
  run.finishes_prompt = true;
  runner.execute({run});
  CHECK(runner.backend().export_sequence(sequence.id, sequence.blocks, 60).has_value());
  refused(61);
  sequence.blocks.clear();
  refused(60);
}

TEST_CASE("an image that does not fit is refused with what differs") {
  ModelRunner tiny(kTiny);
  const Image image =
      export_from(tiny, prefilled(tiny, random_tokens(25, 130, 3, 500), Prefill::kFull));
  const auto refused = [](ModelRunner& runner, std::span<const std::byte> bytes, const char* why) {
    RunningSequence slot = runner.open(kRoom);
    const auto done = runner.backend().import_sequence(slot.id, slot.blocks, bytes);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Code::kCorrupt);
    CHECK_MESSAGE(done.error().message.find(why) != std::string::npos, done.error().message);
    close(runner, slot);
  };
  ModelRunner guppy(kGuppy);
  refused(guppy, image, "layout is '");
  RunningSequence other = guppy.open(kRoom);
  other.tokens = random_tokens(25, 130, 3, 500);
  const auto tail = guppy.backend().import_tail(guppy.full_run(other, {5}), image);
  CHECK(tail.error().message.find("layout is '") != std::string::npos);
  ModelRunner exact(kTiny, 1, SumPrecision::kDouble);
  refused(exact, image, "numeric id is 'cpu.2', this device's is 'cpu.2.double'");
  refused(tiny, std::span(image).first(image.size() - 1), "bytes arrived of");
  refused(tiny, std::span(image).first(20), "4 are left");
  refused(tiny, {}, "0 are left");
  Image longer = image;
  longer.push_back(std::byte{0});
  refused(tiny, longer, "bytes arrived of");
  seal_kv_image(longer);
  refused(tiny, longer, "1 bytes too many");
  Image damaged = image;
  damaged[image.size() / 2] ^= std::byte{1};
  refused(tiny, damaged, "digest differs");

  RunningSequence slot = tiny.open(kRoom);
  const auto done = tiny.backend().import_sequence(slot.id, std::span(slot.blocks).first(1), image);
  REQUIRE_FALSE(done.has_value());
  CHECK(done.error().code == Code::kInvalid);
}

namespace {

// One of the ways bytes go wrong, at a place drawn from the generator.
Image broken(const Image& image, std::mt19937_64& random) {
  Image out = image;
  const auto place = [&](std::size_t size) { return random() % (out.size() - size); };
  switch (random() % 4) {
    case 0:
      out[place(1)] ^= static_cast<std::byte>(1 + random() % 255);
      break;
    case 1:
      out.resize(random() % out.size());
      break;
    case 2: {
      constexpr std::int64_t kValues[] = {-1, 0, 1, 1LL << 40, INT64_MIN, INT64_MAX};
      std::memcpy(out.data() + place(8), &kValues[random() % std::size(kValues)], 8);
      break;
    }
    default: {
      const std::size_t begin = place(64);
      for (std::size_t i = begin; i < begin + 64; ++i) {
        out[i] = static_cast<std::byte>(random());
      }
    }
  }
  return out;
}

// What a worker does next: two sampled rows. Any of them may be refused.
void decode_two(ModelRunner& runner, const RunningSequence& slot, Position at) {
  for (int i = 0; i < 2; ++i) {
    RowRun run = runner.full_run(slot, {}, WantLogits::kNone);
    run.first = at + i;
    run.continues = i > 0;
    run.tokens.assign(i == 0 ? 1 : 0, 5);
    run.sample = true;
    StepPlan plan;
    plan.runs = {run};
    auto step = runner.backend().begin(std::move(plan));
    if (!step) {
      return;
    }
    REQUIRE(runner.backend().advance(**step) == StepYield::kDone);
    runner.backend().take(**step);
  }
}

}  // namespace

TEST_CASE("damage is always seen, and a sealed image of garbage harms nobody") {
  const std::uint64_t seed = 26;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  ModelRunner runner(kTiny);
  const Position length = 131;
  const Image image =
      export_from(runner, prefilled(runner, random_tokens(27, length, 3, 500), Prefill::kFull));
  RunningSequence slot = runner.open(kRoom);
  int accepted = 0;
  for (int i = 0; i < 600; ++i) {
    Image bytes = broken(image, random);
    const bool seen = bytes == image ||
                      !runner.backend().import_sequence(slot.id, slot.blocks, bytes).has_value();
    CHECK(seen);
    if (bytes.size() < 32) {
      continue;
    }
    seal_kv_image(bytes);
    if (runner.backend().import_sequence(slot.id, slot.blocks, bytes)) {
      ++accepted;
      decode_two(runner, slot, length);
    } else {
      RowRun fresh = runner.full_run(slot, {5}, WantLogits::kNone);
      runner.execute({fresh});
    }
  }
  CHECK(accepted > 100);
}

TEST_CASE("a sealed tail of garbage harms nobody") {
  const std::uint64_t seed = 27;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  ModelRunner runner(kTiny);
  RunningSequence session = prefilled(runner, random_tokens(31, 131, 3, 500), Prefill::kFull);
  const Image tail = export_tail(runner, session);
  RunningSequence slot = runner.open(kRoom);
  slot.tokens = session.tokens;
  int accepted = 0;
  for (int i = 0; i < 600; ++i) {
    Image bytes = broken(tail, random);
    if (bytes.size() < 32) {
      continue;
    }
    seal_kv_image(bytes);
    slot.tokens.resize(124 + random() % 8);
    if (runner.backend().import_tail(runner.full_run(slot, {5}), bytes)) {
      ++accepted;
      decode_two(runner, slot, slot.length());
    }
  }
  CHECK(accepted > 100);
}

}  // namespace shoal::kernels
