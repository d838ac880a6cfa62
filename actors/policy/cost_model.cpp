// The quadratic cost of rows and its inverse in closed form.
#include "actors/policy/cost_model.h"

#include <algorithm>
#include <cmath>

#include "schemas/check.h"

namespace shoal {
namespace {

std::int64_t near_of(std::int64_t rows, Position start) {
  const std::int64_t growing = std::clamp<std::int64_t>(kNear - start, 0, rows);
  return growing * start + growing * (growing - 1) / 2 + (rows - growing) * kNear;
}

std::int64_t pairs_of(std::int64_t rows, Position start) {
  return rows * start + rows * rows / 2;
}

// count * each / 1'000'000, where the product may not fit.
std::int64_t femtos(std::int64_t count, std::int64_t each) {
  constexpr std::int64_t kFemtos = 1'000'000;
  return count / kFemtos * each + count % kFemtos * each / kFemtos;
}

std::int64_t bounded(std::int64_t value, std::int64_t most) {
  return std::clamp<std::int64_t>(value, 0, most);
}

}  // namespace

void StepWork::add(std::int64_t run_rows, Position start, std::int64_t deep) {
  CHECK(run_rows >= 0 && start >= 0 && deep >= 0 && deep <= start + run_rows);
  const Position deep_start = start + run_rows - deep;
  rows += run_rows;
  near += near_of(run_rows, start) + near_of(deep, deep_start);
  pairs += pairs_of(run_rows, start);
  deep_rows += deep;
  deep_pairs += pairs_of(deep, deep_start);
}

CostModel::CostModel(const CostCoefficients& k)
    : k_{.step = std::clamp(k.step, Nanos{0}, kMostCost.step),
         .row_ps = std::max<std::int64_t>(1, bounded(k.row_ps, kMostCost.row_ps)),
         .pair_fs = bounded(k.pair_fs, kMostCost.pair_fs),
         .near_fs = bounded(k.near_fs, kMostCost.near_fs),
         .deep_row_ps = bounded(k.deep_row_ps, kMostCost.deep_row_ps),
         .deep_pair_fs = bounded(k.deep_pair_fs, kMostCost.deep_pair_fs)} {}

Nanos CostModel::cost_of(const StepWork& work) const {
  return Nanos{work.rows * k_.row_ps / 1'000 + femtos(work.pairs, k_.pair_fs) +
               femtos(work.near, k_.near_fs) + work.deep_rows * k_.deep_row_ps / 1'000 +
               femtos(work.deep_pairs, k_.deep_pair_fs)};
}

Nanos CostModel::step(const StepWork& work) const {
  return k_.step + cost_of(work);
}

Nanos CostModel::rows_only(std::int64_t rows, Position start, std::int64_t deep) const {
  StepWork work;
  work.add(rows, start, deep);
  return cost_of(work);
}

Nanos CostModel::decode_step(std::int64_t rows, std::int64_t kv_tokens) const {
  const std::int64_t near = std::min(kv_tokens, rows * kNear);
  return step({.rows = rows, .near = near, .pairs = kv_tokens});
}

std::int64_t CostModel::fit_chunk(Nanos budget, Position start, std::int64_t remaining) const {
  CHECK(remaining > 0);
  const auto to_border = [start](std::int64_t rows) {
    return (start + rows) / kBlockTokens * kBlockTokens - start;
  };
  const std::int64_t least = std::min<std::int64_t>(remaining, kBlockTokens - start % kBlockTokens);
  if (rows_only(remaining, start) <= budget) {
    return remaining;
  }
  // beta/2 c^2 + (alpha + beta s) c = b, in the form that stays stable when beta goes to 0, with
  // all rows past kNear and what they have not to read of that added to b: never too few rows. One
  // square root, which IEEE rounds the same everywhere; the integer cost has the last word.
  const double beta = static_cast<double>(k_.pair_fs) * 1e-6;
  const double near = static_cast<double>(k_.near_fs) * 1e-6;
  const auto reach = static_cast<double>(kNear);
  const double linear =
      static_cast<double>(k_.row_ps) * 1e-3 + near * reach + beta * static_cast<double>(start);
  const double b = static_cast<double>(std::max<std::int64_t>(budget.count(), 0)) +
                   near * reach * (reach + 1) / 2;
  const double root = 2 * b / (linear + std::sqrt(linear * linear + 2 * beta * b));
  const double most = std::min(root, static_cast<double>(remaining));
  std::int64_t rows =
      to_border(std::min<std::int64_t>(remaining, static_cast<std::int64_t>(most) + kBlockTokens));
  while (rows > least && rows_only(rows, start) > budget) {
    rows -= kBlockTokens;
  }
  return std::max(rows, least);
}

CostModel CostModel::every_layer() const {
  return CostModel({.step = k_.step,
                    .row_ps = k_.row_ps + k_.deep_row_ps,
                    .pair_fs = k_.pair_fs + k_.deep_pair_fs,
                    .near_fs = 2 * k_.near_fs,
                    .deep_row_ps = 0,
                    .deep_pair_fs = 0});
}

}  // namespace shoal
