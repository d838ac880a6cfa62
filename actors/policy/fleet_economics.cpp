// Linear equations in tokens and dollars.
#include "actors/policy/fleet_economics.h"

#include <array>
#include <cmath>

#include "schemas/units.h"

namespace shoal {
namespace {

constexpr double kDay = 86'400;
constexpr double kMillion = 1e6;
constexpr double kIndexBytes = 32;  // key, slab, offset, epoch and flags of a block
constexpr double kReplayRows = 128;

// What a token of the input earns, on average.
double input_price(const FleetIncome& of) {
  return (of.hit_share * of.prices.hit + (1 - of.hit_share) * of.prices.miss) / kMillion;
}

constexpr FleetIncome income(double decode_rate, double prefill_per_decode, double hit_share) {
  FleetIncome income;
  income.decode_rate = decode_rate;
  income.prefill_per_decode = prefill_per_decode;
  income.hit_share = hit_share;
  return income;
}

}  // namespace

Revenue revenue_of(double input, double output, double hit_share, const TokenPrices& prices) {
  return {input * hit_share * prices.hit / kMillion,
          input * (1 - hit_share) * prices.miss / kMillion,
          output * prices.output / kMillion};
}

std::optional<FleetDay> solve_day(const FleetIncome& of) {
  const bool sound = of.tokens > 0 && of.hit_share >= 0 && of.hit_share <= 1 &&
                     of.decode_rate > 0 && of.prefill_per_decode > 0 && of.gpu_hour > 0;
  if (!sound) {
    return std::nullopt;
  }
  // GPU hours that one token of the output takes, in dollars that they must earn.
  const double owed = 24 * of.gpu_hour * (1 + of.prefill_per_decode) / (kDay * of.decode_rate);
  const double rest = owed - of.prices.output / kMillion + input_price(of);
  if (!(rest > 0)) {
    return std::nullopt;
  }
  FleetDay day;
  day.of = of;
  day.output = input_price(of) * of.tokens / rest;
  day.input = of.tokens - day.output;
  if (day.input < 0) {
    return std::nullopt;
  }
  const double decode_gpus = day.output / (kDay * of.decode_rate);
  day.gpus = decode_gpus * (1 + of.prefill_per_decode);
  day.revenue = revenue_of(day.input, day.output, of.hit_share, of.prices);
  const double prefill_gpus = decode_gpus * of.prefill_per_decode;
  if (prefill_gpus > 0) {
    day.uncached_rate = (1 - of.hit_share) * day.input / kDay / prefill_gpus;
    day.logical_rate = of.tokens / kDay / day.gpus;
  }
  return day;
}

std::span<const FleetIncome> published_incomes() {
  static constexpr std::array<FleetIncome, 7> kIncomes = {
      income(14'000, 1, 0.96),
      income(20'000, 1, 0.96),
      income(26'000, 1, 0.96),
      income(14'000, 0.5, 0.96),
      income(14'000, 1.5, 0.96),
      income(14'000, 1, 0.95),
      income(14'000, 1, 0.97),
  };
  return kIncomes;
}

double with_peak_prices(double income, double hours) {
  constexpr double kWeek = 168;
  return income * (1 + hours / kWeek);
}

double margin(double gpu_hour, double cost) {
  return gpu_hour > 0 ? (gpu_hour - cost) / gpu_hour : 0;
}

StorageNeeds storage_of(const StorageInputs& in) {
  const double block = kBlockTokens * in.token_bytes;
  const double computed = in.input * (1 - in.hit_share);
  StorageNeeds out;
  out.read_rate = in.input * in.hit_share * in.token_bytes / kDay;
  out.headroom = out.read_rate > 0 ? in.peak_rate / out.read_rate : 0;
  out.blocks_read = out.read_rate / block;
  out.peak_blocks = in.peak_rate / block;
  out.written_a_day = (computed + in.output) * in.token_bytes;
  out.write_rate = out.written_a_day / kDay;
  out.blocks_written = out.write_rate / block;
  out.live_short = out.written_a_day * in.short_days;
  out.live_long = out.written_a_day * in.long_days;
  if (out.written_a_day > 0) {
    out.days_with_three = in.raw_bytes / 3 / out.written_a_day;
    out.days_with_two = in.raw_bytes / 2 / out.written_a_day;
  }
  out.blocks_short = out.live_short / block;
  out.blocks_long = out.live_long / block;
  out.index_short = out.blocks_short * kIndexBytes;
  out.index_long = out.blocks_long * kIndexBytes;
  out.nodes = std::floor(in.raw_bytes / in.node_bytes);
  if (out.nodes > 0) {
    out.node_rate = in.peak_rate / out.nodes;
    out.link_share = out.node_rate / in.node_link;
  }
  if (in.prefill_gpus > 0) {
    out.read_per_gpu = out.read_rate / in.prefill_gpus;
    out.read_per_node = out.read_per_gpu * in.gpus_per_node;
  }
  out.requests = in.input / in.request_tokens / kDay;
  out.rings = out.requests * in.ring_seconds * in.ring_bytes;
  if (in.prefill_gpus > 0) {
    out.rings_per_node = out.rings / (in.prefill_gpus / in.gpus_per_node);
  }
  if (computed > 0) {
    out.replay_all_share = out.requests * kDay * kReplayRows / computed;
    out.replay_share = out.replay_all_share * in.ring_miss_share;
  }
  return out;
}

}  // namespace shoal
