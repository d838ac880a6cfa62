// Every pass gives each layer its rows, so the layer that got most speaks for the window.
#include "actors/expert_window.h"

#include <algorithm>
#include <numeric>

namespace shoal {
namespace {

std::vector<std::int64_t> difference(std::span<const std::int64_t> now,
                                     std::span<const std::int64_t> before) {
  std::vector<std::int64_t> out(now.begin(), now.end());
  for (std::size_t i = 0; i < std::min(out.size(), before.size()); ++i) {
    out[i] -= before[i];
  }
  return out;
}

}  // namespace

ExpertWindow window_between(std::span<const ExpertTraffic> before,
                            std::span<const ExpertTraffic> now) {
  const ExpertTraffic nothing;
  ExpertWindow window;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const ExpertTraffic& old = i < before.size() ? before[i] : nothing;
    ExpertTraffic& layer = window.layers.emplace_back();
    layer.exchanges = now[i].exchanges - old.exchanges;
    layer.experts = difference(now[i].experts, old.experts);
    layer.ranks = difference(now[i].ranks, old.ranks);
    window.steps = std::max(window.steps, layer.exchanges);
    window.rows = std::max(
        window.rows, std::accumulate(layer.experts.begin(), layer.experts.end(), std::int64_t{0}));
  }
  return window;
}

}  // namespace shoal
