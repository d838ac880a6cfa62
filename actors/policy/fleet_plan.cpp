// Tries every layout of both stages and counts the GPUs of each.
#include "actors/policy/fleet_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace shoal {
namespace {

constexpr double kDay = 86'400;
constexpr int kLargestEp = 256;  // processes of a cluster
constexpr int kLargestTp = 8;
constexpr std::array<double, 5> kChunks = {2'048, 4'096, 8'192, 16'384, 32'768};
constexpr double kMostStreams = 1 << 14;  // of a rank
constexpr double kLongerPays = 1.01;      // a longer chunk must gain that much
constexpr double kRepairHours = 24;
constexpr int kMostNodeGpus = 1'024;
constexpr double kRequestsAtOnce = 2;  // of the longest, on a prefill rank: one loads, one runs

struct Inputs {
  const PlanModel& model;
  const PlanMachine& machine;
  const PlanWorkload& workload;
  const PlanSlo& slo;

  double answer_tokens() const {
    return workload.input_tokens > 0
               ? workload.output_tokens / (workload.input_tokens / workload.prompt_tokens)
               : 0;
  }

  // Of an answer, halfway.
  double context() const {
    return std::min(workload.prompt_tokens + answer_tokens() / 2, workload.longest_tokens);
  }

  double new_tokens() const {
    return std::max(1.0, workload.prompt_tokens * (1 - workload.hit_share));
  }

  double seconds_rate(double tokens_a_day) const {
    return tokens_a_day * workload.peak_over_mean / kDay;
  }
};

bool reject(PlanStage& stage, PlanVerdict verdict, double needed, double available) {
  stage.verdict = verdict;
  stage.needed = needed;
  stage.available = available;
  return false;
}

// What has nothing to do with the load.
bool fits_machine(const Inputs& in, PlanStage& stage, double request_bytes) {
  const double usable = usable_bytes(in.machine);
  if (stage.weight_bytes + request_bytes > usable) {
    return reject(stage, PlanVerdict::kWeights, stage.weight_bytes + request_bytes, usable);
  }
  if (in.model.host_table_bytes > in.machine.node_host_bytes) {
    return reject(
        stage, PlanVerdict::kHostTables, in.model.host_table_bytes, in.machine.node_host_bytes);
  }
  const double between = in.machine.failure_hours / stage.layout.ep;
  if (between < in.slo.group_hours) {
    return reject(stage, PlanVerdict::kFailureDomain, in.slo.group_hours, between);
  }
  return true;
}

// Whole groups for a load in tokens/s.
bool count_groups(const Inputs& in, PlanStage& stage, double load) {
  const double of_group = stage.gpu_rate * stage.layout.ep;
  const double groups = std::max<double>(in.slo.fewest_groups, std::ceil(load / of_group));
  if (groups * stage.layout.ep > in.slo.most_gpus) {
    return reject(stage, PlanVerdict::kTooManyGpus, groups * stage.layout.ep, in.slo.most_gpus);
  }
  stage.groups = static_cast<std::int64_t>(groups);
  stage.gpus = stage.groups * stage.layout.ep;
  return true;
}

// The number of drafts with the most tokens a second.
void pick_drafts(const Inputs& in, PlanStage& stage) {
  const int tp = stage.layout.ep / stage.layout.dp;
  for (int drafts = 0; drafts <= kMostDrafts; ++drafts) {
    const double streams =
        most_streams(in.model, in.machine, stage.layout, in.workload, in.slo.user_rate, drafts);
    if (streams < 1) {
      continue;
    }
    const PlanStep step = decode_step(
        in.model, in.machine, stage.layout, {streams, drafts, in.context()}, in.workload.drift);
    const double user_rate = accepted_tokens(in.workload, drafts) * 1e9 /
                             static_cast<double>(std::max<std::int64_t>(1, step.total.count()));
    if (user_rate * streams / tp > stage.full_rate) {
      stage.full_rate = user_rate * streams / tp;
      stage.user_rate = user_rate;
      stage.streams = streams;
      stage.drafts = drafts;
      stage.step = step;
    }
  }
}

// The rate of an answer that has the rank to itself, at the best number of drafts.
double rate_alone(const Inputs& in, PlanLayout layout) {
  double best = 0;
  for (int drafts = 0; drafts <= kMostDrafts; ++drafts) {
    const PlanStep step =
        decode_step(in.model, in.machine, layout, {1, drafts, in.context()}, in.workload.drift);
    best = std::max(best,
                    accepted_tokens(in.workload, drafts) * 1e9 /
                        static_cast<double>(std::max<std::int64_t>(1, step.total.count())));
  }
  return best;
}

PlanStage decode_stage(const Inputs& in, PlanLayout layout) {
  PlanStage stage;
  stage.layout = layout;
  stage.weight_bytes = decode_weight_bytes(in.model, layout);
  if (!fits_machine(in, stage, stream_kv_bytes(in.model, in.workload.longest_tokens))) {
    return stage;
  }
  pick_drafts(in, stage);
  if (stage.full_rate <= 0) {
    reject(stage, PlanVerdict::kUserRate, in.slo.user_rate, rate_alone(in, layout));
    return stage;
  }
  stage.gpu_rate = stage.full_rate * in.slo.decode_busy;
  count_groups(in, stage, in.seconds_rate(in.workload.output_tokens));
  return stage;
}

// The mean first token: what is loaded, the queue in front of the group's ranks
// (Pollaczek-Khinchine, as if one queue fed ranks that together are one fast server), half a
// running step, and the request's own steps.
Nanos first_token(const Inputs& in, const PlanStage& stage, double chunk) {
  const double step = static_cast<double>(stage.step.total.count());
  const double steps = std::max(1.0, in.new_tokens() / chunk);
  const double busy = in.slo.prefill_busy;
  const double wait = busy / (1 - busy) * (1 + in.workload.new_tokens_cv2) / 2 *
                      (in.new_tokens() / chunk) * step / stage.layout.dp;
  const double loaded = in.workload.prompt_tokens * in.workload.hit_share * in.model.kv_bytes * 1e9;
  const double load = in.machine.link_rate > 0 ? loaded / in.machine.link_rate : loaded;
  return Nanos{static_cast<std::int64_t>(std::min(load + wait + step / 2 + steps * step, 9e18))};
}

// The shortest of the chunks with the most tokens a second whose first token is in time; none: the
// earliest.
bool pick_chunk(const Inputs& in, PlanStage& stage) {
  const int tp = stage.layout.ep / stage.layout.dp;
  // Rows are the last ones of their prompt: behind all hits, halfway through what is new.
  const double context = in.workload.prompt_tokens * (1 + in.workload.hit_share) / 2;
  bool in_time = false;
  for (const double chunk : kChunks) {
    PlanStage tried = stage;
    tried.rows = chunk;
    tried.step = prefill_step(
        in.model, in.machine, stage.layout, {chunk, context, in.new_tokens()}, in.workload.drift);
    tried.full_rate =
        chunk / tp * 1e9 / static_cast<double>(std::max<std::int64_t>(1, tried.step.total.count()));
    tried.first_token = first_token(in, tried, chunk);
    const bool keeps = tried.first_token <= in.slo.first_token;
    const bool better =
        keeps ? !in_time || tried.full_rate > stage.full_rate * kLongerPays * kLongerPays
              : !in_time && (stage.rows == 0 || tried.first_token < stage.first_token);
    if (better) {
      stage = tried;
      in_time = keeps;
    }
  }
  return in_time;
}

PlanStage prefill_stage(const Inputs& in, PlanLayout layout) {
  PlanStage stage;
  stage.layout = layout;
  stage.weight_bytes = prefill_weight_bytes(in.model, layout);
  const double longest = stream_kv_bytes(in.model, in.workload.longest_tokens);
  if (!fits_machine(in, stage, kRequestsAtOnce * longest)) {
    return stage;
  }
  if (!pick_chunk(in, stage)) {
    reject(stage,
           PlanVerdict::kFirstToken,
           static_cast<double>(stage.first_token.count()),
           static_cast<double>(in.slo.first_token.count()));
    return stage;
  }
  stage.gpu_rate = stage.full_rate * in.slo.prefill_busy;
  const double hits = in.workload.hit_share / std::max(1e-9, 1 - in.workload.hit_share);
  const double reads = stage.gpu_rate * hits * in.model.kv_bytes * in.machine.node_gpus;
  if (reads > in.machine.node_read_rate) {
    reject(stage, PlanVerdict::kReads, reads, in.machine.node_read_rate);
    return stage;
  }
  count_groups(in, stage, in.seconds_rate(in.workload.input_tokens * (1 - in.workload.hit_share)));
  return stage;
}

// Fewest GPUs; of equals those whose attention is not split, then the smallest groups: less is lost
// with one.
auto preference(const PlanStage& stage) {
  return std::tuple(stage.gpus, stage.layout.ep / stage.layout.dp, stage.layout.ep);
}

std::optional<std::size_t> mark_best(std::vector<PlanStage>& stages) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].gpus > 0 && (!best || preference(stages[i]) < preference(stages[*best]))) {
      best = i;
    }
  }
  for (PlanStage& stage : stages) {
    if (stage.gpus > 0) {
      reject(stage,
             PlanVerdict::kCostlier,
             static_cast<double>(stage.gpus),
             static_cast<double>(stages[*best].gpus));
    }
  }
  if (best) {
    stages[*best].verdict = PlanVerdict::kBest;
  }
  return best;
}

template <class MakeStage>
std::vector<PlanStage> all_layouts(const MakeStage& make) {
  std::vector<PlanStage> stages;
  for (int ep = 1; ep <= kLargestEp; ep *= 2) {
    for (int dp = std::max(1, ep / kLargestTp); dp <= ep; dp *= 2) {
      stages.push_back(make(PlanLayout{ep, dp}));
    }
  }
  return stages;
}

// Upwards, and no more than anyone can count.
std::int64_t whole(double number) {
  constexpr double kMost = 1e15;
  return static_cast<std::int64_t>(std::ceil(std::clamp(number, 0.0, kMost)));
}

std::int64_t vision_gpus(const Inputs& in) {
  const double rate = in.machine.bf16_flops * in.machine.compute_share * in.slo.prefill_busy;
  return whole(in.seconds_rate(in.workload.images) * image_flops(in.workload.image_patches) / rate);
}

// Whole nodes in place of what is being repaired.
std::int64_t spare_gpus(const PlanMachine& machine, std::int64_t gpus) {
  const double broken = static_cast<double>(gpus) / machine.failure_hours * kRepairHours;
  return whole(broken / machine.node_gpus) * machine.node_gpus;
}

// A number that is none (NaN) keeps no rule.
struct Rule {
  bool holds;
  std::string_view what;
};

template <std::size_t kCount>
std::string_view first_broken(const std::array<Rule, kCount>& rules) {
  const auto broken =
      std::find_if_not(rules.begin(), rules.end(), [](const Rule& rule) { return rule.holds; });
  return broken == rules.end() ? std::string_view() : broken->what;
}

bool is_share(double x) {
  return x > 0 && x < 1;
}

bool is_positive(double x) {
  return x > 0 && x < 1e30;
}

std::string_view wrong_machine(const PlanMachine& machine) {
  return first_broken(std::array<Rule, 10>{{
      {is_positive(machine.fp8_flops) && is_positive(machine.bf16_flops),
       "fp8_flops, bf16_flops: give both, above 0"},
      {is_positive(machine.memory_bytes) && is_positive(machine.memory_rate),
       "memory_bytes, memory_rate: give both, above 0"},
      {is_positive(machine.domain_rate) && is_positive(machine.link_rate),
       "domain_rate, link_rate: give both, above 0"},
      {is_positive(machine.node_read_rate) && is_positive(machine.node_host_bytes),
       "node_read_rate, node_host_bytes: above 0"},
      {is_share(machine.compute_share) && is_share(machine.memory_share) &&
           is_share(machine.link_share),
       "compute_share, memory_share, link_share: between 0 and 1"},
      {machine.held_back_share >= 0 && machine.held_back_share < 1,
       "held_back_share: at least 0, below 1"},
      {machine.domain_gpus >= 1 && machine.node_gpus >= 1 && machine.node_gpus <= kMostNodeGpus,
       "domain_gpus, node_gpus: at least 1, a node at most 1024"},
      {machine.layer_time >= Nanos{0} && machine.layer_time <= std::chrono::seconds(1),
       "layer_ns: 0 to 1e9"},
      {is_positive(machine.failure_hours), "failure_hours: above 0"},
      {machine.gpu_hour_usd >= 0 && machine.gpu_hour_usd < 1e30, "gpu_hour_usd: at least 0"},
  }});
}

std::string_view wrong_workload(const PlanWorkload& workload) {
  const auto& survival = workload.survival;
  const bool falls =
      std::is_sorted(survival.rbegin(), survival.rend()) &&
      std::all_of(survival.begin(), survival.end(), [](double p) { return p >= 0 && p <= 1; });
  return first_broken(std::array<Rule, 7>{{
      {is_positive(workload.input_tokens) && workload.output_tokens >= 0 &&
           workload.output_tokens < 1e30,
       "input_tokens, output_tokens: above 0, a day"},
      {workload.hit_share >= 0 && workload.hit_share < 1, "hit_share: at least 0, below 1"},
      {workload.prompt_tokens >= 1 && workload.longest_tokens >= workload.prompt_tokens &&
           workload.longest_tokens < 1e12,
       "prompt_tokens, longest_tokens: at least 1, the longest not below the mean"},
      {workload.new_tokens_cv2 >= 0 && workload.drift >= 0 && workload.drift <= 1,
       "new_tokens_cv2, drift: at least 0, drift at most 1"},
      {workload.peak_over_mean >= 1, "peak_over_mean: at least 1"},
      {workload.images >= 0 && workload.image_patches >= 0, "images, image_patches: at least 0"},
      {falls, "survival: probabilities, none above the one before"},
  }});
}

std::string_view wrong_slo(const PlanSlo& slo) {
  return first_broken(std::array<Rule, 2>{{
      {slo.first_token > Nanos{0} && slo.user_rate > 0, "first_token_ms, user_rate: above 0"},
      {is_share(slo.prefill_busy) && is_share(slo.decode_busy) && slo.fewest_groups >= 1,
       "prefill_busy, decode_busy: between 0 and 1; fewest_groups: at least 1"},
  }});
}

}  // namespace

double most_streams(const PlanModel& model,
                    const PlanMachine& machine,
                    PlanLayout layout,
                    const PlanWorkload& workload,
                    double user_rate,
                    int drafts) {
  const Inputs in{model, machine, workload, {}};
  const double room = usable_bytes(machine) - decode_weight_bytes(model, layout);
  const double fit = std::floor(room / stream_kv_bytes(model, in.context()));
  const auto keeps = [&](double streams) {
    const PlanStep step =
        decode_step(model, machine, layout, {streams, drafts, in.context()}, workload.drift);
    return user_rate * static_cast<double>(step.total.count()) <=
           accepted_tokens(workload, drafts) * 1e9;
  };
  double low = 0;
  double high = std::clamp(fit, 0.0, kMostStreams) + 1;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (keeps(middle) ? low : high) = middle;
  }
  return low;
}

std::string_view validate_plan(const PlanMachine& machine,
                               const PlanWorkload& workload,
                               const PlanSlo& slo) {
  const std::string_view of_machine = wrong_machine(machine);
  const std::string_view of_workload = of_machine.empty() ? wrong_workload(workload) : of_machine;
  return of_workload.empty() ? wrong_slo(slo) : of_workload;
}

FleetPlan plan_fleet(const PlanModel& model,
                     const PlanMachine& machine,
                     const PlanWorkload& workload,
                     const PlanSlo& slo) {
  const Inputs in{model, machine, workload, slo};
  FleetPlan plan;
  plan.prefill = all_layouts([&in](PlanLayout layout) { return prefill_stage(in, layout); });
  plan.decode = all_layouts([&in](PlanLayout layout) { return decode_stage(in, layout); });
  plan.best_prefill = mark_best(plan.prefill);
  plan.best_decode = mark_best(plan.decode);
  if (!plan.best_prefill || !plan.best_decode) {
    return plan;
  }
  plan.vision_gpus = vision_gpus(in);
  const std::int64_t busy = plan.prefill[*plan.best_prefill].gpus +
                            plan.decode[*plan.best_decode].gpus + plan.vision_gpus;
  plan.spare_gpus = spare_gpus(machine, busy);
  plan.gpus = busy + plan.spare_gpus;
  return plan;
}

FleetCost cost_of(const FleetPlan& plan,
                  const PlanMachine& machine,
                  const PlanWorkload& workload,
                  const TokenPrices& prices) {
  FleetCost cost;
  if (plan.gpus == 0) {
    return cost;
  }
  constexpr double kMillion = 1e6;
  const auto of_stage = [&machine](const PlanStage& stage, double tokens) {
    return tokens > 0
               ? static_cast<double>(stage.gpus) * 24 * machine.gpu_hour_usd / tokens * kMillion
               : 0;
  };
  const double tokens = workload.input_tokens + workload.output_tokens;
  cost.usd_per_day = static_cast<double>(plan.gpus) * 24 * machine.gpu_hour_usd;
  cost.per_million = cost.usd_per_day / tokens * kMillion;
  cost.per_million_uncached =
      of_stage(plan.prefill[*plan.best_prefill], workload.input_tokens * (1 - workload.hit_share));
  cost.per_million_output = of_stage(plan.decode[*plan.best_decode], workload.output_tokens);
  cost.revenue =
      revenue_of(workload.input_tokens, workload.output_tokens, workload.hit_share, prices);
  cost.gpu_hour = cost.revenue.total() / 24 / static_cast<double>(plan.gpus);
  cost.margin = margin(cost.gpu_hour, machine.gpu_hour_usd);
  return cost;
}

std::string_view name_of(PlanVerdict verdict) {
  switch (verdict) {
    case PlanVerdict::kBest:
      return "best";
    case PlanVerdict::kCostlier:
      return "costlier";
    case PlanVerdict::kWeights:
      return "weights_do_not_fit";
    case PlanVerdict::kHostTables:
      return "tables_do_not_fit_host";
    case PlanVerdict::kUserRate:
      return "answers_too_slow";
    case PlanVerdict::kFirstToken:
      return "first_token_too_late";
    case PlanVerdict::kFailureDomain:
      return "fails_too_often";
    case PlanVerdict::kReads:
      return "reads_too_much";
    case PlanVerdict::kTooManyGpus:
      return "too_many_gpus";
  }
  return "unknown";
}

std::string_view unit_of(PlanVerdict verdict) {
  switch (verdict) {
    case PlanVerdict::kBest:
    case PlanVerdict::kCostlier:
    case PlanVerdict::kTooManyGpus:
      return "GPUs";
    case PlanVerdict::kWeights:
    case PlanVerdict::kHostTables:
      return "bytes";
    case PlanVerdict::kUserRate:
      return "tokens/s";
    case PlanVerdict::kFirstToken:
      return "ns";
    case PlanVerdict::kFailureDomain:
      return "hours";
    case PlanVerdict::kReads:
      return "bytes/s";
  }
  return "";
}

}  // namespace shoal
