// What every way to place images must do, and what each one promises.
#include "actors/policy/vision_balancer.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/policy/draw.h"

using namespace shoal;

namespace {

constexpr Instant kStart{};
// 1 us a patch.
constexpr VisionCost kLinear{.patch_ps = 1'000'000, .pair_fs = 0};

Instant at(std::int64_t us) {
  return kStart + Nanos{us * 1'000};
}

std::unique_ptr<VisionPolicy> policy(std::string_view name, const VisionSetting& setting) {
  const auto rows = vision_policies();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const VisionRow& r) { return r.name == name; });
  REQUIRE(row != rows.end());
  return row->make(setting);
}

VisionRefusal arrive(VisionPolicy& policy,
                     std::uint64_t id,
                     const std::vector<std::int64_t>& patches,
                     Instant now = kStart) {
  return policy.arrive({.id = id, .patches = patches}, now);
}

// The requests whose images the encoder takes, one after the other.
std::vector<std::uint64_t> order_of(VisionPolicy& policy, std::size_t encoder, Instant now) {
  std::vector<std::uint64_t> order;
  while (const auto task = policy.next(encoder, now)) {
    order.push_back(task->request);
  }
  return order;
}

using Image = std::pair<std::uint64_t, std::size_t>;

// Requests come, encoders go down and up, and all is done in the end.
std::vector<Image> drawn_run(VisionPolicy& policy, std::size_t encoders, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<std::optional<VisionTask>> running(encoders);
  std::vector<bool> up(encoders, true);
  std::vector<Image> done;
  std::uint64_t requests = 0;
  std::int64_t images = 0;
  const auto poll = [&](std::size_t e, Instant now) {
    if (running[e]) {
      done.emplace_back(running[e]->request, running[e]->image);
    }
    running[e] = policy.next(e, now);
    REQUIRE((up[e] || !running[e]));
  };
  for (int step = 0; step < 400; ++step) {
    const Instant now = at(step * 1'000);
    const std::size_t e = draw.below(encoders);
    const std::uint64_t what = draw.below(8);
    if (what < 3) {
      std::vector<std::int64_t> patches(draw.below(5));
      for (std::int64_t& image : patches) {
        image = static_cast<std::int64_t>(draw.below(10'000));
      }
      const bool taken = arrive(policy, ++requests, patches, now) == VisionRefusal::kNone;
      images += taken ? std::ssize(patches) : 0;
    } else if (what == 3) {
      up[e] = !up[e];
      running[e].reset();
      policy.update(e, {.alive = up[e]}, now);
    } else if (up[e]) {
      poll(e, now);
    }
    const auto under_way = std::count_if(
        running.begin(), running.end(), [](const auto& task) { return task.has_value(); });
    REQUIRE(policy.waiting() + under_way + std::ssize(done) == images);
  }
  for (std::size_t e = 0; e < encoders; ++e) {
    if (!up[e]) {
      policy.update(e, {.alive = true}, at(400'000));
      up[e] = true;
    }
  }
  for (int round = 0; std::ssize(done) < images; ++round) {
    REQUIRE(round < 2'000);
    for (std::size_t e = 0; e < encoders; ++e) {
      poll(e, at(500'000 + round * 1'000'000));
    }
  }
  REQUIRE(policy.waiting() == 0);
  REQUIRE(std::ssize(done) == images);
  return done;
}

}  // namespace

TEST_CASE("ours is the first vision policy, and no two have the same name") {
  std::set<std::string_view> names;
  for (const VisionRow& row : vision_policies()) {
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.what.empty());
  }
  CHECK(vision_policies().front().name == "least_left");
}

TEST_CASE("every image is encoded once, whatever encoders go down under it, and again the same") {
  for (const VisionRow& row : vision_policies()) {
    CAPTURE(row.name);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const VisionSetting setting{.encoders = 1 + seed % 4, .waiting_most = 50};
      const auto done = drawn_run(*row.make(setting), setting.encoders, seed);
      const std::set<Image> different(done.begin(), done.end());
      REQUIRE(different.size() == done.size());
      REQUIRE(done == drawn_run(*row.make(setting), setting.encoders, seed));
    }
  }
}

TEST_CASE("a vision policy says why it refuses a request, and then has none of its images") {
  for (const VisionRow& row : vision_policies()) {
    CAPTURE(row.name);
    const auto none = row.make({.encoders = 0});
    CHECK(arrive(*none, 1, {5}) == VisionRefusal::kNoEncoder);
    const auto small = row.make({.encoders = 2, .waiting_most = 3});
    CHECK(arrive(*small, 1, {5, 5}) == VisionRefusal::kNone);
    CHECK(arrive(*small, 2, {5, 5}) == VisionRefusal::kNoRoom);
    CHECK(small->waiting() == 2);
    CHECK(arrive(*small, 3, {}) == VisionRefusal::kNone);
    small->update(0, {.alive = false}, kStart);
    small->update(1, {.alive = false}, kStart);
    CHECK(arrive(*small, 4, {5}) == VisionRefusal::kNoEncoder);
    CHECK_FALSE(small->next(0, kStart).has_value());
  }
}

TEST_CASE("sizes, paces and coefficients that cannot be leave every vision policy total") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const VisionCost& cost : {VisionCost{0, 0}, VisionCost{1'000'000'000, 1'000'000}}) {
    for (const VisionRow& row : vision_policies()) {
      CAPTURE(row.name);
      const auto made = row.make({.cost = cost, .encoders = 2});
      made->update(0, {.alive = true, .pace_permille = 0}, kStart);
      made->update(1, {.alive = true, .pace_permille = kMost}, kStart);
      CHECK(arrive(*made, 1, {0, -5, 1, kMost, 9'216}) == VisionRefusal::kNone);
      std::size_t taken = 0;
      for (int round = 0; round < 10; ++round) {
        for (const std::size_t encoder : {0, 1}) {
          taken += made->next(encoder, at(round)).has_value() ? 1 : 0;
        }
      }
      CHECK(taken == 5);
    }
  }
}

TEST_CASE("an image of 9,216 patches costs 2.5 times what its patches alone say") {
  const VisionCost cost;
  const VisionCost by_patches{.pair_fs = 0};
  const auto ratio = static_cast<double>(cost.of(9'216).count()) /
                     static_cast<double>(by_patches.of(9'216).count());
  CHECK(ratio == doctest::Approx(2.51).epsilon(0.01));
}

TEST_CASE(
    "a small request passes a large one that came a quarter of its work before, not an older one") {
  const auto made = policy("least_left", {.cost = kLinear, .encoders = 1});
  arrive(*made, 1, {4'000}, at(0));    // as if it came at 1,000
  arrive(*made, 2, {400}, at(800));    // at 900
  arrive(*made, 3, {400}, at(1'000));  // at 1,100
  CHECK(order_of(*made, 0, at(1'000)) == std::vector<std::uint64_t>{2, 1, 3});
}

TEST_CASE("a request that is nearly done is finished before another is begun") {
  const auto made = policy("least_left", {.cost = kLinear, .encoders = 1});
  arrive(*made, 1, {400, 400, 400}, at(0));
  arrive(*made, 2, {600}, at(0));
  CHECK(order_of(*made, 0, at(0)) == std::vector<std::uint64_t>{2, 1, 1, 1});
  arrive(*made, 3, {1'000, 100}, at(10));
  CHECK(made->next(0, at(10))->patches == 1'000);  // the largest image first
  arrive(*made, 4, {200}, at(10));
  CHECK(order_of(*made, 0, at(20)) == std::vector<std::uint64_t>{3, 4});
}

TEST_CASE(
    "an idle slow encoder leaves an image to one that is done sooner, unless that one is stuck") {
  const auto made = policy("least_left", {.cost = kLinear, .encoders = 2});
  made->update(1, {.alive = true, .pace_permille = 100'000}, kStart);
  arrive(*made, 1, {100}, at(0));
  arrive(*made, 2, {100}, at(0));
  CHECK(made->next(0, at(0))->request == 1);  // until 100
  CHECK_FALSE(made->next(1, at(0)).has_value());
  CHECK_FALSE(made->next(1, at(150)).has_value());
  CHECK(made->next(1, at(201))->request == 2);
}

TEST_CASE("a slow encoder takes an image when the others have enough to do without it") {
  const auto made = policy("least_left", {.cost = kLinear, .encoders = 2});
  made->update(1, {.alive = true, .pace_permille = 3'000}, kStart);
  for (std::uint64_t request = 1; request <= 4; ++request) {
    arrive(*made, request, {100}, at(static_cast<std::int64_t>(request)));
  }
  CHECK(made->next(0, at(5))->request == 1);
  CHECK(made->next(1, at(5))->request == 2);  // 300 us, as the other for 2, 3 and 4
  CHECK(made->next(0, at(105))->request == 3);
  CHECK_FALSE(made->next(1, at(150)).has_value());  // 4 is done sooner there
}

TEST_CASE("images go to the least cost, patches, or images, each as it is named") {
  // One image of 9,216 patches costs 92.6 ms, two of 5,000 cost 72.8 ms.
  const auto encoder_of_last = [](std::string_view name) {
    const auto made = policy(name, {.encoders = 2});
    arrive(*made, 1, {9'216});
    arrive(*made, 2, {5'000});
    arrive(*made, 3, {5'000});
    arrive(*made, 4, {10});
    const auto first = order_of(*made, 0, kStart);
    return std::find(first.begin(), first.end(), 4) != first.end() ? 0 : 1;
  };
  CHECK(encoder_of_last("least_cost") == 1);
  CHECK(encoder_of_last("least_patches") == 0);
  CHECK(encoder_of_last("least_images") ==
        1);  // the third went to the first one, which was as full
  CHECK(encoder_of_last("rr_image") == 1);
}

TEST_CASE("round robin by request keeps a request's images together, by image spreads them") {
  for (const auto& [name, expected] : {std::pair{"rr_request", std::vector<std::uint64_t>{1, 1, 1}},
                                       std::pair{"rr_image", std::vector<std::uint64_t>{1, 1}}}) {
    CAPTURE(name);
    const auto made = policy(name, {.encoders = 2});
    arrive(*made, 1, {100, 100, 100});
    CHECK(order_of(*made, 0, kStart) == expected);
  }
}
