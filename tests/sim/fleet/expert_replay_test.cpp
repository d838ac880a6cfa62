// Placements of drawn loads, by the published balancer and by ours; and tables of loads.
#include "tests/sim/fleet/expert_replay.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

using namespace shoal;
using namespace shoal::sim;

namespace {

constexpr ExpertShape kDecode{.experts = 384, .ranks = 64, .slots = 7};

// Four layers of the forty: they are alike.
ExpertLoadModel few_layers(ExpertLoadModel model) {
  model.layers = 4;
  return model;
}

const ExpertLoads& decode() {
  static const ExpertLoads loads = draw_expert_loads(few_layers(decode_loads()), 1);
  return loads;
}

const ExpertPlanRow* planner(std::string_view name) {
  for (const ExpertPlanRow& row : expert_planners()) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

const ExpertSplitRow* split(std::string_view name) {
  for (const ExpertSplitRow& row : expert_splits()) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

ExpertReplaySetup setup(std::string_view placement, std::string_view how) {
  return {.shape = kDecode, .planner = planner(placement), .split = split(how)};
}

class TemporaryFile {
 public:
  TemporaryFile(const char* name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() / name) {
    std::ofstream(path_) << text;
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  ~TemporaryFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string error_of(const std::string& windows, const std::string& steps) {
  const TemporaryFile of_windows("shoal_expert_windows.csv", windows);
  const TemporaryFile of_steps("shoal_expert_steps.csv", steps);
  const auto loads = read_expert_loads(of_windows.path(), of_steps.path());
  return loads ? "" : loads.error().message;
}

constexpr char kNames[] = "window,step,layer,e0,e1\n";

}  // namespace

TEST_CASE("drawn loads have every token's experts, and are those of their seed") {
  const ExpertLoads& loads = decode();
  CHECK(loads.windows.size() == 24);
  CHECK(loads.steps.size() == 5);
  const auto& counts = loads.windows.front();
  const auto sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  CHECK(sum == doctest::Approx(4.0 * 64 * 400 * 500 * 6).epsilon(0.001));
  const auto& step = loads.steps.begin()->second.front();
  CHECK(std::accumulate(step.begin(), step.end(), 0.0) ==
        doctest::Approx(4.0 * 64 * 400 * 6).epsilon(0.02));
  const ExpertLoadModel model = few_layers(decode_loads());
  CHECK(draw_expert_loads(model, 1).windows == loads.windows);
  CHECK(draw_expert_loads(model, 2).windows != loads.windows);
}

TEST_CASE("steps in pairs are those of twice the ranks") {
  const ExpertLoads pairs = in_pairs(decode());
  CHECK(pairs.steps.at(4).size() == 8);
  CHECK(pairs.steps.at(4)[1][17] == decode().steps.at(4)[2][17] + decode().steps.at(4)[3][17]);
}

TEST_CASE("the same replay gives the same figures") {
  const ExpertReplay first = replay_experts(decode(), setup("ours", "fill"));
  const ExpertReplay second = replay_experts(decode(), setup("ours", "fill"));
  CHECK(first.steps.mean() == second.steps.mean());
  CHECK(first.bytes_an_hour == second.bytes_an_hour);
}

TEST_CASE("a placement for the split by step beats the published one, at any number of slots") {
  for (const std::int32_t slots : {6, 7, 10}) {
    CAPTURE(slots);
    ExpertReplaySetup ours = setup("ours", "fill");
    ExpertReplaySetup published = setup("eplb", "even");
    ours.shape.slots = published.shape.slots = slots;
    const ExpertReplay own = replay_experts(decode(), ours);
    const ExpertReplay other = replay_experts(decode(), published);
    CHECK(own.steps.mean() <= other.steps.mean());
    CHECK(own.windows.mean() <= other.windows.mean());
    CHECK(own.bytes_an_hour < 0.5 * other.bytes_an_hour);
  }
}

TEST_CASE("where one expert alone fills a rank, few moves are as good as the published placement") {
  ExpertReplaySetup ours = setup("ours", "fill");
  ExpertReplaySetup published = setup("eplb", "even");
  ours.shape = published.shape = {.experts = 384, .ranks = 128, .slots = 3};
  const ExpertLoads loads = in_pairs(decode());
  const ExpertReplay own = replay_experts(loads, ours);
  const ExpertReplay other = replay_experts(loads, published);
  CHECK(own.windows.mean() <= 1.001 * other.windows.mean());
  CHECK(own.bytes_an_hour < 0.5 * other.bytes_an_hour);
}

TEST_CASE("64 ranks with a spare slot each stay within 4.5 %, 128 within 6 %") {
  CHECK(replay_experts(decode(), setup("ours", "fill")).steps.mean() <= 1.045);
  ExpertReplaySetup twice = setup("ours", "fill");
  twice.shape = {.experts = 384, .ranks = 128, .slots = 4};
  CHECK(replay_experts(in_pairs(decode()), twice).steps.mean() <= 1.06);
}

TEST_CASE("8 ranks that prefill, with four spare slots each, stay within 2 %") {
  const ExpertLoads loads = draw_expert_loads(few_layers(prefill_loads()), 1);
  ExpertReplaySetup prefill = setup("ours", "fill");
  prefill.shape = {.experts = 384, .ranks = 8, .slots = 52};
  prefill.window_steps = 100;
  prefill.step_s = 0.33;
  CHECK(replay_experts(loads, prefill).steps.mean() <= 1.02);
}

TEST_CASE("a few steps after a change of domain the imbalance is under 1.10 again") {
  ExpertLoadModel model = few_layers(decode_loads());
  model.jump_chance = 0.25;
  const ExpertLoads loads = draw_expert_loads(model, 4);
  const ExpertReplay own = replay_experts(loads, setup("ours", "fill"));
  REQUIRE(own.changed.size() > 0);
  CHECK(own.reacted.mean() < 1.10);
  CHECK(own.reacted.mean() < own.changed.mean());
  CHECK(own.next.mean() < 1.10);
}

TEST_CASE("a table of loads is read, and what is wrong with one is said") {
  const std::string names = kNames;
  const TemporaryFile windows("shoal_expert_windows.csv", names + "0,0,0,5,6\n0,0,1,7,8\n");
  const TemporaryFile steps("shoal_expert_steps.csv", names + "0,3,0,1,2\n0,3,1,3,4\n");
  const auto loads = read_expert_loads(windows.path(), steps.path());
  REQUIRE(loads.has_value());
  CHECK((loads->layers == 2 && loads->experts == 2));
  CHECK(loads->windows.front() == ExpertCounts{5, 6, 7, 8});
  CHECK(loads->steps.at(0).front() == ExpertCounts{1, 2, 3, 4});
  const std::string good = names + "0,0,0,5,6\n";
  CHECK(error_of("", good).find(":1: no line of names") != std::string::npos);
  CHECK(error_of(names, good).find(":2: ends after the names") != std::string::npos);
  CHECK(error_of(good + "0,0,0,5\n", good).find(":3: not such a line") != std::string::npos);
  CHECK(error_of(good + "1,0,0,-5,6\n", good).find(":3: not such a line") != std::string::npos);
  CHECK(error_of(names + "1,0,0,5,6\n", good).find("windows are not in order") !=
        std::string::npos);
  CHECK(error_of(good, names + "1,0,0,5,6\n").find("the other file lacks") != std::string::npos);
  CHECK(error_of(good, names + "0,0,1,5,6\n").find("layers are not in order") != std::string::npos);
}
