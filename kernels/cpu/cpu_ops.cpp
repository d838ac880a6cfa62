// Makes the CPU operator table for the machine that it runs on.
#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <array>
#include <string>

namespace shoal::kernels {
namespace cpu {

std::span<const LaneKernels* const> lane_kernels() {
#if defined(__x86_64__)
  static constexpr std::array kRows{&kAvx512Lanes, &kAvx2Lanes, &kScalarLanes};
#else
  static constexpr std::array kRows{&kScalarLanes};
#endif
  return kRows;
}

const LaneKernels& best_lane_kernels() {
  return **std::ranges::find_if(lane_kernels(),
                                [](const LaneKernels* row) { return row->is_available(); });
}

Result<const LaneKernels*> find_lane_kernels(std::string_view name) {
  if (name == "auto") {
    return &best_lane_kernels();
  }
  std::string available;
  for (const LaneKernels* row : lane_kernels()) {
    if (row->is_available() && row->name == name) {
      return row;
    }
    available += row->is_available() ? ", " + std::string(row->name) : "";
  }
  return fail(Code::kMisconfigured,
              "compute.instructions: this machine has no " + std::string(name) +
                  "; choose one of auto" + available);
}

}  // namespace cpu

std::unique_ptr<Ops> make_cpu_ops(ComputePool& pool,
                                  SumPrecision precision,
                                  const cpu::LaneKernels& lanes) {
  return std::make_unique<cpu::CpuOps>(pool, precision, lanes);
}

}  // namespace shoal::kernels
