// What the planner promises: memory, promises to users, failures, reasons, whole groups.
#include "actors/policy/fleet_plan.h"

#include <doctest/doctest.h>
#include <set>
#include <string>

#include "actors/policy/fleet_validation.h"
#include "tests/policy/fleet_machines.h"

using namespace shoal;
using shoal::testing::node_gpu;
using shoal::testing::rack_gpu;

namespace {

PlanStage stage_of(const std::vector<PlanStage>& stages, int ep, int dp) {
  for (const PlanStage& stage : stages) {
    if (stage.layout.ep == ep && stage.layout.dp == dp) {
      return stage;
    }
  }
  FAIL("no such layout");
  return stages.front();
}

FleetPlan big_plan(const PlanSlo& slo = published_slo()) {
  return plan_fleet(v41_flash(), rack_gpu(), published_day(), slo);
}

}  // namespace

TEST_CASE("every layout of both stages is the best or says why not") {
  const FleetPlan plan = big_plan();
  for (const auto* stages : {&plan.prefill, &plan.decode}) {
    int best = 0;
    for (const PlanStage& stage : *stages) {
      CAPTURE(stage.layout.ep);
      CAPTURE(stage.layout.dp);
      best += stage.verdict == PlanVerdict::kBest ? 1 : 0;
      CHECK((stage.gpus > 0) ==
            (stage.verdict == PlanVerdict::kBest || stage.verdict == PlanVerdict::kCostlier));
      CHECK((stage.verdict == PlanVerdict::kBest || stage.needed > 0));
    }
    CHECK(best == 1);
  }
}

TEST_CASE("EP and DP are powers of two, DP at most EP and at least an eighth of it") {
  std::set<std::pair<int, int>> seen;
  for (const PlanStage& stage : big_plan().decode) {
    const auto [ep, dp] = stage.layout;
    CHECK((ep & (ep - 1)) == 0);
    CHECK((dp & (dp - 1)) == 0);
    CHECK(dp <= ep);
    CHECK(dp * 8 >= ep);
    CHECK(seen.emplace(ep, dp).second);
  }
  CHECK(seen.count({64, 64}) == 1);
  CHECK(seen.count({256, 256}) == 1);
}

TEST_CASE("the best layout has the fewest GPUs and they carry the load") {
  const FleetPlan plan = big_plan();
  const PlanWorkload load = published_day();
  REQUIRE(plan.gpus > 0);
  const PlanStage& decode = plan.decode[*plan.best_decode];
  for (const PlanStage& stage : plan.decode) {
    CHECK((stage.gpus == 0 || stage.gpus >= decode.gpus));
  }
  CHECK(decode.gpus == decode.groups * decode.layout.ep);
  CHECK(decode.gpu_rate * static_cast<double>(decode.gpus) >= load.output_tokens / 86'400);
  const PlanStage& prefill = plan.prefill[*plan.best_prefill];
  CHECK(prefill.gpu_rate * static_cast<double>(prefill.gpus) >=
        load.input_tokens * (1 - load.hit_share) / 86'400);
  CHECK(plan.gpus == prefill.gpus + decode.gpus + plan.vision_gpus + plan.spare_gpus);
}

TEST_CASE("answers are as fast as promised, and one more stream would break that or the memory") {
  const FleetPlan plan = big_plan();
  const PlanWorkload load = published_day();
  for (const PlanStage& stage : plan.decode) {
    if (stage.gpus == 0) {
      continue;
    }
    CHECK(stage.user_rate >= published_slo().user_rate);
    const double context =
        load.prompt_tokens + load.output_tokens / (load.input_tokens / load.prompt_tokens) / 2;
    const PlanStep more = decode_step(v41_flash(),
                                      rack_gpu(),
                                      stage.layout,
                                      {stage.streams + 1, stage.drafts, context},
                                      load.drift);
    const bool too_slow = accepted_tokens(load, stage.drafts) * 1e9 <
                          published_slo().user_rate * static_cast<double>(more.total.count());
    const bool too_large =
        stage.weight_bytes + (stage.streams + 1) * stream_kv_bytes(v41_flash(), context) >
        usable_bytes(rack_gpu());
    CHECK((too_slow || too_large));
  }
}

TEST_CASE("weights that do not fit are refused with what they need") {
  const FleetPlan big = big_plan();
  const PlanStage alone = stage_of(big.prefill, 1, 1);
  CHECK(alone.verdict == PlanVerdict::kWeights);
  CHECK(alone.needed > 289e9);
  CHECK(alone.available == doctest::Approx(0.9 * 192e9));
  // On smaller memory prefill needs larger groups: EP2 is 145 GB of experts.
  const FleetPlan small = plan_fleet(v41_flash(), node_gpu(), published_day(), published_slo());
  CHECK(stage_of(small.prefill, 4, 4).verdict == PlanVerdict::kWeights);
  CHECK(stage_of(small.prefill, 8, 8).verdict != PlanVerdict::kWeights);
}

TEST_CASE("a promise that no step keeps is refused with the rate of an answer alone") {
  PlanSlo slo = published_slo();
  slo.user_rate = 1'000;
  const FleetPlan plan = big_plan(slo);
  CHECK_FALSE(plan.best_decode.has_value());
  CHECK(plan.gpus == 0);
  const PlanStage stage = stage_of(plan.decode, 64, 64);
  CHECK(stage.verdict == PlanVerdict::kUserRate);
  CHECK(stage.available > 200);
  CHECK(stage.available < 1'000);
}

TEST_CASE("a first token that no chunk brings in time is refused with the earliest") {
  PlanSlo slo = published_slo();
  slo.first_token = std::chrono::milliseconds(1);
  const PlanStage stage = stage_of(big_plan(slo).prefill, 8, 8);
  CHECK(stage.verdict == PlanVerdict::kFirstToken);
  CHECK(stage.needed > stage.available);
}

TEST_CASE("shorter promises to first tokens take shorter chunks") {
  PlanSlo slo = published_slo();
  const double chunk = stage_of(big_plan(slo).prefill, 8, 8).rows;
  slo.first_token = std::chrono::milliseconds(900);
  const PlanStage sooner = stage_of(big_plan(slo).prefill, 8, 8);
  REQUIRE(sooner.gpus > 0);
  CHECK(sooner.rows <= chunk);
  CHECK(sooner.first_token <= slo.first_token);
}

TEST_CASE("groups that fail too often are refused") {
  PlanSlo slo = published_slo();
  slo.group_hours = 500;  // a GPU fails in 50,000
  const FleetPlan plan = big_plan(slo);
  CHECK(stage_of(plan.decode, 128, 128).verdict == PlanVerdict::kFailureDomain);
  CHECK(stage_of(plan.decode, 128, 128).available == doctest::Approx(390.6).epsilon(0.001));
  CHECK(stage_of(plan.decode, 64, 64).verdict != PlanVerdict::kFailureDomain);
}

TEST_CASE(
    "hosts that cannot hold the look-up tables, and links that cannot feed nodes, are refused") {
  PlanMachine small_host = rack_gpu();
  small_host.node_host_bytes = 200e9;
  const FleetPlan plan = plan_fleet(v41_flash(), small_host, published_day(), published_slo());
  CHECK(stage_of(plan.decode, 64, 64).verdict == PlanVerdict::kHostTables);
  PlanMachine thin = rack_gpu();
  thin.node_read_rate = 1e9;
  const FleetPlan starved = plan_fleet(v41_flash(), thin, published_day(), published_slo());
  CHECK(stage_of(starved.prefill, 4, 4).verdict == PlanVerdict::kReads);
}

TEST_CASE("a small load takes small groups, two of each stage") {
  PlanWorkload load = published_day();
  load.input_tokens /= 10'000;
  load.output_tokens /= 10'000;
  const FleetPlan plan = plan_fleet(v41_flash(), rack_gpu(), load, published_slo());
  REQUIRE(plan.gpus > 0);
  CHECK(plan.decode[*plan.best_decode].layout.ep <= 16);
  CHECK(plan.decode[*plan.best_decode].groups >= 2);
  CHECK(plan.prefill[*plan.best_prefill].groups == 2);
}

TEST_CASE("a group of 128 loses on racks of 72: its exchanges leave the rack") {
  const FleetPlan plan = big_plan();
  CHECK(stage_of(plan.decode, 128, 128).gpus > stage_of(plan.decode, 64, 64).gpus);
  // Where a domain is large enough they are near each other.
  PlanMachine wide = rack_gpu();
  wide.domain_gpus = 128;
  const FleetPlan other = plan_fleet(v41_flash(), wide, published_day(), published_slo());
  CHECK(static_cast<double>(stage_of(other.decode, 128, 128).gpus) <
        1.2 * static_cast<double>(stage_of(other.decode, 64, 64).gpus));
}

TEST_CASE("images take GPUs of their own") {
  PlanWorkload load = published_day();
  load.images = 86'400e3;  // 1,000 a second
  load.image_patches = 9'216;
  const FleetPlan plan = plan_fleet(v41_flash(), rack_gpu(), load, published_slo());
  // 18.6 TFLOP each at 0.3 * 0.75 of 2.5 PFLOP/s.
  CHECK(plan.vision_gpus == 33);
  CHECK(big_plan().vision_gpus == 0);
}

TEST_CASE("costs are those of the fleet, and income is that of its tokens") {
  const FleetPlan plan = big_plan();
  const FleetCost cost = cost_of(plan, rack_gpu(), published_day(), {});
  CHECK(cost.usd_per_day == doctest::Approx(static_cast<double>(plan.gpus) * 24 * 7.5));
  CHECK(cost.per_million == doctest::Approx(cost.usd_per_day / 155e6));
  CHECK(cost.revenue.total() == doctest::Approx(2.26e6).epsilon(0.01));
  CHECK(cost.gpu_hour * 24 * static_cast<double>(plan.gpus) ==
        doctest::Approx(cost.revenue.total()));
  CHECK(cost_of({}, rack_gpu(), published_day(), {}).usd_per_day == 0);
}

TEST_CASE("the same inputs give the same plan") {
  const FleetPlan a = big_plan();
  const FleetPlan b = big_plan();
  REQUIRE(a.decode.size() == b.decode.size());
  for (std::size_t i = 0; i < a.decode.size(); ++i) {
    CHECK(a.decode[i].streams == b.decode[i].streams);
    CHECK(a.decode[i].step.total == b.decode[i].step.total);
  }
}

TEST_CASE("what cannot be planned with is named") {
  const PlanMachine machine = rack_gpu();
  const PlanWorkload load = published_day();
  const PlanSlo slo = published_slo();
  CHECK(validate_plan(machine, load, slo).empty());
  CHECK(std::string(validate_plan({}, load, slo)).starts_with("fp8_flops"));
  CHECK(std::string(validate_plan(machine, {}, slo)).starts_with("input_tokens"));
  CHECK(std::string(validate_plan(machine, load, {})).starts_with("first_token_ms"));
  PlanWorkload all_hit = load;
  all_hit.hit_share = 1;
  CHECK(std::string(validate_plan(machine, all_hit, slo)).starts_with("hit_share"));
  PlanWorkload rising = load;
  rising.survival = {0.2, 0.5, 0, 0, 0};
  CHECK(std::string(validate_plan(machine, rising, slo)).starts_with("survival"));
  PlanMachine never = machine;
  never.memory_rate = -1;
  CHECK(std::string(validate_plan(never, load, slo)).starts_with("memory_bytes"));
}

TEST_CASE("absurd loads get a plan or reasons, and nothing is divided by zero") {
  for (const double tokens : {1.0, 1e6, 1e24}) {
    PlanWorkload load = published_day();
    load.input_tokens = tokens;
    load.output_tokens = tokens;
    const FleetPlan plan = plan_fleet(v41_flash(), rack_gpu(), load, published_slo());
    CHECK(plan.gpus >= 0);
    if (tokens > 1e20) {
      CHECK(stage_of(plan.decode, 64, 64).verdict == PlanVerdict::kTooManyGpus);
    }
  }
  PlanWorkload endless = published_day();
  endless.prompt_tokens = endless.longest_tokens = 1e11;
  const FleetPlan plan = plan_fleet(v41_flash(), rack_gpu(), endless, published_slo());
  CHECK(stage_of(plan.decode, 64, 64).verdict == PlanVerdict::kWeights);
}

TEST_CASE("verdicts have names and units") {
  std::set<std::string_view> names;
  for (int v = 0; v <= static_cast<int>(PlanVerdict::kTooManyGpus); ++v) {
    CHECK(names.insert(name_of(static_cast<PlanVerdict>(v))).second);
    CHECK_FALSE(unit_of(static_cast<PlanVerdict>(v)).empty());
  }
}
