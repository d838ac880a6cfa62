// The quadratic cost of rows and its inverse in closed form.
#include "actors/policy/cost_model.h"

#include <algorithm>
#include <cmath>

#include "schemas/check.h"

namespace shoal {

Nanos CostModel::rows_only(std::int64_t rows, Position start) const {
  CHECK(rows >= 0 && start >= 0);
  // 1 M rows after 1 M tokens at the largest pair_fs: 1.5e18 fs, inside 63 bits.
  const std::int64_t pairs = rows * start + rows * rows / 2;
  return Nanos{rows * k_.row_ps / 1'000 + pairs * k_.pair_fs / 1'000'000};
}

Nanos CostModel::decode_step(std::int64_t rows, std::int64_t kv_tokens) const {
  return k_.step + Nanos{rows * k_.row_ps / 1'000 + kv_tokens * k_.pair_fs / 1'000'000};
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
  // beta/2 c^2 + (alpha + beta s) c = b, in the form that stays stable when beta goes to 0. One
  // square root, which IEEE rounds the same everywhere; the integer cost has the last word.
  const double beta = static_cast<double>(k_.pair_fs) * 1e-6;
  const double linear = static_cast<double>(k_.row_ps) * 1e-3 + beta * static_cast<double>(start);
  const double b = static_cast<double>(std::max<std::int64_t>(budget.count(), 0));
  const double root = 2 * b / (linear + std::sqrt(linear * linear + 2 * beta * b));
  std::int64_t rows =
      to_border(std::min<std::int64_t>(remaining, static_cast<std::int64_t>(root) + kBlockTokens));
  while (rows > least && rows_only(rows, start) > budget) {
    rows -= kBlockTokens;
  }
  return std::max(rows, least);
}

}  // namespace shoal
