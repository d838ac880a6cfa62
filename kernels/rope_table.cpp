// RoPE frequencies as the reference rounds them: powers in double, every vector in fp32.
#include "kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "schemas/check.h"

namespace shoal::kernels {

namespace {

// YaRN's ramp: 0 below `low` (fast dims stay), 1 above `high` (slow dims are stretched).
struct Ramp {
  float low = 0;
  float width = 1;

  float at(std::int64_t pair) const {
    return std::clamp((static_cast<float>(pair) - low) / width, 0.0F, 1.0F);
  }
};

Ramp make_ramp(std::int64_t dim, double base, const YarnConfig& yarn) {
  const auto turns_to_dim = [&](double turns) {
    const auto original = static_cast<double>(yarn.original);
    return static_cast<double>(dim) * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  const double low = std::max(std::floor(turns_to_dim(yarn.beta_fast)), 0.0);
  const double high =
      std::min(std::ceil(turns_to_dim(yarn.beta_slow)), static_cast<double>(dim - 1));
  return {static_cast<float>(low), static_cast<float>(std::max(high - low, 1e-3))};
}

}  // namespace

std::vector<float> rope_frequencies(std::int64_t dim, double base, const YarnConfig* yarn) {
  CHECK(dim > 0 && dim % 2 == 0);
  std::vector<float> freqs;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    freqs.push_back(1.0F / static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  if (yarn == nullptr) {
    return freqs;
  }
  const Ramp ramp = make_ramp(dim, base, *yarn);
  const auto factor = static_cast<float>(yarn->factor);
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    float& f = freqs[static_cast<std::size_t>(i)];
    const float keep = 1.0F - ramp.at(i);
    f = f / factor * (1.0F - keep) + f * keep;
  }
  return freqs;
}

}  // namespace shoal::kernels
