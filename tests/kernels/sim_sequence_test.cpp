// What the sim device keeps of a sequence from step to step: runs that continue it, steps that are
// refused or dropped, tails and moves behind drafts that were rejected.
#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/sim_answering.h"

using namespace shoal;
using namespace shoal::kernels;

TEST_CASE("a sequence goes on for many steps without being told a position or a token") {
  const SimModel model{};
  SimBackend backend(model, {.blocks = 8, .sequences = 4});
  Answering one(backend, 0, 512);
  one.next.drafts = false;
  one.start(prompt(5), nullptr);
  for (int i = 0; i < 400; ++i) {
    one.go_on();
    CHECK_FALSE(one.last.ended);
  }
  SimHistory history(prompt(5));
  for (const TokenId token : one.answer) {
    CHECK(token == sim_token(model, {.seed = 4, .forbidden = {}}, 0, 0, history));
    history.add(token);
  }
}

TEST_CASE("the sim device refuses to go on from nothing, and to verify without rules") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 4});
  Answering one(backend, 0, 128);
  const auto refuses = [&](const std::string& why) {
    const auto step = one.begin();
    REQUIRE_FALSE(step.has_value());
    CHECK(step.error().code == Code::kInvalid);
    CHECK_MESSAGE(step.error().message.find(why) != std::string::npos, step.error().message);
  };
  one.next.continues = true;
  one.next.tokens = {7};
  refuses("needs either tokens or");
  one.next.continues = false;
  one.go_on();  // nothing is sampled
  one.next.tokens.clear();
  refuses("needs either tokens or");
  Answering other(backend, 1, 128);
  other.start(prompt(1), std::make_shared<const Lengths>(0, 100));
  one.next = other.next;
  one.next.verifies = 1;
  one.next.rules = nullptr;
  refuses("verifies drafts");
  one.next = other.next;
  StepPlan plan;
  plan.runs = {one.next, one.next};
  CHECK(backend.begin(std::move(plan)).error().message.find("twice") != std::string::npos);
}

TEST_CASE("a step that is refused leaves its sequences as they were") {
  const SimModel model{.drafts = 5};
  SimBackend backend(model, {.blocks = 8, .sequences = 4});
  const auto rules = std::make_shared<const Lengths>(0, 60);
  Answering one(backend, 0, 128);
  one.start(prompt(1), rules);
  one.next.verifies = 5;
  StepPlan plan;
  RowRun hole;
  hole.sequence = SequenceId{1};
  hole.first = 5;
  hole.tokens = {7};
  hole.blocks = {BlockId{3}};
  plan.runs = {one.next, hole};
  CHECK(backend.begin(std::move(plan)).error().code == Code::kInvalid);
  while (!one.last.ended) {
    one.go_on();
  }
  CHECK(one.answer == answer_to(model, prompt(1), rules));
}

TEST_CASE("a step that was dropped leaves a sequence that only starts anew") {
  const SimModel model{.drafts = 5};
  SimBackend backend(model, {.blocks = 8, .sequences = 4});
  const auto rules = std::make_shared<const Lengths>(0, 60);
  Answering one(backend, 0, 128);
  one.start(prompt(1), rules);
  one.next.verifies = 5;
  REQUIRE(one.begin().has_value());  // and is not taken
  CHECK(one.go_on().drawn.empty());
  CHECK_FALSE(one.last.ended);
  one.next.continues = false;
  one.next.tokens = {7};
  const auto refused = one.begin();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Code::kInvalid);
  CHECK(refused.error().message.find("only starts anew") != std::string::npos);
  CHECK_FALSE(backend.export_sequence(one.next.sequence, one.next.blocks, kPrompt).has_value());
  Answering again(backend, 0, 128);
  again.start(prompt(2), rules);
  again.next.verifies = 5;
  while (!again.last.ended) {
    again.go_on();
  }
  CHECK(again.answer == answer_to(model, prompt(2), rules));
}

namespace {

// From a sequence's tail at `end`, in other memory, the token behind that at `first`; none: the
// image is refused.
std::optional<TokenId> behind_tail(
    SimBackend& backend, const Answering& from, Position end, Position first, TokenId token) {
  const auto tail = backend.export_tail(from.next.sequence, from.next.blocks, end);
  REQUIRE(tail.has_value());
  Answering other(backend, 1, 256);
  std::vector<std::byte> block(static_cast<std::size_t>(backend.shape().block_bytes));
  for (std::size_t b = 0; b < static_cast<std::size_t>(first / kBlockTokens); ++b) {
    backend.read_block(from.next.blocks[b], block);
    backend.write_block(other.next.blocks[b], block);
  }
  other.next.first = first;
  other.next.tokens = {token};
  other.next.sample = true;
  other.next.sampling = {.seed = 4, .forbidden = {}};
  if (!backend.import_tail(other.next, *tail)) {
    return std::nullopt;
  }
  return other.go_on().drawn.at(0).token;
}

}  // namespace

TEST_CASE("a tail reaches seven rows below its end, whatever was written behind that") {
  const SimModel model{.drafts = 5};
  int most_rejected = 0;
  for (std::int64_t salt = 0; salt < 30; ++salt) {
    CAPTURE(salt);
    SimBackend backend(model, {.blocks = 8, .sequences = 4});
    Answering one(backend, 0, 256);
    one.start(prompt(salt), std::make_shared<const Lengths>(0, 1000));
    one.next.verifies = 5;
    while (one.last.end < 180 + salt) {
      one.go_on();
    }
    const Position end = one.last.end;
    const Position written = one.last.first + 1 + one.last.verified;
    most_rejected = std::max(most_rejected, static_cast<int>(written - end));
    CHECK_FALSE(backend.export_tail(one.next.sequence, one.next.blocks, end + 1).has_value());
    std::vector<TokenId> tokens = prompt(salt);
    tokens.insert(tokens.end(), one.answer.begin(), one.answer.end());
    for (Position first = end - 7; first <= end; ++first) {
      CAPTURE(first);
      const TokenId token = tokens[static_cast<std::size_t>(first)];
      const auto drawn = behind_tail(backend, one, end, first, token);
      REQUIRE(drawn.has_value());
      if (first < end) {
        CHECK(*drawn == tokens[static_cast<std::size_t>(first) + 1]);
      }
    }
  }
  CHECK(most_rejected == 5);
}

TEST_CASE("a tail of an earlier end reaches as far down as windows do below the last row written") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 4});
  Answering one(backend, 0, 256);
  one.start(prompt(1), std::make_shared<const Lengths>(0, 1000));
  one.next.verifies = 5;
  while (one.last.end < 180 || one.last.drawn.size() > 1) {  // all five are void
    one.go_on();
  }
  const Position written = one.last.end + 5;
  for (Position end = one.last.end - 14; end <= one.last.end; ++end) {
    for (Position first = end - 8; first <= end; ++first) {
      CAPTURE(written - first);
      const bool reaches = first >= written - 13 && first >= end - 7;
      CHECK(behind_tail(backend, one, end, first, 7).has_value() == reaches);
    }
  }
}

TEST_CASE("a sequence that moves behind rejected rows goes on as if it had stayed") {
  const SimModel model{.drafts = 5};
  const auto rules = std::make_shared<const Lengths>(0, 150);
  SimBackend from(model, {.blocks = 8, .sequences = 4});
  SimBackend to(model, {.blocks = 8, .sequences = 4});
  Answering one(from, 0, 256);
  one.start(prompt(8), rules);
  one.next.verifies = 5;
  while (one.last.end < 100 || one.last.verified < static_cast<int>(one.last.drawn.size())) {
    one.go_on();
  }
  const auto image = from.export_sequence(one.next.sequence, one.next.blocks, one.last.end);
  REQUIRE(image.has_value());
  Answering other(to, 1, 256);
  REQUIRE(to.import_sequence(other.next.sequence, other.next.blocks, *image).has_value());
  other.next.first = one.last.end;
  other.start({one.answer.back()}, rules);
  other.next.verifies = 5;
  while (!other.last.ended) {
    other.go_on();
  }
  one.answer.insert(one.answer.end(), other.answer.begin(), other.answer.end());
  CHECK(one.answer == answer_to(model, prompt(8), rules));
}
