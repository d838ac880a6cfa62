// What a day of tokens earns and how many GPUs that pays for: input plus output are the day's
// tokens, prices make them money, GPUs at a given income an hour and a given decode rate make the
// output: three equations for input, output and GPUs. Then what the KV of such a day takes to
// store. Defaults are the published figures of one cluster (reports of 2026-10).
#pragma once

#include <optional>
#include <span>

namespace shoal {

// US dollars per million tokens, off-peak.
struct TokenPrices {
  double hit = 0.003;
  double miss = 0.15;
  double output = 0.60;
};

// Of a day, US dollars.
struct Revenue {
  double hit = 0;
  double miss = 0;
  double output = 0;

  double total() const { return hit + miss + output; }
};

Revenue revenue_of(double input, double output, double hit_share, const TokenPrices& prices);

struct FleetIncome {
  double tokens = 155e12;  // a day, input and output
  double hit_share = 0.96;
  double decode_rate = 14'000;    // tokens/s of a decode GPU
  double prefill_per_decode = 1;  // GPUs
  double gpu_hour = 38;           // US dollars that a GPU earns
  TokenPrices prices;
};

struct FleetDay {
  FleetIncome of;
  double input = 0;  // tokens
  double output = 0;
  double gpus = 0;
  Revenue revenue;
  double uncached_rate = 0;  // tokens/s of a prefill GPU
  double logical_rate = 0;   // tokens/s of any GPU, input and output
};

// None: no fleet earns that much, or a number is not above 0.
std::optional<FleetDay> solve_day(const FleetIncome& income);

// The cases that were published and worked out: decode rates, ratios of stages, hit shares.
std::span<const FleetIncome> published_incomes();

// Income over a week in which prices double for `hours` of 168.
double with_peak_prices(double income, double hours);
// Share of the income that is left after `cost` of a GPU hour.
double margin(double gpu_hour, double cost);

struct StorageInputs {
  double input = 0;  // tokens a day
  double output = 0;
  double hit_share = 0;
  double prefill_gpus = 0;
  double request_tokens = 122'000;  // of a prompt, mean, in recorded agent sessions
  double token_bytes = 890;
  double peak_rate = 10e12;  // bytes/s read
  double short_days = 3;     // how long KV of agents and of chats is kept
  double long_days = 7;
  double raw_bytes = 112.6e15;   // 100 PiB of SSDs
  double node_bytes = 246.3e12;  // 16 x 14 TiB
  double node_link = 50e9;       // bytes/s
  int gpus_per_node = 8;
  double ring_bytes = 1.415e6;  // of a session
  double ring_seconds = 180;
  double ring_miss_share = 0.02;
};

// Rates per second, bytes, live data for both lifetimes.
struct StorageNeeds {
  double read_rate = 0;
  double headroom = 0;  // peak over mean
  double blocks_read = 0;
  double peak_blocks = 0;
  double written_a_day = 0;
  double write_rate = 0;
  double blocks_written = 0;
  double live_short = 0;
  double live_long = 0;
  double days_with_three = 0;  // mean lifetime that fits with three replicas
  double days_with_two = 0;
  double blocks_short = 0;
  double blocks_long = 0;
  double index_short = 0;  // 32 bytes a block
  double index_long = 0;
  double nodes = 0;
  double node_rate = 0;   // at the peak
  double link_share = 0;  // of a node's link
  double read_per_gpu = 0;
  double read_per_node = 0;
  double requests = 0;
  double rings = 0;
  double rings_per_node = 0;
  double replay_share = 0;      // of the tokens that prefill computes: rings that were lost
  double replay_all_share = 0;  // if each turn lost its rings
};

StorageNeeds storage_of(const StorageInputs& inputs);

}  // namespace shoal
