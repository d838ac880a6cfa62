// AVX2, FMA and F16C. The pragma covers this file's own functions only.
#include "kernels/cpu/lane_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

#include "kernels/cpu/lane_body.h"

namespace shoal::kernels::cpu {
namespace {

struct Avx2 {
  struct Lanes {
    __m256 low;
    __m256 high;
  };

  // An E4M3 code, its exponent and mantissa shifted in place, is an FP16 number 2^8 times too
  // small, subnormal or not.
  static constexpr float kFp8Factor = 256;
  static constexpr float kFp4Factor = 0.5F;  // codes are decoded to twice their values
  static constexpr int kStrip = 1;           // rows of x that meet a panel at a time
  static constexpr int kMostRows = 2;        // that meet weights as they are decoded
  static constexpr int kMixRows = 1;
  static constexpr int kMixVectors = 4;

  [[gnu::always_inline]] static inline void load(const float* p, Lanes& v) {
    v = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }

  [[gnu::always_inline]] static inline void store(const Lanes& v, float* p) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }

  [[gnu::always_inline]] static inline void multiply(Lanes& v, float factor) {
    const __m256 all = _mm256_set1_ps(factor);
    v = {_mm256_mul_ps(v.low, all), _mm256_mul_ps(v.high, all)};
  }

  [[gnu::always_inline]] static inline void add_exact(const Lanes& a, const Lanes& b, Lanes& sum) {
    sum.low = _mm256_fmadd_ps(a.low, b.low, sum.low);
    sum.high = _mm256_fmadd_ps(a.high, b.high, sum.high);
  }

  [[gnu::always_inline]] static inline void add_rounded(const Lanes& a,
                                                        const Lanes& b,
                                                        Lanes& sum) {
    sum.low = _mm256_add_ps(sum.low, _mm256_mul_ps(a.low, b.low));
    sum.high = _mm256_add_ps(sum.high, _mm256_mul_ps(a.high, b.high));
  }

  [[gnu::always_inline]] static inline void fill(float value, Lanes& v) {
    v = {_mm256_set1_ps(value), _mm256_set1_ps(value)};
  }

  [[gnu::always_inline]] static inline void load_bytes(const std::uint8_t* bytes, Lanes& v) {
    load(reinterpret_cast<const float*>(bytes), v);
  }

  [[gnu::always_inline]] static inline __m256 widen(const std::uint8_t* bytes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }

  [[gnu::always_inline]] static inline void decode_bf16(const std::uint8_t* bytes, Lanes& v) {
    v = {widen(bytes), widen(bytes + 16)};
  }

  [[gnu::always_inline]] static inline void decode_fp8(const std::uint8_t* codes, Lanes& v) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    // The sign fills bits 15 and 14, of which only the upper one stays.
    const __m256i wide = _mm256_srai_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8), 1);
    const __m256i half = _mm256_and_si256(wide, _mm256_set1_epi16(static_cast<short>(0xBFFF)));
    v = {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
         _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }

  [[gnu::always_inline]] static inline __m256 small(const __m128i& bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }

  [[gnu::always_inline]] static inline void decode_fp4(const std::uint8_t* codes,
                                                       Lanes& even,
                                                       Lanes& odd) {
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i first = _mm_shuffle_epi8(twice, _mm_and_si128(bytes, nibble));
    const __m128i second = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    even = {small(first), small(_mm_srli_si128(first, 8))};
    odd = {small(second), small(_mm_srli_si128(second, 8))};
  }

  [[gnu::always_inline]] static inline float total(const Lanes& v) {
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

bool is_available() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

SHOAL_LANE_KERNELS(Avx2)

}  // namespace

const LaneKernels kAvx2Lanes{"avx2", is_available, fp8, fp4, bf16, f32, exact, mix};

}  // namespace shoal::kernels::cpu

#pragma GCC pop_options

#endif
