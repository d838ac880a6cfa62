// Steps as in expert_replay.h: the first few show whether the plan still suits the load.
#include "tests/sim/fleet/fleet_experts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schemas/check.h"
#include "tests/sim/fleet/expert_replay.h"

namespace shoal::sim {
namespace {

constexpr double kTrueLayers = 40;

template <class Row>
const Row& row_of(std::span<const Row> rows, std::string_view name) {
  const auto row =
      std::find_if(rows.begin(), rows.end(), [name](const Row& r) { return r.name == name; });
  CHECK(row != rows.end());
  return *row;
}

ExpertLoadModel model_of(const fleet::Experts& options) {
  ExpertLoadModel model = decode_loads();
  model.layers = options.layers();
  model.window_steps = options.window_steps();
  return model;
}

ExpertShape shape_of(const fleet::Experts& options, int ranks) {
  const std::int32_t experts = decode_loads().experts;
  return {
      .experts = experts, .ranks = ranks, .slots = (experts + ranks - 1) / ranks + options.slots()};
}

ExpertPlanSetup setup_of(const fleet::Experts& options, int ranks, std::uint64_t seed) {
  ExpertPlanSetup setup{shape_of(options, ranks), options.layers(), {}, seed};
  setup.costs.steps = options.window_steps();
  return setup;
}

// Parts of the mean.
template <class Value>
std::vector<double> relative(std::span<const Value> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  std::vector<double> parts;
  for (const Value value : values) {
    parts.push_back(sum > 0 ? static_cast<double>(value) * static_cast<double>(values.size()) / sum
                            : 0);
  }
  return parts;
}

}  // namespace

FleetExperts::FleetExperts(const fleet::Experts& options, int ranks, std::uint64_t seed)
    : options_(options),
      source_(model_of(options), seed),
      planner_(row_of(expert_planners(), options.policy()).make(setup_of(options, ranks, seed))),
      layers_(
          shape_of(options, ranks), row_of(expert_splits(), options.split()), options.layers()) {}

double FleetExperts::step(std::int64_t tokens) {
  const int react = ExpertReplaySetup{}.react_after;
  const int later = std::max(1, options_.looks() - react);
  const int every = std::max(1, options_.window_steps() / later);
  if (at_ == 0) {
    begin_window();
  }
  if (at_ < react || at_ % every == 0) {
    look(tokens);
  }
  tokens_ += tokens;
  all_tokens_ += static_cast<double>(tokens);
  weighted_ += factor_ * static_cast<double>(tokens);
  if (++at_ == options_.window_steps()) {
    end_window();
    at_ = 0;
  }
  return factor_;
}

void FleetExperts::begin_window() {
  source_.advance();
  plan();
  first_sum_ = 0;
  tokens_ = 0;
  gpu_tokens_.clear();
}

void FleetExperts::look(std::int64_t tokens) {
  const std::int64_t together = decode_loads().domain_tokens;
  const ExpertCounts counts =
      source_.counts(std::max<std::int64_t>(1, tokens / together), together);
  factor_ = layers_.judge(counts, 1, nullptr);
  gpu_tokens_.resize(layers_.rank_tokens().size());
  for (std::size_t r = 0; r < gpu_tokens_.size(); ++r) {
    gpu_tokens_[r] += static_cast<double>(layers_.rank_tokens()[r]);
  }
  planner_->saw_step(counts);
  const ExpertReplaySetup reaction;
  first_sum_ += at_ < reaction.react_after ? factor_ : 0;
  if (at_ + 1 == reaction.react_after && first_sum_ > reaction.alarm * reaction.react_after) {
    plan();
  }
}

void FleetExperts::end_window() {
  const ExpertCounts counts = source_.counts(std::max<std::int64_t>(1, tokens_), 1);
  planner_->saw_window(counts);
  const auto experts = static_cast<std::size_t>(decode_loads().experts);
  gpus_.push_back(relative(std::span<const double>(gpu_tokens_)));
  experts_.push_back(relative(std::span(counts).first(experts)));
}

void FleetExperts::plan() {
  const bool is_first = layers_.empty();
  const ExpertMoves moves = layers_.plan(*planner_);
  if (!is_first) {
    moved_bytes_ +=
        static_cast<double>(moves.slots) * kExpertBytes * kTrueLayers / options_.layers();
  }
}

}  // namespace shoal::sim
