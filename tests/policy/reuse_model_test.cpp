// What is learned from counts that a person can check.
#include "actors/policy/reuse_model.h"

#include <doctest/doctest.h>
#include <vector>

using namespace shoal;

namespace {

constexpr WallMillis kSecond = 1'000;

std::vector<ReuseModel::Counts> nobody() {
  return std::vector<ReuseModel::Counts>(ReuseModel::kKinds);
}

std::size_t kind(std::uint32_t uses, WallMillis idle = 0, TtlClass ttl = TtlClass::kChat) {
  return ReuseModel::kind({.ttl = ttl, .uses = uses, .turn = 1, .idle_before = idle});
}

}  // namespace

TEST_CASE("ages are half octaves from a second on") {
  CHECK(ReuseModel::age_of(0) == 0);
  CHECK(ReuseModel::age_of(999) == 0);
  CHECK(ReuseModel::age_of(1'000) == 1);
  CHECK(ReuseModel::age_of(1'413) == 1);
  CHECK(ReuseModel::age_of(1'414) == 2);
  CHECK(ReuseModel::age_of(2'000) == 3);
  CHECK(ReuseModel::age_of(1'024 * kSecond) == 21);
  CHECK(ReuseModel::age_of(WallMillis{1} << 60) == ReuseModel::kAges - 1);
}

TEST_CASE("kinds differ by lifetime, uses, pause and turn, and every one is in range") {
  CHECK(kind(0) != kind(1));
  CHECK(kind(1, 10 * kSecond) != kind(1, 100 * kSecond));
  CHECK(kind(1, 0, TtlClass::kAgent) != kind(1));
  CHECK(kind(20) == kind(30));
  for (const TtlClass ttl : {TtlClass::kAgent, TtlClass::kChat, TtlClass::kPinned}) {
    const BlockUse most{
        .ttl = ttl, .uses = 0xFFFFFFFF, .turn = 0xFFFFFFFF, .idle_before = WallMillis{1} << 60};
    CHECK(ReuseModel::kind(most) < ReuseModel::kKinds);
  }
}

TEST_CASE("where nothing was seen, what was used last is worth most") {
  const ReuseModel model;
  std::int64_t before = model.worth(kind(0), 0);
  CHECK(before > 0);
  for (WallMillis age = 2 * kSecond; age < 1'000'000 * kSecond; age = age * 5 / 4) {
    const std::int64_t now = model.worth(kind(0), age);
    CHECK(now < before);
    before = now;
  }
  CHECK(before > 0);
}

TEST_CASE("where nothing was seen, more uses are worth more, by the rule of succession") {
  const ReuseModel model;
  for (const auto& [fewer, more] : {std::pair{0U, 1U}, {1U, 2U}, {2U, 4U}, {4U, 15U}, {15U, 31U}}) {
    CHECK(model.worth(kind(fewer), 60 * kSecond) < model.worth(kind(more), 60 * kSecond));
  }
}

TEST_CASE(
    "a pause that all make before they come back makes blocks gain with age until it is over") {
  ReuseModel model;
  for (int i = 0; i < 1'000; ++i) {
    model.used(kind(0), 100 * kSecond);
  }
  model.learn(nobody(), 1);
  CHECK(model.worth(kind(0), 1 * kSecond) < model.worth(kind(0), 20 * kSecond));
  CHECK(model.worth(kind(0), 20 * kSecond) < model.worth(kind(0), 80 * kSecond));
  CHECK(model.worth(kind(0), 80 * kSecond) > model.worth(kind(0), 1'000 * kSecond));
}

TEST_CASE("a kind that is not used again is worth less than one that is") {
  ReuseModel model;
  std::vector<ReuseModel::Counts> waiting = nobody();
  for (int i = 0; i < 500; ++i) {
    model.used(kind(1), 60 * kSecond);
    model.lost(kind(0), 5'000 * kSecond);
    ++waiting[kind(2)][20];
  }
  model.learn(waiting, 1);
  for (const WallMillis age : {10 * kSecond, 50 * kSecond}) {
    CHECK(model.worth(kind(1), age) > 10 * model.worth(kind(0), age));
    CHECK(model.worth(kind(1), age) > 10 * model.worth(kind(2), age));
  }
}

TEST_CASE("a sequence is one observation, however many blocks it has") {
  ReuseModel few;
  ReuseModel many;
  for (int i = 0; i < 4; ++i) {
    few.used(kind(0), 60 * kSecond);
    for (int block = 0; block < 100; ++block) {
      many.used(kind(0), 60 * kSecond);
    }
  }
  few.learn(nobody(), 1);
  many.learn(nobody(), 100);
  for (const WallMillis age : {0 * kSecond, 30 * kSecond, 300 * kSecond}) {
    CHECK(few.worth(kind(0), age) == doctest::Approx(many.worth(kind(0), age)).epsilon(1e-6));
  }
}

TEST_CASE("worth has no jumps between ages and nothing beyond the last one") {
  ReuseModel model;
  for (int i = 0; i < 100; ++i) {
    model.used(kind(0), 100 * kSecond);
  }
  model.learn(nobody(), 1);
  for (WallMillis age = 1'000; age < 4'000'000; age += age / 100) {
    const double here = static_cast<double>(model.worth(kind(0), age));
    CHECK(static_cast<double>(model.worth(kind(0), age + age / 100)) ==
          doctest::Approx(here).epsilon(0.2));
  }
  CHECK(model.worth(kind(0), WallMillis{1} << 60) >= 0);
  CHECK(model.worth(kind(0), -5) == model.worth(kind(0), 0));
}

TEST_CASE("what was learned fades when other things are seen") {
  ReuseModel model;
  for (int i = 0; i < 6'000'000; ++i) {
    model.used(kind(0), 10 * kSecond);
  }
  model.learn(nobody(), 1);
  const std::int64_t before = model.worth(kind(0), 5 * kSecond);
  for (int i = 0; i < 30; ++i) {
    for (int j = 0; j < 1'000'000; ++j) {
      model.lost(kind(0), 10'000 * kSecond);
    }
    model.learn(nobody(), 1);
  }
  CHECK(model.worth(kind(0), 5 * kSecond) * 4 < before);
}
