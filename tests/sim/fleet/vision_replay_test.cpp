// Vision encoders under recorded requests: what each policy gains, and that a run can be repeated.
#include "tests/sim/fleet/vision_replay.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <string>
#include <string_view>
#include <vector>

using namespace shoal;
using namespace shoal::sim;

namespace {

std::vector<TraceRequest> excerpt() {
  auto requests = read_trace(std::string(SHOAL_TRACES) + "/vision-800.jsonl.gz", 0);
  REQUIRE_MESSAGE(requests.has_value(), requests.error().message);
  return *std::move(requests);
}

VisionReplay run(std::string_view name, const VisionFleet& fleet) {
  const auto rows = vision_policies();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const VisionRow& r) { return r.name == name; });
  REQUIRE(row != rows.end());
  return replay_vision(excerpt(), fleet, *row);
}

}  // namespace

TEST_CASE("ours has a shorter mean than every other vision policy, and no longer p99") {
  const VisionFleet fleet{.encoders = 8};
  VisionReplay ours = run("least_left", fleet);
  for (const VisionRow& row : vision_policies()) {
    if (row.name == "least_left") {
      continue;
    }
    CAPTURE(row.name);
    VisionReplay other = replay_vision(excerpt(), fleet, row);
    CHECK(ours.ready_ms.mean() < other.ready_ms.mean());
    CHECK(ours.ready_ms.quantile(0.99) < 1.02 * other.ready_ms.quantile(0.99));
    CHECK(ours.ready_ms.size() == other.ready_ms.size());
    CHECK(ours.wait_ms.size() == other.wait_ms.size());
  }
}

TEST_CASE("an encoder that is 100 times slower is left alone by those that know it") {
  for (const std::string_view name : {"least_left", "least_cost"}) {
    CAPTURE(name);
    const VisionFleet even{.encoders = 8, .utilisation = 0.6};
    VisionFleet slow = even;
    slow.slow_permille = 100'000;
    VisionReplay fast = run(name, even);
    VisionReplay lame = run(name, slow);
    CHECK(lame.ready_ms.quantile(1) < 3 * fast.ready_ms.quantile(1));
  }
}

TEST_CASE("wrong cost coefficients make images wait, and none is forgotten") {
  for (const VisionRow& row : vision_policies()) {
    CAPTURE(row.name);
    const VisionFleet wrong{.encoders = 8, .believed = {.patch_ps = 0, .pair_fs = 0}};
    const VisionReplay replay = replay_vision(excerpt(), wrong, row);
    CHECK(replay.ready_ms.size() == 800);
    CHECK(replay.encoded == replay.images);
  }
}

TEST_CASE("equal seeds give equal vision runs") {
  for (const VisionRow& row : vision_policies()) {
    CAPTURE(row.name);
    const VisionFleet fleet{.encoders = 8};
    CHECK(replay_vision(excerpt(), fleet, row).ready_ms.mean() ==
          replay_vision(excerpt(), fleet, row).ready_ms.mean());
  }
}

TEST_CASE("one encoder serves every vision policy alike but for the order of requests") {
  const double most = run("rr_image", {.encoders = 1, .utilisation = 0.5}).ready_ms.mean();
  for (const std::string_view name : {"least_cost", "least_images", "po2_cost", "rr_request"}) {
    CHECK(run(name, {.encoders = 1, .utilisation = 0.5}).ready_ms.mean() == most);
  }
  CHECK(run("least_left", {.encoders = 1, .utilisation = 0.5}).ready_ms.mean() < most);
}

TEST_CASE("of equal images one is encoded, and every request is ready all the same") {
  VisionFleet fleet{.encoders = 8, .repeated = 0.5};
  VisionReplay again = run("least_left", fleet);
  fleet.cache = {.items = 2'000, .bytes = Bytes{1LL << 40}, .encoding = 1'000};
  VisionReplay kept = run("least_left", fleet);
  CHECK(again.encoded == again.images);
  CHECK(static_cast<double>(kept.encoded) / static_cast<double>(kept.images) ==
        doctest::Approx(0.5).epsilon(0.05));
  CHECK(kept.ready_ms.size() == again.ready_ms.size());
  CHECK(kept.ready_ms.mean() < 0.7 * again.ready_ms.mean());
  fleet.cache.items = 20;  // of the last 1,000
  CHECK(run("least_left", fleet).encoded > kept.encoded);
}

TEST_CASE("requests without images, and none at all, are replayed") {
  const std::vector<TraceRequest> texts(3);
  for (const VisionRow& row : vision_policies()) {
    CHECK(replay_vision({}, {}, row).ready_ms.size() == 0);
    CHECK(replay_vision(texts, {}, row).ready_ms.size() == 0);
  }
}
