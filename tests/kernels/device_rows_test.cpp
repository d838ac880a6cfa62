// What every row of the device registry promises to the workers, whatever it computes.
#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/kernels/device_under_test.h"

namespace shoal::kernels {

TEST_CASE("a device that is not in the build is refused by naming those that are") {
  for (const auto& error : {open_device("nonsense", device_config()).error(),
                            device_shape("nonsense", device_config()).error(),
                            find_device("nonsense").error()}) {
    CHECK(error.code == Code::kMisconfigured);
    CHECK(error.message == "device 'nonsense' is not in this build; known: cpu, sim");
  }
}

TEST_CASE("every device tells its shape before it is opened, and needs no weights for that") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    const auto told = device_shape(name, device_config());
    REQUIRE(told.has_value());
    const ModelShape& is = device.backend().shape();
    CHECK(is.vocab == kVocab);
    CHECK(told->vocab == is.vocab);
    CHECK(told->max_positions == is.max_positions);
    CHECK(told->window == is.window);
    CHECK(told->layers == is.layers);
    CHECK(told->encoder_layers == is.encoder_layers);
    CHECK(told->block_bytes == is.block_bytes);
    CHECK(told->block_bytes == device.backend().arena().layout().block_bytes);
    CHECK(told->sequence_bytes == is.sequence_bytes);
    CHECK(told->tail_bytes == is.tail_bytes);
    CHECK(told->bos == is.bos);
    CHECK(told->eos == is.eos);
    CHECK(told->numeric_id.empty());
    CHECK_FALSE(is.numeric_id.empty());
  });
}

TEST_CASE("only a device that reads a model needs its directory") {
  for_each_device([](std::string_view name) {
    DeviceConfig config = device_config();
    config.model = "/nowhere";
    const auto opened = open_device(name, config);
    CHECK(opened.has_value() != find_device(name)->reads_model);
    if (!opened) {
      CHECK(opened.error().message.find("/nowhere") != std::string::npos);
    }
  });
}

TEST_CASE("every device refuses a size of zero") {
  for_each_device([](std::string_view name) {
    DeviceConfig config = device_config();
    config.kv_blocks = 0;
    const auto opened = open_device(name, config);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().message.find("kv_blocks") != std::string::npos);
  });
}

TEST_CASE("on every device a token depends neither on chunks nor on who else is in the step") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    const std::vector<TokenId> tokens = prompt(150, 1);
    Sequence whole = device.open(200);
    const std::vector<TokenId> expected = device.answer(whole, tokens, 6);

    Sequence cut = device.open(200);
    device.feed(cut, {tokens.begin(), tokens.begin() + 37});
    std::vector<TokenId> got{device.feed(cut, {tokens.begin() + 37, tokens.end()})};
    Sequence other = device.open(200);
    device.feed(other, prompt(20, 2));
    while (got.size() < expected.size()) {
      const auto result = device.step(
          {DeviceUnderTest::run(other, {kFirst}), DeviceUnderTest::run(cut, {got.back()})});
      REQUIRE_MESSAGE(result.has_value(), result.error().message);
      ++other.length;
      ++cut.length;
      got.push_back(result->runs[1].drawn.at(0).token);
    }
    CHECK(got == expected);
  });
}

TEST_CASE("on every device an answer at temperature 0 has no seed and no choice") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    const std::vector<TokenId> tokens = prompt(20, 3);
    const auto ask = [&](float temperature, std::uint64_t seed, std::uint32_t choice) {
      Sequence sequence = device.open(20);
      SampleSpec sampling;
      sampling.temperature = temperature;
      sampling.seed = seed;
      sampling.choice = choice;
      const TokenId token = device.feed(sequence, tokens, sampling);
      device.backend().arena().give_sequence(sequence.id);
      device.backend().arena().give_blocks(sequence.blocks);
      return token;
    };
    CHECK(ask(0, 1, 0) == ask(0, 2, 3));
    CHECK(ask(2, 1, 0) == ask(2, 1, 0));
    std::vector<TokenId> drawn;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      drawn.push_back(ask(2, seed, 0));
    }
    CHECK(std::count(drawn.begin(), drawn.end(), drawn[0]) < 40);
  });
}

TEST_CASE("no device draws a token that is forbidden") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    SampleSpec sampling;
    for (int i = 0; i < 5; ++i) {
      Sequence sequence = device.open(20);
      const TokenId token = device.feed(sequence, prompt(20, 4), sampling);
      CHECK(std::find(sampling.forbidden.begin(), sampling.forbidden.end(), token) ==
            sampling.forbidden.end());
      sampling.forbidden.push_back(token);
    }
  });
}

TEST_CASE("a sequence goes on with the same tokens on another device of its row") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest from(name);
    DeviceUnderTest to(name);
    Sequence stays = from.open(200);
    const TokenId next = from.feed(stays, prompt(140, 5));
    const auto image = from.backend().export_sequence(stays.id, stays.blocks, stays.length);
    REQUIRE_MESSAGE(image.has_value(), image.error().message);
    to.open(200);  // so that slots and blocks differ
    Sequence moved = to.open(200);
    const auto done = to.backend().import_sequence(moved.id, moved.blocks, *image);
    REQUIRE_MESSAGE(done.has_value(), done.error().message);
    moved.length = stays.length;
    CHECK(to.answer(moved, {next}, 5) == from.answer(stays, {next}, 5));
  });
}

TEST_CASE("every device refuses a damaged image and leaves the slot empty") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    Sequence from = device.open(40);
    device.feed(from, prompt(30, 6));
    auto image = device.backend().export_sequence(from.id, from.blocks, from.length);
    REQUIRE(image.has_value());
    (*image)[image->size() / 2] ^= std::byte{1};
    Sequence slot = device.open(40);
    const auto done = device.backend().import_sequence(slot.id, slot.blocks, *image);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Code::kCorrupt);
    const TokenId fresh = device.feed(slot, prompt(30, 7));
    Sequence other = device.open(40);
    CHECK(device.feed(other, prompt(30, 7)) == fresh);
  });
}

TEST_CASE("every device refuses a run that does not follow what its sequence holds") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest device(name);
    Sequence sequence = device.open(40);
    device.feed(sequence, prompt(10, 8));
    sequence.length = 12;
    const auto gap = device.step({DeviceUnderTest::run(sequence, {kFirst})});
    REQUIRE_FALSE(gap.has_value());
    CHECK(gap.error().code == Code::kInvalid);
    sequence.length = 10;
    sequence.blocks.clear();
    const auto homeless = device.step({DeviceUnderTest::run(sequence, {kFirst})});
    REQUIRE_FALSE(homeless.has_value());
    CHECK(homeless.error().code == Code::kInvalid);
  });
}

TEST_CASE("every device goes on behind blocks read from another as if it had computed them") {
  for_each_device([](std::string_view name) {
    DeviceUnderTest first(name);
    DeviceUnderTest second(name);
    const std::vector<TokenId> tokens = prompt(1000, 5);
    Sequence cold = first.open(1010);
    const std::vector<TokenId> expected = first.answer(cold, tokens, 6);

    const ModelShape& shape = second.backend().shape();
    const Position hit = 7 * kBlockTokens;
    const Position start = hit - shape.layers * shape.window;
    REQUIRE(start > 0);
    Sequence warm = second.open(1010);
    std::vector<std::byte> bytes(static_cast<std::size_t>(shape.block_bytes));
    for (std::size_t b = 0; b < static_cast<std::size_t>(hit / kBlockTokens); ++b) {
      first.backend().read_block(cold.blocks[b], bytes);
      second.backend().write_block(warm.blocks[b], bytes);
    }
    warm.length = start;
    RowRun replay = DeviceUnderTest::run(warm, {tokens.begin() + start, tokens.begin() + hit});
    replay.history.assign(tokens.begin() + start - 3, tokens.begin() + start);
    replay.writes_from = hit;
    replay.encoder_floor = start;
    replay.decoder_floor = start;
    replay.sample = false;
    const auto replayed = second.step({replay});
    REQUIRE_MESSAGE(replayed.has_value(), replayed.error().message);
    warm.length = hit;
    CHECK(second.answer(warm, {tokens.begin() + hit, tokens.end()}, 6) == expected);

    std::vector<std::byte> loaded(bytes.size());
    for (std::size_t b = 0; b < static_cast<std::size_t>(hit / kBlockTokens); ++b) {
      first.backend().read_block(cold.blocks[b], bytes);
      second.backend().read_block(warm.blocks[b], loaded);
      CHECK(loaded == bytes);
    }
  });
}

}  // namespace shoal::kernels
