// Each published figure, computed again.
#include "actors/policy/fleet_validation.h"

#include <array>
#include <cmath>

#include "actors/policy/fleet_economics.h"
#include "actors/policy/fleet_plan.h"
#include "actors/policy/fleet_step.h"

namespace shoal {
namespace {

constexpr double kAgentShare = 0.985;  // of the input tokens, recorded
constexpr PlanLayout kDecodeGroup{64, 64};
constexpr std::array<double, kMostDrafts> kSurvival = {0.84, 0.67, 0.50, 0.35, 0.25};

const PlanStage* find_stage(const std::vector<PlanStage>& stages, PlanLayout layout) {
  for (const PlanStage& stage : stages) {
    if (stage.layout.ep == layout.ep && stage.layout.dp == layout.dp) {
      return &stage;
    }
  }
  return nullptr;
}

double best_rate(const std::vector<PlanStage>& stages, std::optional<std::size_t> best) {
  return best ? stages[*best].gpu_rate : 0;
}

// How much longer a chunk takes when all of a prompt runs through all layers.
double whole_prefill_factor(const PlanMachine& machine, const PlanWorkload& workload) {
  const PlanModel half = v41_flash();
  PlanModel whole = half;
  whole.prefill_layers = whole.layers;
  whole.prefill_flops = whole.decode_flops;
  whole.prefill_attention_flops = whole.decode_attention_flops;
  constexpr PlanLayout kLayout{4, 4};
  const PrefillLoad load{8'192,
                         workload.prompt_tokens * (1 + workload.hit_share) / 2,
                         workload.prompt_tokens * (1 - workload.hit_share)};
  const Nanos with = prefill_step(half, machine, kLayout, load, workload.drift).total;
  const Nanos without = prefill_step(whole, machine, kLayout, load, workload.drift).total;
  return static_cast<double>(without.count()) / static_cast<double>(with.count());
}

void add_rates(const PlanMachine& machine,
               const FleetPlan& plan,
               const FleetDay& day,
               std::vector<PlanCheck>& rows) {
  PlanSlo saturated = published_slo();
  saturated.user_rate = 1;
  const FleetPlan full = plan_fleet(v41_flash(), machine, published_day(), saturated);
  const PlanStage* group = find_stage(plan.decode, kDecodeGroup);
  rows.push_back({.quantity = "decode imbalance of experts, EP64",
                  .unit = "max/mean",
                  .target = 1.090,
                  .ours = group == nullptr ? 0 : group->step.moe_lb,
                  .tolerance = 0.02,
                  .why = "drift and rows of a step are not published"});
  rows.push_back({.quantity = "decode, 150 tokens/s a user",
                  .unit = "tokens/s/GPU",
                  .target = 14'000,
                  .ours = best_rate(plan.decode, plan.best_decode),
                  .tolerance = 0.10,
                  .why = "published for 100 to 200 tokens/s a user: the promise decides"});
  rows.push_back({.quantity = "decode, no promise",
                  .unit = "tokens/s/GPU",
                  .target = 26'000,
                  .ours = full.best_decode ? full.decode[*full.best_decode].full_rate : 0,
                  .tolerance = 0.20,
                  .why = "the published batch and lengths are not known"});
  rows.push_back({.quantity = "prefill, uncached",
                  .unit = "tokens/s/GPU",
                  .target = day.uncached_rate,
                  .ours = best_rate(plan.prefill, plan.best_prefill),
                  .tolerance = 0.10,
                  .why = "the machine is not published"});
  rows.push_back({.quantity = "prefill with all layers on all rows",
                  .unit = "times as long",
                  .target = 1.9,
                  .ours = whole_prefill_factor(machine, published_day()),
                  .tolerance = 0.10,
                  .why = "attention to hits is in both"});
}

void add_fleet(const FleetPlan& plan,
               const FleetCost& cost,
               const FleetDay& day,
               std::vector<PlanCheck>& rows) {
  const bool planned = plan.gpus > 0;
  rows.push_back({.quantity = "prefill GPUs per decode GPU",
                  .unit = "GPUs",
                  .target = 1,
                  .ours = planned ? static_cast<double>(plan.prefill[*plan.best_prefill].gpus) /
                                        static_cast<double>(plan.decode[*plan.best_decode].gpus)
                                  : 0,
                  .tolerance = 0.15,
                  .why = "the promise to users moves GPUs between the stages"});
  rows.push_back({.quantity = "fleet",
                  .unit = "GPUs",
                  .target = day.gpus,
                  .ours = static_cast<double>(plan.gpus),
                  .tolerance = 0.10,
                  .why = "the promise to users decides how many decode"});
  rows.push_back({.quantity = "income of a GPU, off-peak prices",
                  .unit = "USD/hour",
                  .target = day.of.gpu_hour,
                  .ours = cost.gpu_hour,
                  .tolerance = 0.10,
                  .why = "the income of the day over the fleet above"});
}

void add_storage(const FleetPlan& plan, const FleetDay& day, std::vector<PlanCheck>& rows) {
  StorageInputs inputs;
  inputs.input = day.input;
  inputs.output = day.output;
  inputs.hit_share = day.of.hit_share;
  const StorageNeeds needs = storage_of(inputs);
  double flat_out = 0;
  if (plan.best_prefill) {
    const PlanStage& stage = plan.prefill[*plan.best_prefill];
    flat_out = static_cast<double>(stage.gpus) * stage.full_rate * day.of.hit_share /
               (1 - day.of.hit_share) * inputs.token_bytes;
  }
  const double days = kAgentShare * inputs.short_days + (1 - kAgentShare) * inputs.long_days;
  rows.push_back({.quantity = "KV store, mean read",
                  .unit = "TB/s",
                  .target = 1.5,
                  .ours = needs.read_rate / 1e12,
                  .tolerance = 0.05,
                  .why = "hits of the day times bytes of a token"});
  rows.push_back({.quantity = "KV store, read with all prefill busy",
                  .unit = "TB/s",
                  .target = 10,
                  .ours = flat_out / 1e12,
                  .at_most = true,
                  .why = "more prefill than the store can feed"});
  rows.push_back({.quantity = "KV store, live with three replicas",
                  .unit = "PB",
                  .target = inputs.raw_bytes / 1e15,
                  .ours = 3 * needs.written_a_day * days / 1e15,
                  .at_most = true,
                  .why = "keep it for fewer days, or two replicas"});
}

// 608 G tokens in, 168 G out, 56.3 % hit, 4,989 tokens of KV behind an output token, 20 to 22
// tokens/s a user; no drafts are mentioned.
void add_day_of_2025(const PlanMachine& machine, std::vector<PlanCheck>& rows) {
  PlanWorkload load;
  load.input_tokens = 608e9;
  load.output_tokens = 168e9;
  load.hit_share = 0.563;
  load.prompt_tokens = 4'000;
  load.longest_tokens = 131'072;
  load.new_tokens_cv2 = 2;
  PlanSlo slo;
  slo.first_token = std::chrono::seconds(5);
  slo.user_rate = 21;
  const FleetPlan plan = plan_fleet(v3_r1(), machine, load, slo);
  rows.push_back({.quantity = "2025: input of an H800 node, hits too",
                  .unit = "tokens/s",
                  .target = 73'700,
                  .ours = best_rate(plan.prefill, plan.best_prefill) * machine.node_gpus /
                          (1 - load.hit_share),
                  .tolerance = 0.15,
                  .why = "exchanges that send a row once to a node are not modelled"});
  rows.push_back({.quantity = "2025: output of an H800 node",
                  .unit = "tokens/s",
                  .target = 14'800,
                  .ours = best_rate(plan.decode, plan.best_decode) * machine.node_gpus,
                  .tolerance = 0.15,
                  .why = "theirs is a day's mean, nights too; ours is 85 % busy all day"});
}

}  // namespace

bool PlanCheck::good() const {
  return at_most ? ours > 0 && ours <= target : std::abs(ours - target) <= tolerance * target;
}

PlanWorkload published_day() {
  const FleetDay day = *solve_day({});
  PlanWorkload load;
  load.input_tokens = day.input;
  load.output_tokens = day.output;
  load.hit_share = day.of.hit_share;
  load.prompt_tokens = 122'000;  // recorded coding agents
  load.longest_tokens = 1 << 20;
  load.new_tokens_cv2 = 29;
  load.survival = kSurvival;
  return load;
}

PlanSlo published_slo() {
  PlanSlo slo;
  slo.first_token = std::chrono::seconds(2);
  slo.user_rate = 150;  // of the published 100 to 200
  return slo;
}

std::vector<PlanCheck> check_against_published(const PlanMachine& today,
                                               const PlanMachine& earlier) {
  const FleetDay day = *solve_day({});
  const PlanWorkload load = published_day();
  const FleetPlan plan = plan_fleet(v41_flash(), today, load, published_slo());
  std::vector<PlanCheck> rows;
  add_rates(today, plan, day, rows);
  add_fleet(plan, cost_of(plan, today, load, day.of.prices), day, rows);
  add_storage(plan, day, rows);
  add_day_of_2025(earlier, rows);
  return rows;
}

std::span<const std::string_view> left_to_simulation() {
  static constexpr std::array<std::string_view, 4> kRows = {
      "token hit rate of agents",
      "chat kept 3 days instead of 7",
      "window rings found within 180 s",
      "verification that adapts against five drafts",
  };
  return kRows;
}

}  // namespace shoal
