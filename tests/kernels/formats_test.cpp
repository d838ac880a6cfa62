// Number formats and quantisers against the reference, bit for bit.
#include "kernels/formats.h"

#include <cstring>
#include <doctest/doctest.h>

#include "golden.h"
#include "kernels/cpu/decode.h"

namespace shoal::kernels::test {

namespace {

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<Bf16> values;  // multiplied back
};

// Runs a group quantiser over all of x; value(code, scale) multiplies back.
template <class Quantize, class Value>
Quantized quantize_all(const std::vector<float>& x,
                       std::size_t group,
                       Quantize quantize,
                       Value value) {
  Quantized out;
  out.codes.resize(x.size());
  for (std::size_t i = 0; i < x.size(); i += group) {
    out.scales.push_back(quantize(x.data() + i, out.codes.data() + i));
    for (std::size_t j = i; j < i + group; ++j) {
      out.values.push_back(to_bf16(value(out.codes[j], out.scales.back())));
    }
  }
  return out;
}

std::vector<std::uint8_t> pack(const std::vector<std::uint8_t>& codes) {
  std::vector<std::uint8_t> packed;
  for (std::size_t i = 0; i < codes.size(); i += 2) {
    packed.push_back(static_cast<std::uint8_t>(codes[i] | (codes[i + 1] << 4)));
  }
  return packed;
}

}  // namespace

TEST_CASE("the value tables equal the reference's") {
  const Golden golden("ops/formats");
  check_same(std::vector<float>(kE4m3.begin(), kE4m3.end()), golden.floats("e4m3.table"));
  check_same(std::vector<float>(kE2m1.begin(), kE2m1.end()), golden.floats("e2m1.table"));
  std::vector<float> powers;
  for (int b = 0; b < 256; ++b) {
    powers.push_back(ue8m0(static_cast<std::uint8_t>(b)));
  }
  check_same(powers, golden.floats("ue8m0.table"));
}

TEST_CASE("conversions round to nearest even, saturate and keep the sign of zero") {
  const Golden golden("ops/formats");
  std::vector<Bf16> rounded;
  for (const float x : golden.floats("bf16.in")) {
    rounded.push_back(to_bf16(x));
  }
  check_same(rounded, golden.bf16("bf16.out"));
  std::vector<std::uint8_t> e4m3;
  for (const float x : golden.floats("e4m3.in")) {
    e4m3.push_back(e4m3_encode(x));
  }
  check_same(e4m3, golden.bytes("e4m3.out"));
  std::vector<std::uint8_t> e2m1;
  for (const float x : golden.floats("e2m1.in")) {
    e2m1.push_back(e2m1_encode(x));
  }
  check_same(e2m1, golden.bytes("e2m1.out"));
}

TEST_CASE("group quantisers give the reference's codes, scales and values") {
  const Golden golden("ops/formats");
  const std::vector<float> x = golden.floats("q.in");

  const Quantized q8 =
      quantize_all(x, kGroup, quantize_group_q8, [](std::uint8_t c, std::uint8_t s) {
        return kE4m3[c] * ue8m0(s);
      });
  check_same(q8.codes, golden.bytes("q8.codes"));
  check_same(q8.scales, golden.bytes("q8.scales"));
  check_same(q8.values, golden.bf16("q8.qdq"));

  const Quantized q4 =
      quantize_all(x, kGroup, quantize_group_q4, [](std::uint8_t c, std::uint8_t s) {
        return kE2m1[c] * ue8m0(s);
      });
  check_same(pack(q4.codes), golden.bytes("q4.packed"));
  check_same(q4.scales, golden.bytes("q4.scales"));
  check_same(q4.values, golden.bf16("q4.qdq"));

  const Quantized kv =
      quantize_all(x, kMainGroup, quantize_group_q4kv, [](std::uint8_t c, std::uint8_t s) {
        return kE2m1[c] * kE4m3[s];
      });
  check_same(pack(kv.codes), golden.bytes("q4kv.packed"));
  check_same(kv.scales, golden.bytes("q4kv.scales"));
  check_same(kv.values, golden.bf16("q4kv.qdq"));
}

TEST_CASE("stored weights decode to the reference's values") {
  const Golden golden("ops/formats");
  const Weight w8 = golden.weight("weight8.codes", "weight8.scales");
  const auto* codes = reinterpret_cast<const std::uint8_t*>(w8.values);
  std::vector<float> values(static_cast<std::size_t>(w8.rows * w8.cols));
  for (std::int64_t r = 0; r < w8.rows; ++r) {
    cpu::decode_fp8_row(codes + r * w8.cols,
                        w8.scales + r / 32 * (w8.cols / 32),
                        w8.cols,
                        values.data() + r * w8.cols);
  }
  check_same(values, golden.floats("weight8.values"));

  std::vector<std::byte> row(static_cast<std::size_t>(index_row_bytes(w8.cols)));
  const Weight w4 = golden.weight("weight4.packed", "weight4.scales");
  for (std::int64_t r = 0; r < w4.rows; ++r) {
    std::memcpy(row.data(), w4.values + r * w4.cols / 2, static_cast<std::size_t>(w4.cols / 2));
    std::memcpy(row.data() + w4.cols / 2,
                w4.scales + r * (w4.cols / 32),
                static_cast<std::size_t>(w4.cols / 32));
    cpu::decode_index_row(row.data(), w4.cols, values.data() + r * w4.cols);
  }
  check_same(values, golden.floats("weight4.values"));
}

TEST_CASE("decoders read every code as the tables do") {
  std::vector<std::uint8_t> codes(256);
  std::vector<float> want(256);
  for (std::size_t c = 0; c < 256; ++c) {
    codes[c] =
        static_cast<std::uint8_t>((c & 0x7F) == 0x7F ? 0 : c);  // the two NaN codes are no values
    want[c] = kE4m3[codes[c]];
  }
  const std::vector<std::uint8_t> one(8, 127);
  std::vector<float> got(256);
  cpu::decode_fp8_row(codes.data(), one.data(), 256, got.data());
  check_same(got, want);
}

}  // namespace shoal::kernels::test
