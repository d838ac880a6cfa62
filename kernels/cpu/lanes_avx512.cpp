// AVX-512. The pragma covers this file's own functions only.
#include "kernels/cpu/lane_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#pragma GCC push_options
// GCC 12 says it of its own header, where what is undefined is masked out.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")

#include "kernels/cpu/lane_body.h"

namespace shoal::kernels::cpu {
namespace {

struct Avx512 {
  using Lanes = __m512;
  static constexpr float kFp8Factor = 256;  // as with AVX2
  static constexpr float kFp4Factor = 1;
  static constexpr int kStrip = 4;     // rows of x that meet a panel at a time
  static constexpr int kMostRows = 4;  // that meet weights as they are decoded
  static constexpr int kMixRows = 4;
  static constexpr int kMixVectors = 4;

  [[gnu::always_inline]] static inline void load(const float* p, Lanes& v) {
    v = _mm512_loadu_ps(p);
  }

  [[gnu::always_inline]] static inline void store(const Lanes& v, float* p) {
    _mm512_storeu_ps(p, v);
  }

  [[gnu::always_inline]] static inline void multiply(Lanes& v, float factor) {
    v = _mm512_mul_ps(v, _mm512_set1_ps(factor));
  }

  [[gnu::always_inline]] static inline void add_exact(const Lanes& a, const Lanes& b, Lanes& sum) {
    sum = _mm512_fmadd_ps(a, b, sum);
  }

  [[gnu::always_inline]] static inline void add_rounded(const Lanes& a,
                                                        const Lanes& b,
                                                        Lanes& sum) {
    sum = _mm512_add_ps(sum, _mm512_mul_ps(a, b));
  }

  [[gnu::always_inline]] static inline void fill(float value, Lanes& v) {
    v = _mm512_set1_ps(value);
  }

  [[gnu::always_inline]] static inline void load_bytes(const std::uint8_t* bytes, Lanes& v) {
    load(reinterpret_cast<const float*>(bytes), v);
  }

  [[gnu::always_inline]] static inline void decode_bf16(const std::uint8_t* bytes, Lanes& v) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    v = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }

  [[gnu::always_inline]] static inline void decode_fp8(const std::uint8_t* codes, Lanes& v) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m256i wide = _mm256_srai_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8), 1);
    v = _mm512_cvtph_ps(_mm256_and_si256(wide, _mm256_set1_epi16(static_cast<short>(0xBFFF))));
  }

  [[gnu::always_inline]] static inline void decode_fp4(const std::uint8_t* codes,
                                                       Lanes& even,
                                                       Lanes& odd) {
    const __m512 values =
        _mm512_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6);
    const __m512i pairs =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    even = _mm512_permutexvar_ps(pairs, values);  // by the lower four bits of each
    odd = _mm512_permutexvar_ps(_mm512_srli_epi32(pairs, 4), values);
  }

  [[gnu::always_inline]] static inline float total(const Lanes& v) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

bool is_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

SHOAL_LANE_KERNELS(Avx512)

}  // namespace

const LaneKernels kAvx512Lanes{"avx512", is_available, fp8, fp4, bf16, f32, exact, mix};

}  // namespace shoal::kernels::cpu

#pragma GCC pop_options

#endif
