// Work, bytes and traffic of one GPU in one step.
#include "actors/policy/fleet_step.h"

#include <algorithm>
#include <cmath>

namespace shoal {
namespace {

constexpr double kBound = 0.7;     // of the extreme-value bound, see moe_imbalance()
constexpr double kSplit = 0.55;    // of the excess that per-step splits leave
constexpr double kSkewed = 0.57;   // of the slots that count where popularity is skewed
constexpr double kLn2 = 0.693147;  // EP is a power of two: its logarithm needs no libm
constexpr double kSumBytes = 4;    // sums of attention outputs travel as fp32

Nanos nanos(double seconds) {
  constexpr double kLongest = 9e9;  // 285 years: what no machine does, and fits
  return Nanos{static_cast<std::int64_t>(std::clamp(seconds, 0.0, kLongest) * 1e9)};
}

// A machine that was described with a zero takes for ever, not a division by it.
double seconds(double amount, double rate) {
  return amount <= 0 ? 0 : rate > 0 ? amount / rate : 1e9;
}

double power(double base, int exponent) {
  double product = 1;
  for (int i = 0; i < exponent; ++i) {
    product *= base;
  }
  return product;
}

// What one GPU does in a step.
struct Work {
  double attention_flops = 0;
  double attention_bytes = 0;
  double rows = 0;  // through expert layers
  int layers = 0;
  double expert_bytes = 0;
  double summed_rows = 0;  // whose attention is split over GPUs
};

// Bytes that leave a GPU, inside its domain and beyond.
struct Traffic {
  double inside = 0;
  double beyond = 0;
};

Traffic traffic_of(const PlanModel& model,
                   const PlanMachine& machine,
                   PlanLayout layout,
                   const Work& work) {
  const int tp = layout.ep / layout.dp;
  const double ep = layout.ep;
  const double near = std::min(layout.ep, machine.domain_gpus);
  // A row goes once to each GPU that has one of its experts, and comes back from each expert.
  const double receivers = ep * (1 - power(1 - 1 / ep, model.top_k));
  const double bytes = work.rows * work.layers *
                       (receivers * model.dispatch_bytes + model.top_k * model.combine_bytes);
  const double sums =
      2.0 * (tp - 1) / tp * work.summed_rows * model.hidden * kSumBytes * work.layers;
  return {bytes * (near - 1) / ep + sums, bytes * (ep - near) / ep};
}

PlanStep step_of(const PlanModel& model,
                 const PlanMachine& machine,
                 PlanLayout layout,
                 const Work& work,
                 double moe_lb) {
  const double flops = machine.fp8_flops * machine.compute_share;
  const double memory = machine.memory_rate * machine.memory_share;
  const double expert_flops = work.rows * model.top_k * model.expert_flops * work.layers;
  const Traffic traffic = traffic_of(model, machine, layout, work);
  PlanStep step;
  step.attention =
      nanos(std::max(seconds(work.attention_flops, flops), seconds(work.attention_bytes, memory)));
  step.experts = nanos(std::max(seconds(expert_flops, flops), seconds(work.expert_bytes, memory)));
  step.links = nanos(std::max(seconds(traffic.inside, machine.domain_rate * machine.link_share),
                              seconds(traffic.beyond, machine.link_rate * machine.link_share)));
  step.serial = machine.layer_time * work.layers;
  step.moe_lb = moe_lb;
  const Nanos longest = std::max(step.attention + step.experts, step.links);
  step.total = nanos(static_cast<double>(longest.count()) * moe_lb * 1e-9) + step.serial;
  return step;
}

// Of the experts' slots, those that a step's rows can touch.
double touched_bytes(const PlanModel& model, int slots, double rows, int layers) {
  return std::min<double>(slots, rows * model.top_k) * layers * model.expert_bytes;
}

}  // namespace

int expert_slots(const PlanModel& model, int ep, int redundant) {
  return (model.experts + ep - 1) / ep + (ep > 1 ? redundant : 0);
}

double moe_imbalance(const PlanModel& model, int ep, int slots, double rows, double drift) {
  if (ep <= 1 || rows <= 0) {
    return 1;
  }
  double ln_ep = 0;
  for (int gpus = 1; gpus < ep; gpus *= 2) {
    ln_ep += kLn2;
  }
  const double variance = 1 / (model.top_k * rows) + drift * drift / (kSkewed * slots);
  return 1 + kBound * kSplit * std::sqrt(2 * ln_ep * variance);
}

PlanStep decode_step(const PlanModel& model,
                     const PlanMachine& machine,
                     PlanLayout layout,
                     const DecodeLoad& load,
                     double drift) {
  const int tp = layout.ep / layout.dp;
  const int slots = expert_slots(model, layout.ep, kDecodeSlots);
  const double rows = load.streams * (1 + load.drafts);
  const double near = std::min(load.context, model.candidates);
  const double row_flops = model.decode_flops - model.layers * model.top_k * model.expert_flops +
                           model.decode_attention_flops + model.decode_pair_flops * load.context +
                           model.candidate_pair_flops * near;
  const bool drafts = load.drafts > 0;
  Work work;
  work.attention_flops = (rows * row_flops + (drafts ? load.streams * model.draft_flops : 0)) / tp;
  // The GPUs of a rank split weights and heads; the one KV head is read by each.
  work.attention_bytes =
      (model.dense_bytes + model.head_bytes + (drafts ? model.draft_bytes : 0)) / tp +
      load.streams * (model.scan_bytes * load.context + model.candidate_bytes * near +
                      model.stream_read_bytes) +
      rows * model.row_read_bytes;
  work.rows = rows / tp;
  work.layers = model.layers;
  work.expert_bytes = touched_bytes(model, slots, work.rows, model.layers) +
                      (drafts ? model.draft_expert_bytes / layout.ep : 0);
  work.summed_rows = rows;
  return step_of(
      model, machine, layout, work, moe_imbalance(model, layout.ep, slots, work.rows, drift));
}

PlanStep prefill_step(const PlanModel& model,
                      const PlanMachine& machine,
                      PlanLayout layout,
                      const PrefillLoad& load,
                      double drift) {
  const int tp = layout.ep / layout.dp;
  const int slots = expert_slots(model, layout.ep, kPrefillSlots);
  const double part = static_cast<double>(model.prefill_layers) / model.layers;
  // Rows of the other layers, as a share of rows: the last of each prompt.
  const double whole = load.new_tokens > 0 ? std::min(1.0, model.window_rows / load.new_tokens) : 0;
  const double experts = model.top_k * model.expert_flops;
  const double row_flops = model.prefill_flops - model.prefill_layers * experts +
                           model.prefill_attention_flops + model.prefill_pair_flops * load.context +
                           whole * (model.decode_flops - model.prefill_flops -
                                    (model.layers - model.prefill_layers) * experts);
  Work work;
  work.attention_flops = load.rows * row_flops / tp;
  work.attention_bytes = (model.dense_bytes * part + model.head_bytes) / tp +
                         load.rows * model.row_read_bytes * part + model.scan_bytes * load.context;
  work.layers = model.prefill_layers;
  work.rows = load.rows / tp * (1 + whole * (1 - part) / part);
  work.expert_bytes = touched_bytes(model, slots, work.rows, work.layers);
  work.summed_rows = load.rows;
  return step_of(
      model, machine, layout, work, moe_imbalance(model, layout.ep, slots, work.rows, drift));
}

double usable_bytes(const PlanMachine& machine) {
  return machine.memory_bytes * (1 - machine.held_back_share);
}

double decode_weight_bytes(const PlanModel& model, PlanLayout layout) {
  const int tp = layout.ep / layout.dp;
  return expert_slots(model, layout.ep, kDecodeSlots) * model.expert_bytes * model.layers +
         (model.dense_bytes + model.head_bytes + model.draft_bytes) / tp + model.embed_bytes +
         model.draft_expert_bytes / layout.ep;
}

double prefill_weight_bytes(const PlanModel& model, PlanLayout layout) {
  const int tp = layout.ep / layout.dp;
  return expert_slots(model, layout.ep, kPrefillSlots) * model.expert_bytes * model.layers +
         (model.dense_bytes + model.head_bytes) / tp + model.embed_bytes;
}

double stream_kv_bytes(const PlanModel& model, double context) {
  return context * model.kv_bytes + model.stream_bytes;
}

double accepted_tokens(const PlanWorkload& workload, int drafts) {
  double tokens = 1;
  for (int k = 0; k < drafts && k < kMostDrafts; ++k) {
    tokens += workload.survival[static_cast<std::size_t>(k)];
  }
  return tokens;
}

double image_flops(double patches) {
  constexpr double kLayers = 32;
  constexpr double kWidth = 1'024;
  return patches * (kLayers * 12 * kWidth * kWidth * 2 + kLayers * 4 * kWidth * patches);
}

}  // namespace shoal
