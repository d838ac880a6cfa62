// How many (token, expert) assignments each expert of each layer gets: in windows of many steps,
// and in some single steps of them. From files, or drawn.
//
// A file is CSV, plain or gzip: a line of names, `window,step,layer,e0,e1,...`, then whole numbers;
// windows count from 0, their layers in order. A file of windows has step 0 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "schemas/result.h"

namespace shoal::sim {

// Layer by layer, the experts of each.
using ExpertCounts = std::vector<std::int64_t>;

struct ExpertLoads {
  std::int32_t layers = 0;
  std::int32_t experts = 0;
  std::vector<ExpertCounts> windows;
  std::map<std::int32_t, std::vector<ExpertCounts>> steps;  // of some windows
};

// kMisconfigured names file and line.
Result<ExpertLoads> read_expert_loads(const std::filesystem::path& windows,
                                      const std::filesystem::path& steps);

// Popularity by layer: a power of a random rank, times a lognormal factor by domain, drifting from
// window to window; domains whose shares wander, and of which one now and then gets a multiple.
struct ExpertLoadModel {
  std::int32_t layers = 40;
  std::int32_t experts = 384;
  std::int32_t experts_of_token = 6;
  std::int32_t windows = 24;
  std::int64_t tokens = 64 * 400;  // of a step
  std::int64_t window_steps = 500;
  std::int64_t domain_tokens = 4;  // that come together, all of one domain
  std::int32_t stepped_every = 4;  // window has single steps, and each that begins with a change
  std::int32_t steps = 16;         // of those windows
  double power = 0.30;
  double domain_sigma = 0.70;
  double drift = 0.03;
  double share_sigma = 0.10;
  double share_pull = 0.15;
  double jump_chance = 0.06;
  double jump = 5;
  std::int32_t jump_windows_min = 3;
  std::int32_t jump_windows_max = 8;
};

// Of a group of 64 ranks that decode, and of an instance of 8 that prefill, one chunk of 8,192
// tokens each.
ExpertLoadModel decode_loads();
ExpertLoadModel prefill_loads();

ExpertLoads draw_expert_loads(const ExpertLoadModel& model, std::uint64_t seed);

// Steps in pairs, as one: of a group of twice the ranks.
ExpertLoads in_pairs(const ExpertLoads& loads);

}  // namespace shoal::sim
