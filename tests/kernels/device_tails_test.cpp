// Session tails on every row of the device registry: a sequence that begins like an earlier one
// goes on with the bits it would have without the tail, and nothing else is taken for one.
#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "kernels/kv_image.h"
#include "tests/kernels/device_under_test.h"

namespace shoal::kernels {
namespace {

using Tokens = std::vector<TokenId>;
using Image = std::vector<std::byte>;

constexpr std::int64_t kRoom = 640;  // tokens
constexpr Position kWindow = 128;

// What the numbers depend on besides the tokens.
struct Floors {
  Position encoder = 0;
  Position decoder = 0;
};

struct Numbers {
  TokenId next = -1;
  std::vector<float> logits;  // of all rows that ran; a device without arithmetic has none

  friend bool operator==(const Numbers&, const Numbers&) = default;
};

// No memory is clean.
void soil(DeviceUnderTest& device) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(device.backend().shape().block_bytes),
                                     std::byte{0x5A});
  for (std::int64_t b = 0; b < device.backend().arena().blocks(); ++b) {
    device.backend().write_block(BlockId{static_cast<std::uint32_t>(b)}, bytes);
  }
}

Tokens prefix(const Tokens& tokens, Position length) {
  return {tokens.begin(), tokens.begin() + length};
}

Tokens joined(const Tokens& begin, Position length, const Tokens& end) {
  Tokens out = prefix(begin, length);
  out.insert(out.end(), end.begin(), end.end());
  return out;
}

RowRun all_layers(
    const Sequence& place, const Tokens& tokens, Position first, Position end, Floors floors) {
  RowRun run;
  run.sequence = place.id;
  run.first = first;
  run.tokens.assign(tokens.begin() + first, tokens.begin() + end);
  run.encoder_floor = floors.encoder;
  run.decoder_floor = floors.decoder;
  run.blocks = place.blocks;
  run.logits = WantLogits::kAll;
  run.sample = true;
  return run;
}

RowRun encoder_rows(
    const Sequence& place, const Tokens& tokens, Position first, Position end, Floors floors) {
  RowRun run = all_layers(place, tokens, first, end, floors);
  run.stack = Stack::kEncoder;
  run.finishes_prompt = end == static_cast<Position>(tokens.size());
  run.sample = run.finishes_prompt;
  run.logits = run.finishes_prompt ? WantLogits::kAll : WantLogits::kNone;
  return run;
}

Numbers run_rows(DeviceUnderTest& device, const RowRun& run) {
  auto result = device.step({run});
  REQUIRE_MESSAGE(result.has_value(), result.error().message);
  RunResult& got = result->runs[0];
  return {got.drawn.empty() ? -1 : got.drawn[0].token, std::move(got.logits)};
}

// The numbers of four more rows, each with the token drawn before it.
std::vector<Numbers> decode(
    DeviceUnderTest& device, const Sequence& place, Tokens tokens, TokenId next, Floors floors) {
  std::vector<Numbers> out;
  for (int i = 0; i < 4; ++i) {
    tokens.push_back(next);
    const auto end = static_cast<Position>(tokens.size());
    out.push_back(run_rows(device, all_layers(place, tokens, end - 1, end, floors)));
    next = out.back().next;
  }
  return out;
}

void close(DeviceUnderTest& device, const Sequence& place) {
  device.backend().arena().give_sequence(place.id);
  device.backend().arena().give_blocks(place.blocks);
}

struct Running {
  Sequence place;
  Numbers last;
};

// Rows 0 .. end - 1, the last ones one by one, as decode does.
Running exact(DeviceUnderTest& device, const Tokens& tokens, Position end) {
  Running out{device.open(kRoom), {}};
  run_rows(device, all_layers(out.place, tokens, 0, end - 5, {}));
  for (Position p = end - 5; p < end; ++p) {
    out.last = run_rows(device, all_layers(out.place, tokens, p, p + 1, {}));
  }
  return out;
}

// The prompt in split mode behind a hit.
Running split(DeviceUnderTest& device, const Tokens& prompt, Position hit, Floors floors) {
  Running out{device.open(kRoom), {}};
  if (hit > 0) {
    run_rows(device, all_layers(out.place, prompt, 0, hit, {}));
    device.backend().reset_sequence(out.place.id);
  }
  const auto end = static_cast<Position>(prompt.size());
  RowRun run = encoder_rows(out.place, prompt, floors.encoder, end, floors);
  run.writes_from = hit;
  if (floors.encoder > 0) {
    run.history.assign(prompt.begin() + floors.encoder - 3, prompt.begin() + floors.encoder);
  }
  out.last = run_rows(device, run);
  return out;
}

// `end` tokens, of which the first are a prompt in split mode and the others its answer.
Running split_session(DeviceUnderTest& device,
                      const Tokens& tokens,
                      Position end,
                      Position prompt,
                      Position hit,
                      Floors floors) {
  Running out = split(device, prefix(tokens, std::min(prompt, end)), hit, floors);
  for (Position p = prompt; p < end; ++p) {
    out.last = run_rows(device, all_layers(out.place, tokens, p, p + 1, floors));
  }
  return out;
}

Image export_tail(DeviceUnderTest& device, const Sequence& place, Position end) {
  auto tail = device.backend().export_tail(place.id, place.blocks, end);
  REQUIRE_MESSAGE(tail.has_value(), tail.error().message);
  CHECK(static_cast<std::int64_t>(tail->size()) <= device.backend().shape().tail_bytes);
  return *std::move(tail);
}

// A sequence elsewhere that holds the whole blocks below `position`.
Sequence open_behind(DeviceUnderTest& to,
                     DeviceUnderTest& from,
                     const Sequence& session,
                     Position position) {
  Sequence out = to.open(kRoom);
  std::reverse(out.blocks.begin(), out.blocks.end());
  std::vector<std::byte> bytes(static_cast<std::size_t>(to.backend().shape().block_bytes));
  for (std::size_t b = 0; b < static_cast<std::size_t>(position / kBlockTokens); ++b) {
    from.backend().read_block(session.blocks[b], bytes);
    to.backend().write_block(out.blocks[b], bytes);
  }
  return out;
}

void import_tail(DeviceUnderTest& to, const RowRun& run, const Image& tail) {
  const auto done = to.backend().import_tail(run, tail);
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
}

void check_blocks(DeviceUnderTest& a,
                  const Sequence& one,
                  DeviceUnderTest& b,
                  const Sequence& other,
                  Position length) {
  std::vector<std::byte> left(static_cast<std::size_t>(a.backend().shape().block_bytes));
  std::vector<std::byte> right(left.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(length / kBlockTokens); ++i) {
    a.backend().read_block(one.blocks[i], left);
    b.backend().read_block(other.blocks[i], right);
    CHECK(left == right);
  }
}

// Both hold `tokens` and go on with `next`; closes them.
void check_same(DeviceUnderTest& a,
                const Sequence& one,
                DeviceUnderTest& b,
                const Sequence& other,
                const Tokens& tokens,
                TokenId next,
                Floors floors) {
  CHECK(decode(b, other, tokens, next, floors) == decode(a, one, tokens, next, floors));
  check_blocks(a, one, b, other, static_cast<Position>(tokens.size()));
  close(a, one);
  close(b, other);
}

// Ends of sessions: in the first block, shortly behind a block, far from one, with the most rows.
constexpr Position kEnds[] = {100, 130, 261, 262, 290};

void check_refused(DeviceUnderTest& device, const RowRun& run, std::span<const std::byte> tail) {
  const auto done = device.backend().import_tail(run, tail);
  REQUIRE_FALSE(done.has_value());
  CHECK_MESSAGE(done.error().code == Code::kCorrupt, done.error().message);
}

}  // namespace

TEST_CASE("exact: behind a tail every device has the bits of a sequence never interrupted") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    soil(from);
    soil(to);
    for (const Position end : kEnds) {
      const Tokens session = prompt(end, 1);
      const Running ended = exact(from, session, end);
      const Image tail = export_tail(from, ended.place, end);
      for (Position position = end - kTailReach; position <= end; ++position) {
        CAPTURE(end);
        CAPTURE(position);
        const Tokens tokens = joined(session, position, prompt(40, position));
        const Position length = position + 40;
        const Running cold = exact(from, tokens, position);
        const Numbers expected =
            run_rows(from, all_layers(cold.place, tokens, position, length, {}));
        const Sequence warm = open_behind(to, from, ended.place, position);
        const RowRun run = all_layers(warm, tokens, position, length, {});
        import_tail(to, run, tail);
        CHECK(run_rows(to, run) == expected);
        check_same(from, cold.place, to, warm, tokens, expected.next, {});
      }
      close(from, ended.place);
    }
  });
}

namespace {

// A session in split mode that ended, and its tail.
struct SplitSession {
  explicit SplitSession(DeviceUnderTest& device, Position hit_tokens, Position answer)
      : hit(hit_tokens),
        floors{hit > 0 ? hit - kWindow : 0, hit + 150 - kWindow},
        prompt_end(hit + 150),
        end(prompt_end + answer),
        tokens(prompt(end, 2)),
        running(split_session(device, tokens, end, prompt_end, hit, floors)),
        tail(export_tail(device, running.place, end)) {}

  Position hit;
  Floors floors;
  Position prompt_end;
  Position end;
  Tokens tokens;
  Running running;
  Image tail;
};

}  // namespace

TEST_CASE("bounded, a window or more behind a tail: the decoder half begins as behind any prompt") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    soil(from);
    soil(to);
    for (const Position hit : {0, 256}) {
      const SplitSession session(from, hit, 21);
      for (Position position = session.end - kTailReach; position <= session.end; ++position) {
        CAPTURE(hit);
        CAPTURE(position);
        const Position length = position + kWindow + (position % 3) * 20;
        const Tokens tokens = joined(session.tokens, position, prompt(length - position, position));
        const Floors floors{session.floors.encoder, length - kWindow};
        const Running cold = split(from, tokens, hit, floors);
        const Sequence warm = open_behind(to, from, session.running.place, position);
        const RowRun run = encoder_rows(warm, tokens, position, position + 30, floors);
        import_tail(to, run, session.tail);
        run_rows(to, run);
        CHECK(run_rows(to, encoder_rows(warm, tokens, position + 30, length, floors)) == cold.last);
        check_same(from, cold.place, to, warm, tokens, cold.last.next, floors);
      }
      close(from, session.running.place);
    }
  });
}

TEST_CASE("bounded, less than a window behind a tail: all windows go on, in either stack") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    soil(from);
    soil(to);
    for (const Position hit : {0, 256}) {
      for (const Position answer : {0, 3, 21}) {
        const SplitSession session(from, hit, answer);
        for (Position position = session.end - kTailReach; position <= session.end; ++position) {
          CAPTURE(hit);
          CAPTURE(answer);
          CAPTURE(position);
          const Position length = position + 1 + position % 2 * (kWindow - 2);
          const Tokens tokens =
              joined(session.tokens, position, prompt(length - position, position));
          const Floors floors = session.floors;
          const Running cold =
              split_session(from, tokens, position, session.prompt_end, hit, floors);
          const Numbers expected =
              run_rows(from, all_layers(cold.place, tokens, position, length, floors));
          const Sequence warm = open_behind(to, from, session.running.place, position);
          const RowRun run = position % 4 < 2
                                 ? all_layers(warm, tokens, position, length, floors)
                                 : encoder_rows(warm, tokens, position, length, floors);
          import_tail(to, run, session.tail);
          CHECK(run_rows(to, run) == expected);
          check_same(from, cold.place, to, warm, tokens, expected.next, floors);
        }
        close(from, session.running.place);
      }
    }
  });
}

TEST_CASE(
    "behind a tail of windows that were rebuilt, what is sampled no earlier has the same bits") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    soil(from);
    soil(to);
    const ModelShape& shape = from.backend().shape();
    const Position end = 600;
    const Position decodes = end - (shape.layers - shape.encoder_layers) * shape.window;
    const Tokens session = prompt(end, 6);
    const Sequence ended = from.open(kRoom);
    const Floors cut{0, decodes};
    run_rows(from, encoder_rows(ended, session, 0, decodes, cut));
    run_rows(from, all_layers(ended, session, decodes, decodes + kWindow, cut));
    run_rows(from, all_layers(ended, session, decodes + kWindow, end, {}));
    const Image tail = export_tail(from, ended, end);
    for (Position position = end - kTailReach; position <= end; ++position) {
      CAPTURE(position);
      const Position length = std::max(end, position + 1);
      const Tokens tokens = joined(session, position, prompt(length - position, position));
      const Running cold = exact(from, tokens, length);
      const Sequence warm = open_behind(to, from, ended, position);
      RowRun run = all_layers(warm, tokens, position, length, {});
      run.logits = WantLogits::kLast;
      import_tail(to, run, tail);
      CHECK(run_rows(to, run) == cold.last);
      check_same(from, cold.place, to, warm, tokens, cold.last.next, {});
    }
  });
}

TEST_CASE("on every device a sequence that moved gives a tail that reaches as far") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    const Position end = 290;
    const Tokens session = prompt(end, 3);
    const Running ended = exact(from, session, end);
    const auto image = from.backend().export_sequence(ended.place.id, ended.place.blocks, end);
    REQUIRE(image.has_value());
    const Sequence moved = to.open(kRoom);
    REQUIRE(to.backend().import_sequence(moved.id, moved.blocks, *image).has_value());
    CHECK(export_tail(to, moved, end) == export_tail(from, ended.place, end));
  });
}

TEST_CASE("every device refuses a run that a tail does not serve, and leaves the slot empty") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    const SplitSession session(device, 256, 0);
    const Tokens tokens = joined(session.tokens, session.end, prompt(200, 4));
    const Sequence slot = open_behind(device, device, session.running.place, session.end);
    const auto refuses = [&](Position position, Floors floors) {
      CAPTURE(position);
      const RowRun run = all_layers(slot, tokens, position, position + 1, floors);
      check_refused(device, run, session.tail);
      const auto next = device.step({run});
      CHECK(next.has_value() == (position == 0));
    };
    const Floors good = session.floors;
    refuses(session.end + 1, good);
    refuses(session.end - kTailReach - 1, {0, 0});
    refuses(session.end - 3, {good.encoder, good.decoder - 1});
    refuses(session.end - kTailReach - 2, good);
    refuses(1, good);
    refuses(0, good);
    RowRun homeless = all_layers(slot, tokens, session.end, session.end + 1, good);
    homeless.blocks.resize(1);
    CHECK(device.backend().import_tail(homeless, session.tail).error().code == Code::kInvalid);
    import_tail(device, all_layers(slot, tokens, session.end, session.end + 1, good), session.tail);
  });
}

TEST_CASE("every device takes a whole image for a tail, and no tail for a whole image") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    const SplitSession session(device, 0, 3);
    const Sequence& place = session.running.place;
    const auto whole = device.backend().export_sequence(place.id, place.blocks, session.end);
    REQUIRE(whole.has_value());
    const Sequence slot = open_behind(device, device, place, session.end);
    const Tokens tokens = joined(session.tokens, session.end, {kFirst});
    const RowRun run = all_layers(slot, tokens, session.end, session.end + 1, session.floors);
    import_tail(device, run, *whole);
    const Numbers behind = run_rows(device, run);
    import_tail(device, run, session.tail);
    CHECK(run_rows(device, run) == behind);
    const auto done = device.backend().import_sequence(slot.id, slot.blocks, session.tail);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Code::kCorrupt);
  });
}

TEST_CASE("every device refuses a tail that is damaged, cut off or another device's") {
  std::vector<Image> tails;
  for_each_device([&tails](std::string_view name) {
    DeviceUnderTest device(name);
    const Position end = 261;
    const Tokens tokens = prompt(end + 1, 5);
    const Running ended = exact(device, tokens, end);
    const Image tail = export_tail(device, ended.place, end);
    const RowRun run =
        all_layers(open_behind(device, device, ended.place, end), tokens, end, end + 1, {});
    std::size_t wrong = 0;
    Image flipped = tail;
    for (std::size_t i = 0; i < tail.size(); ++i) {
      flipped[i] ^= static_cast<std::byte>(1 << i % 8);
      wrong += device.backend().import_tail(run, flipped).has_value();
      flipped[i] = tail[i];
    }
    for (std::size_t length = 0; length < tail.size(); length += 1 + length / 64) {
      wrong += device.backend().import_tail(run, std::span(tail).first(length)).has_value();
    }
    CHECK(wrong == 0);
    for (const Image& foreign : tails) {
      check_refused(device, run, foreign);
    }
    tails.push_back(tail);
    import_tail(device, run, tail);
    CHECK(run_rows(device, run) ==
          run_rows(device, all_layers(ended.place, tokens, end, end + 1, {})));
  });
}

}  // namespace shoal::kernels
