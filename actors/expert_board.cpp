// Counters under one lock, and their lines.
#include "actors/expert_board.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <utility>

#include "actors/policy/expert_balance.h"

namespace shoal {
namespace {

constexpr std::size_t kShown = 4;  // experts of a layer

void head(std::string& out, std::string_view name, std::string_view kind, std::string_view help) {
  out += "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) +
         " " + std::string(kind) + "\n";
}

void line(std::string& out, std::string_view name, const std::string& label, std::string value) {
  out += std::string(name) + label + " " + std::move(value) + "\n";
}

void add_one(std::string& out,
             std::string_view name,
             std::string_view kind,
             std::string_view help,
             std::int64_t value) {
  head(out, name, kind, help);
  line(out, name, "", std::to_string(value));
}

std::string three_decimals(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

void add_layers(std::string& out, const std::vector<ExpertTraffic>& window) {
  constexpr std::string_view kName = "shoal_expert_moe_lb";
  head(out, kName, "gauge", "Rows of the fullest shard by the mean one, in the last window.");
  for (std::size_t layer = 0; layer < window.size(); ++layer) {
    line(out,
         kName,
         "{layer=\"" + std::to_string(layer) + "\"}",
         three_decimals(fullest_by_mean(window[layer].ranks)));
  }
}

void add_shards(std::string& out, const std::vector<ExpertTraffic>& window) {
  std::vector<std::int64_t> rows;
  for (const ExpertTraffic& layer : window) {
    rows.resize(std::max(rows.size(), layer.ranks.size()));
    std::transform(
        layer.ranks.begin(), layer.ranks.end(), rows.begin(), rows.begin(), std::plus<>());
  }
  constexpr std::string_view kName = "shoal_expert_shard_rows";
  head(out, kName, "gauge", "Rows given to a shard in the last window, over all layers.");
  for (std::size_t shard = 0; shard < rows.size(); ++shard) {
    line(out, kName, "{shard=\"" + std::to_string(shard) + "\"}", std::to_string(rows[shard]));
  }
}

// Those that got most, first; of equal ones the lower number.
std::vector<std::size_t> busiest(const ExpertTraffic& layer) {
  std::vector<std::size_t> experts(layer.experts.size());
  std::iota(experts.begin(), experts.end(), std::size_t{0});
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, experts.size()));
  std::partial_sort(
      experts.begin(), experts.begin() + shown, experts.end(), [&layer](auto a, auto b) {
        return std::pair(-layer.experts[a], a) < std::pair(-layer.experts[b], b);
      });
  experts.resize(static_cast<std::size_t>(shown));
  return experts;
}

void add_experts(std::string& out, const std::vector<ExpertTraffic>& window) {
  constexpr std::string_view kRows = "shoal_expert_top_rows";
  constexpr std::string_view kExpert = "shoal_expert_top";
  std::string numbers;
  head(out, kRows, "gauge", "Rows of the experts that got most in the last window, by place.");
  head(numbers, kExpert, "gauge", "The numbers of these experts.");
  for (std::size_t layer = 0; layer < window.size(); ++layer) {
    const std::vector<std::size_t> experts = busiest(window[layer]);
    for (std::size_t place = 0; place < experts.size(); ++place) {
      const std::string label =
          "{layer=\"" + std::to_string(layer) + "\",place=\"" + std::to_string(place + 1) + "\"}";
      line(out, kRows, label, std::to_string(window[layer].experts[experts[place]]));
      line(numbers, kExpert, label, std::to_string(experts[place]));
    }
  }
  out += numbers;
}

}  // namespace

std::shared_ptr<ExpertFlight> ExpertBoard::begin(Instant now, Nanos limit) {
  const std::lock_guard lock(mutex_);
  if (flight_ != nullptr && !flight_->is_over) {
    if (now < flight_->deadline || !flight_->has_begun) {
      return nullptr;
    }
    ++lost_;
  }
  flight_ = std::make_shared<ExpertFlight>(now + limit);
  return flight_;
}

void ExpertBoard::saw_window(std::vector<ExpertTraffic> window) {
  const std::lock_guard lock(mutex_);
  window_ = std::move(window);
}

void ExpertBoard::planned(Nanos time) {
  const std::lock_guard lock(mutex_);
  planning_ += time;
}

void ExpertBoard::kept(ExpertFlight& flight) {
  const std::lock_guard lock(mutex_);
  ++kept_;
  flight.is_over = true;
}

void ExpertBoard::placed(ExpertFlight& flight, const ExpertMoved& moved) {
  const std::lock_guard lock(mutex_);
  ++placed_;
  moved_.slots += moved.slots;
  moved_.bytes = moved_.bytes + moved.bytes;
  moved_.time += moved.time;
  flight.is_over = true;
}

void ExpertBoard::failed(ExpertFlight& flight) {
  const std::lock_guard lock(mutex_);
  ++failed_;
  flight.is_over = true;
}

std::string ExpertBoard::loads_text(EpochId epoch) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  add_one(out,
          "shoal_expert_epoch",
          "gauge",
          "The placement of experts in force.",
          static_cast<std::int64_t>(epoch.value));
  add_layers(out, window_);
  add_shards(out, window_);
  add_experts(out, window_);
  return out;
}

std::string ExpertBoard::text(EpochId epoch) const {
  std::string out = loads_text(epoch);
  const std::lock_guard lock(mutex_);
  constexpr std::string_view kPlans = "shoal_expert_plans_total";
  head(out, kPlans, "counter", "Plans of placements, by what became of them.");
  line(out, kPlans, "{end=\"kept\"}", std::to_string(kept_));
  line(out, kPlans, "{end=\"placed\"}", std::to_string(placed_));
  line(out, kPlans, "{end=\"failed\"}", std::to_string(failed_));
  line(out, kPlans, "{end=\"lost\"}", std::to_string(lost_));
  add_one(out, "shoal_expert_plan_ns_total", "counter", "Time of planning.", planning_.count());
  add_one(out,
          "shoal_expert_place_ns_total",
          "counter",
          "Time until placements were in force.",
          moved_.time.count());
  add_one(out, "shoal_expert_moves_total", "counter", "Experts brought to a shard.", moved_.slots);
  add_one(out, "shoal_expert_moved_bytes_total", "counter", "Bytes of them.", moved_.bytes.value);
  return out;
}

}  // namespace shoal
