// For any machine, in the compiler's own vectors.
#include "kernels/cpu/lane_body.h"
#include "kernels/formats.h"

namespace shoal::kernels::cpu {
namespace {

struct Scalar {
  using Lanes = float __attribute__((vector_size(kLaneCount * sizeof(float))));
  static constexpr float kFp8Factor = 1;
  static constexpr float kFp4Factor = 1;
  static constexpr int kStrip = 1;     // rows of x that meet a panel at a time
  static constexpr int kMostRows = 2;  // that meet weights as they are decoded
  static constexpr int kMixRows = 1;
  static constexpr int kMixVectors = 1;

  static void load(const float* p, Lanes& v) { __builtin_memcpy(&v, p, sizeof v); }

  static void store(const Lanes& v, float* p) { __builtin_memcpy(p, &v, sizeof v); }

  static void multiply(Lanes& v, float factor) { v *= factor; }

  static void add_exact(const Lanes& a, const Lanes& b, Lanes& sum) { sum += a * b; }

  static void add_rounded(const Lanes& a, const Lanes& b, Lanes& sum) { sum += a * b; }

  static void fill(float value, Lanes& v) { v = value - Lanes{}; }

  static void decode_fp8(const std::uint8_t* codes, Lanes& v) {
    for (int i = 0; i < kLaneCount; ++i) {
      v[i] = kE4m3[codes[i]];
    }
  }

  static void decode_fp4(const std::uint8_t* codes, Lanes& even, Lanes& odd) {
    for (int i = 0; i < kLaneCount; ++i) {
      even[i] = kE2m1[codes[i] & 15];
      odd[i] = kE2m1[codes[i] >> 4];
    }
  }

  static void decode_bf16(const std::uint8_t* bytes, Lanes& v) {
    for (int i = 0; i < kLaneCount; ++i) {
      Bf16 value;
      __builtin_memcpy(&value, bytes + i * 2, sizeof value);
      v[i] = to_float(value);
    }
  }

  static void load_bytes(const std::uint8_t* bytes, Lanes& v) {
    __builtin_memcpy(&v, bytes, sizeof v);
  }

  static float total(const Lanes& v) {
    Lanes sum = v;
    for (int half = kLaneCount / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) {
        sum[i] += sum[i + half];
      }
    }
    return sum[0];
  }
};

SHOAL_LANE_KERNELS(Scalar)

}  // namespace

const LaneKernels kScalarLanes{"scalar", [] { return true; }, fp8, fp4, bf16, f32, exact, mix};

}  // namespace shoal::kernels::cpu
