// Engram: table rows by id, and the gated update of the residual stream (model spec 3.10).
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/decode.h"
#include "kernels/cpu/scalar_math.h"
#include "schemas/check.h"

namespace shoal::kernels::cpu {

void CpuOps::engram_lookup(const EngramTable& table,
                           const std::int64_t* rows,
                           std::int64_t n,
                           std::int64_t cols,
                           Bf16* y) const {
  CHECK(table.dim % kGroup == 0);
  split(n * cols, 4 * table.dim, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* values = reserve(buffer, table.dim);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = rows[i];
      CHECK(row >= 0 && row < table.rows);
      decode_fp8_row(table.codes + row * table.dim,
                     table.scales + row * (table.dim / kGroup),
                     table.dim,
                     values);
      narrow(values, table.dim, y + i * table.dim);
    }
  });
}

void CpuOps::engram_update(Bf16* h,
                           const Bf16* kv,
                           const float* weight,
                           const std::uint8_t* open,
                           const HcShape& shape,
                           std::int64_t n,
                           float* gates) const {
  const std::int64_t copies = shape.copies;
  const std::int64_t d = shape.dim;
  const auto share = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  split(n, 4 * copies * d, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    float* keys = reserve(buffer, (copies + 2) * d);
    const float* value = keys + copies * d;
    float* stream = keys + (copies + 1) * d;
    for (std::int64_t i = begin; i < end; ++i) {
      widen(kv + i * (copies + 1) * d, (copies + 1) * d, keys);
      for (std::int64_t c = 0; c < copies; ++c) {
        Bf16* copy = h + (i * copies + c) * d;
        const float* key = keys + c * d;
        widen(copy, d, stream);
        const float norms = inverse_rms(precision_, stream, d, shape.norm_eps) *
                            inverse_rms(precision_, key, d, shape.norm_eps);
        const float match = dot(precision_, stream, weight + c * d, key, d) * norms * share;
        const float gate = open[i] != 0 ? engram_gate(match) : 0.0F;
        for (std::int64_t j = 0; j < d; ++j) {
          stream[j] += gate * value[j];
        }
        narrow(stream, d, copy);
        if (gates != nullptr) {
          gates[i * copies + c] = gate;
        }
      }
    }
  });
}

}  // namespace shoal::kernels::cpu
