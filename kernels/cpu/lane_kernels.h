// The inner loops of all sums of products, one row per instruction set. All rows give the same
// bits: 16 running sums a result, each over its lane's columns in ascending order, then one fixed
// tree.
//
// Of numbers with at most 8 significant bits each (codes, bf16; times scales, powers of two up to
// 2^119), products are exact in fp32, so it does not matter who fuses multiplication and addition.
// Of others, products are rounded before they are added.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "schemas/result.h"

namespace shoal::kernels::cpu {

inline constexpr int kLaneCount = 16;
// Rows of the left side that are multiplied together.
inline constexpr int kTileRows = 4;

// So many rows: codes or numbers, at any address, and scales where there are some. Rows may be the
// same one.
struct WeightTile {
  const std::uint8_t* codes[kTileRows];
  const std::uint8_t* scales[kTileRows];  // [k/32]
};

// Rows [n][k] of the right side, their scales applied. The columns of each block of 32 stand in the
// order in which the format's codes meet lanes: as they are, but for FP4, the even ones first.
struct LaneRows {
  const float* values = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;  // a multiple of 32
};

// Rows [count][d] to be mixed by weights [n][stride], of which `count` are looked at.
struct MixedRows {
  const float* rows = nullptr;
  std::int64_t count = 0;
  std::int64_t d = 0;  // a multiple of 16
  std::int64_t stride = 0;
};

// sums [n][kTileRows] of the tile; `running` has room for so many times kLaneCount.
using MultiplyTile = void (*)(const WeightTile& tile,
                              const LaneRows& x,
                              float* running,
                              float* sums);

struct LaneKernels {
  std::string_view name;  // of the instruction set
  bool (*is_available)();
  MultiplyTile fp8;
  MultiplyTile fp4;
  MultiplyTile bf16;   // by bf16 values of x
  MultiplyTile f32;    // products are rounded
  MultiplyTile exact;  // fp32 whose products are exact
  // y [n][d] = y * keep [n] + weights * rows, whose products are exact.
  void (*mix)(
      const MixedRows& m, const float* weights, const float* keep, std::int64_t n, float* y);
};

extern const LaneKernels kScalarLanes;
extern const LaneKernels kAvx2Lanes;
extern const LaneKernels kAvx512Lanes;

// Of this build, the fastest first. All but the last ask the machine.
std::span<const LaneKernels* const> lane_kernels();
// The first that is available.
const LaneKernels& best_lane_kernels();
// By name, or the best for "auto". kMisconfigured names what this machine has.
Result<const LaneKernels*> find_lane_kernels(std::string_view name);

}  // namespace shoal::kernels::cpu
