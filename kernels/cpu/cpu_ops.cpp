// Makes the CPU operator table.
#include "kernels/cpu/cpu_ops.h"

namespace shoal::kernels {

std::unique_ptr<Ops> make_cpu_ops(ComputePool& pool, SumPrecision precision) {
  return std::make_unique<cpu::CpuOps>(pool, precision);
}

}  // namespace shoal::kernels
