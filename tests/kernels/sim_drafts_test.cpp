// The sim device with drafts: they change how many tokens a step draws, never which.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/sim_answering.h"

using namespace shoal;
using namespace shoal::kernels;

namespace {

// Verifies as many as it is told, and remembers what it was asked.
class Fixed final : public DraftFill {
 public:
  explicit Fixed(std::vector<int> lengths) : lengths_(std::move(lengths)) {}

  std::vector<int> lengths(std::span<const DraftedRun> runs) const override {
    for (const DraftedRun& run : runs) {
      asked.emplace_back(run.run, std::vector<float>(run.confidence.begin(), run.confidence.end()));
    }
    return lengths_;
  }

  mutable std::vector<std::pair<std::size_t, std::vector<float>>> asked;

 private:
  std::vector<int> lengths_;
};

}  // namespace

TEST_CASE("an answer with drafts is the one without, however many are verified and made") {
  const SimModel model{.eos_period = 60, .drafts = 5};
  std::mt19937_64 random(71);
  int accepted = 0;
  int rejected = 0;
  for (std::int64_t salt = 0; salt < 60; ++salt) {
    CAPTURE(salt);
    SimBackend backend(model, {.blocks = 8, .sequences = 4});
    const auto rules = std::make_shared<const Lengths>(random() % 40, 1 + random() % 200);
    Answering one(backend, 1, 256);
    one.start(prompt(salt), rules);
    while (!one.last.ended) {
      one.next.verifies = static_cast<int>(random() % 7);
      one.next.drafts = random() % 8 != 0;
      const Position before = one.last.end;
      const RunResult& result = one.go_on();
      const int kept = static_cast<int>(result.drawn.size()) - 1;
      CHECK(result.first == before);
      CHECK(result.end == before + 1 + kept);
      CHECK(result.verified <= std::min(one.next.verifies, 5));
      CHECK(one.rows == 1 + result.verified);
      const bool makes = one.next.drafts && !result.ended;
      CHECK(result.confidence.size() == (makes ? 5 : 0));
      accepted += kept;
      rejected += result.verified - kept;
    }
    CHECK(one.answer == answer_to(model, prompt(salt), rules));
  }
  CHECK(accepted > 300);
  CHECK(rejected > 300);
}

TEST_CASE("the fill says how many drafts are verified, and sees what may be and no more") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 4});
  const auto rules = std::make_shared<const Lengths>(0, 100);
  std::vector<Answering> answers;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    answers.emplace_back(backend, slot, 128);
    answers.back().next.drafts = true;
    answers.back().start(prompt(slot), rules);
  }
  answers[0].next.verifies = 5;
  answers[1].next.verifies = 0;
  answers[2].next.verifies = 3;
  const auto fill = std::make_shared<const Fixed>(std::vector<int>{2, 3});
  StepPlan plan;
  plan.fill = fill;
  for (const Answering& one : answers) {
    plan.runs.push_back(one.next);
  }
  const auto step = backend.begin(std::move(plan));
  REQUIRE(step.has_value());
  CHECK((*step)->rows == 3 + 2 + 3);
  CHECK((*step)->drafted == 3);
  REQUIRE(fill->asked.size() == 2);
  CHECK(fill->asked[0] == std::pair(std::size_t{0}, answers[0].last.confidence));
  std::vector<float> three = answers[2].last.confidence;
  three.resize(3);
  CHECK(fill->asked[1] == std::pair(std::size_t{2}, three));
  const StepResult result = backend.take(**step);
  CHECK(result.runs[0].verified == 2);
  CHECK(result.runs[1].verified == 0);
  CHECK(result.runs[2].verified == 3);
}

TEST_CASE(
    "the fill is not asked where there is nothing to verify, and never gets more than there is") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 4});
  Answering one(backend, 0, 128);
  one.start(prompt(1), std::make_shared<const Lengths>(0, 100));
  const auto fill = std::make_shared<const Fixed>(std::vector<int>{9});
  one.next.verifies = 0;
  CHECK(one.go_on(fill).verified == 0);
  CHECK(fill->asked.empty());
  one.next.verifies = 2;
  CHECK(one.go_on(fill).verified == 2);
  CHECK(fill->asked.size() == 1);
}

TEST_CASE("an answer ends inside of drafts that were right, and its runs have no rows then") {
  const SimModel model{.drafts = 5};
  int ended_early = 0;
  for (std::int64_t salt = 0; salt < 40; ++salt) {
    CAPTURE(salt);
    SimBackend backend(model, {.blocks = 8, .sequences = 4});
    const auto rules = std::make_shared<const Lengths>(0, 10 + salt % 5);
    Answering one(backend, 0, 128);
    one.start(prompt(salt), rules);
    one.next.verifies = 5;
    while (!one.last.ended) {
      one.go_on();
    }
    CHECK(one.answer == answer_to(model, prompt(salt), rules));
    ended_early += one.last.verified >= static_cast<int>(one.last.drawn.size()) ? 1 : 0;
    const Position end = one.last.end;
    CHECK(end == kPrompt - 1 + static_cast<Position>(one.answer.size()));
    for (int i = 0; i < 3; ++i) {
      const RunResult& over = one.go_on();
      CHECK(over.ended);
      CHECK(over.drawn.empty());
      CHECK(over.confidence.empty());
      CHECK(over.first == end);
      CHECK(over.end == end);
      CHECK(one.rows == 0);
    }
  }
  CHECK(ended_early > 10);
}

TEST_CASE("what is forbidden is so for its place, inside of drafts as elsewhere") {
  const SimModel model{.eos_period = 2, .drafts = 5};
  for (std::int64_t salt = 0; salt < 40; ++salt) {
    CAPTURE(salt);
    SimBackend backend(model, {.blocks = 8, .sequences = 4});
    const auto rules = std::make_shared<const Lengths>(12, 60);
    Answering one(backend, 0, 128);
    one.start(prompt(salt), rules);
    one.next.verifies = 5;
    while (!one.last.ended) {
      one.go_on();
    }
    CHECK(one.answer.size() >= 12);
    CHECK(std::count(one.answer.begin(), one.answer.end() - 1, kEos) == 0);
    CHECK(one.answer == answer_to(model, prompt(salt), rules));
  }
}

TEST_CASE("drafts are verified as far as the block table and the positions reach") {
  for (const bool by_table : {true, false}) {
    CAPTURE(by_table);
    const SimModel model{.max_positions = by_table ? 4096 : 128, .drafts = 5};
    SimBackend backend(model, {.blocks = 8, .sequences = 4});
    Answering one(backend, 0, by_table ? 128 : 256);
    one.start(prompt(1), std::make_shared<const Lengths>(0, 1000));
    while (one.last.end < 124) {
      one.go_on();
    }
    one.next.verifies = 5;
    const Position room = 127 - one.last.end;
    CHECK(one.go_on().verified == room);
  }
}

TEST_CASE("drafts behind another token than the one drawn are not verified") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 4});
  const auto rules = std::make_shared<const Lengths>(0, 100);
  for (const bool is_drawn : {true, false}) {
    CAPTURE(is_drawn);
    Answering one(backend, 0, 128);
    one.start(prompt(1), rules);
    one.next.continues = false;
    one.next.first = kPrompt;
    one.next.tokens = {is_drawn ? one.answer[0] : one.answer[0] - 1};
    one.next.sampling = rules->first();
    one.next.verifies = 5;
    CHECK(one.go_on().verified == (is_drawn ? 5 : 0));
  }
}

TEST_CASE("as many drafts hold as their confidences say") {
  struct Count {
    int verified = 0;
    int held = 0;
  };

  std::map<float, Count> by_confidence;
  SimBackend backend({.drafts = 5}, {.blocks = 32, .sequences = 4});
  for (std::int64_t salt = 0; salt < 40; ++salt) {
    Answering one(backend, 0, 4096);
    one.start(prompt(salt), std::make_shared<const Lengths>(0, 10'000));
    one.next.verifies = 5;
    while (one.last.end < 1000) {
      const std::vector<float> confidence = one.last.confidence;
      const auto held = one.go_on().drawn.size() - 1;
      for (std::size_t k = 0; k < std::min<std::size_t>(held + 1, 5); ++k) {
        ++by_confidence[confidence[k]].verified;
        by_confidence[confidence[k]].held += k < held ? 1 : 0;
      }
    }
  }
  CHECK(by_confidence.size() > 10);
  for (const auto& [told, count] : by_confidence) {
    const auto chance = static_cast<double>(told);
    CAPTURE(chance);
    CHECK(chance > 0.29);
    CHECK(chance < 0.99);
    REQUIRE(count.verified > 500);
    const double expected = count.verified * chance;
    CHECK(std::abs(count.held - expected) < 4 * std::sqrt(expected * (1 - chance)));
  }
}

TEST_CASE("a power of the odds changes what drafts promise, not what they are") {
  SimBackend sober({.drafts = 5}, {.blocks = 8, .sequences = 4});
  SimBackend proud({.drafts = 5, .confidence_power = 2}, {.blocks = 8, .sequences = 4});
  const auto rules = std::make_shared<const Lengths>(0, 80);
  Answering a(sober, 0, 128);
  Answering b(proud, 0, 128);
  a.start(prompt(3), rules);
  b.start(prompt(3), rules);
  a.next.verifies = b.next.verifies = 5;
  while (!a.last.ended) {
    REQUIRE(a.last.confidence.size() == b.last.confidence.size());
    for (std::size_t k = 0; k < a.last.confidence.size(); ++k) {
      const double odds = a.last.confidence[k] / (1 - a.last.confidence[k]);
      CHECK(b.last.confidence[k] == doctest::Approx(odds * odds / (1 + odds * odds)));
    }
    CHECK(a.go_on().end == b.go_on().end);
  }
}

TEST_CASE("a device without drafts makes none") {
  SimBackend backend({}, {.blocks = 8, .sequences = 4});
  CHECK(backend.shape().drafts == 0);
  Answering one(backend, 0, 128);
  one.start(prompt(3), std::make_shared<const Lengths>(0, 80));
  one.next.verifies = 5;
  for (int i = 0; i < 3; ++i) {
    CHECK(one.last.confidence.empty());
    CHECK(one.go_on().verified == 0);
  }
}
