// Of every 384 bytes 256 are folded by carry-less multiplication (Gopal et al., "Fast CRC
// Computation Using PCLMULQDQ", Intel 2009), 4 x 32 go through the crc32 instruction: either unit
// takes 16 cycles for that. Both run over regions of their own, which are joined at the end.
#include "schemas/checksum_streams.h"

#include "schemas/check.h"

#if defined(__x86_64__)
#include <cstring>
#include <immintrin.h>
#endif

namespace shoal {

#if defined(__x86_64__)

#define SHOAL_STREAMS [[gnu::target("avx512f,avx512vl,avx512dq,vpclmulqdq,pclmul,sse4.2")]]

namespace {

constexpr std::size_t kFolds = 4;
constexpr std::size_t kFolded = kFolds * 64;
constexpr std::size_t kStreams = 4;
constexpr std::size_t kStreamed = 32;
constexpr std::size_t kRound = kFolded + kStreams * kStreamed;

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected, as all here

// x^n modulo the polynomial.
constexpr std::uint32_t power(std::uint64_t n) {
  std::uint32_t value = 0x80000000;
  for (; n > 0; --n) {
    value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  }
  return value;
}

// What moves 128 bits on by `bits`: their first and second half. A product of reflected numbers is
// one place short, and the 32 bits of a constant lie 32 places up: hence 33.
struct Fold {
  std::uint32_t low;
  std::uint32_t high;
};

constexpr Fold fold_by(std::uint64_t bits) {
  return {power(bits + 64 - 33), power(bits - 33)};
}

SHOAL_STREAMS __m512i lanes(Fold fold) {
  const long long low = fold.low;
  const long long high = fold.high;
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

SHOAL_STREAMS __m512i moved(__m512i value, __m512i by, __m512i plus) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, by, 0x00),
                                   _mm512_clmulepi64_epi128(value, by, 0x11),
                                   plus,
                                   0x96);
}

SHOAL_STREAMS std::uint64_t stream(std::uint64_t state, const std::byte* bytes) {
#pragma GCC unroll 4
  for (std::size_t at = 0; at < kStreamed; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    state = _mm_crc32_u64(state, word);
  }
  return state;
}

SHOAL_STREAMS std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(
      _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(a)),
                                             _mm_cvtsi64_si128(static_cast<long long>(b)),
                                             0)));
}

// The state behind as many zeros as `by` stands for: x^(8 * zeros - 33).
SHOAL_STREAMS std::uint64_t behind_zeros(std::uint64_t state, std::uint32_t by) {
  return _mm_crc32_u64(0, times(state, by));
}

// x^(256 * rounds - 33): a square is x^33 short, which crc32 makes up for.
SHOAL_STREAMS std::uint32_t region_shift(std::uint64_t rounds) {
  constexpr std::uint32_t kOne = power(kStreamed * 8 - 33);
  std::uint64_t shift = 0;
  std::uint64_t power_of_two = kOne;
  for (bool is_empty = true; rounds > 0; rounds >>= 1) {
    if ((rounds & 1) != 0) {
      shift =
          is_empty ? power_of_two : behind_zeros(shift, static_cast<std::uint32_t>(power_of_two));
      is_empty = false;
    }
    power_of_two = behind_zeros(power_of_two, static_cast<std::uint32_t>(power_of_two));
  }
  return static_cast<std::uint32_t>(shift);
}

// The state behind what kFolds registers of 64 bytes hold.
SHOAL_STREAMS std::uint64_t joined(const __m512i* folds) {
  constexpr Fold kNext = fold_by(512);
  const __m512i next = lanes(kNext);
  __m512i last = folds[0];
#pragma GCC unroll 4
  for (std::size_t i = 1; i < kFolds; ++i) {
    last = moved(last, next, folds[i]);
  }
  std::uint64_t words[8];
  _mm512_storeu_si512(words, last);
  std::uint64_t all = 0;
  for (const std::uint64_t word : words) {
    all = _mm_crc32_u64(all, word);
  }
  return all;
}

}  // namespace

bool has_checksum_streams() {
  static const bool has =
      __builtin_cpu_is("amd") != 0 && __builtin_cpu_supports("avx512f") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("pclmul") != 0 &&
      __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

SHOAL_STREAMS StreamsState crc32c_streams(std::span<const std::byte> bytes, std::uint32_t state) {
  CHECK(bytes.size() >= kStreamsLeast);
  const std::size_t rounds = bytes.size() / kRound;
  const std::size_t region = rounds * kStreamed;
  const std::byte* at = bytes.data();
  __m512i folds[kFolds];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kFolds; ++i) {
    folds[i] = _mm512_loadu_si512(at + i * 64);
  }
  folds[0] = _mm512_xor_si512(folds[0],
                              _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  constexpr Fold kFold = fold_by(kFolded * 8);
  const __m512i by = lanes(kFold);
  const std::byte* streamed = at + rounds * kFolded;
  std::uint64_t states[kStreams] = {};
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kStreams; ++i) {
      states[i] = stream(states[i], streamed + i * region);
    }
    streamed += kStreamed;
    if (round + 1 < rounds) {
      at += kFolded;
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kFolds; ++i) {
        folds[i] = moved(folds[i], by, _mm512_loadu_si512(at + i * 64));
      }
    }
  }
  std::uint64_t all = joined(folds);
  const std::uint32_t shift = region_shift(rounds);
  for (const std::uint64_t next : states) {
    all = behind_zeros(all, shift) ^ next;
  }
  return {static_cast<std::uint32_t>(all), rounds * kRound};
}

#undef SHOAL_STREAMS

#else

bool has_checksum_streams() {
  return false;
}

StreamsState crc32c_streams(std::span<const std::byte> /*bytes*/, std::uint32_t state) {
  CHECK(has_checksum_streams());
  return {state, 0};
}

#endif

}  // namespace shoal
