// Frequency tables bit for bit, and rotation up to position 1,048,575.
#include <doctest/doctest.h>

#include "cpu_under_test.h"
#include "golden.h"
#include "kernels/rope_table.h"

namespace shoal::kernels::test {

namespace {

std::vector<float> table(const std::string& name) {
  const YarnConfig real{.factor = 16, .original = 65536, .beta_fast = 32, .beta_slow = 1};
  const YarnConfig tiny{.factor = 4, .original = 32, .beta_fast = 32, .beta_slow = 1};
  const std::int64_t dim = name.starts_with("real") ? 64 : 32;
  if (name.ends_with("window")) {
    return rope_frequencies(dim, 10000);
  }
  return rope_frequencies(dim, 160000, dim == 64 ? &real : &tiny);
}

}  // namespace

TEST_CASE("rope frequencies equal the reference's bit for bit") {
  const Golden golden("ops/rope");
  for (const char* name : {"real.window", "real.compressed", "tiny.window", "tiny.compressed"}) {
    CAPTURE(name);
    check_same(table(name), golden.floats(std::string(name) + ".freqs"));
  }
}

TEST_CASE("rotation and its inverse agree with the reference at every position") {
  const Golden golden("ops/rope");
  const std::vector<std::int64_t> positions = golden.ints("positions");
  const auto n = static_cast<std::int64_t>(positions.size());
  const CpuUnderTest cpu(SumPrecision::kSingle);
  for (const std::string name :
       {"real.window", "real.compressed", "tiny.window", "tiny.compressed"}) {
    for (const bool inverse : {false, true}) {
      CAPTURE(name);
      CAPTURE(inverse);
      std::vector<Bf16> x = golden.bf16("x");
      cpu->rope(x.data(), positions.data(), table(name), n, 1, golden.cols("x"), inverse);
      check_same(x, golden.bf16(name + (inverse ? ".inverse" : ".y")));
    }
  }
}

}  // namespace shoal::kernels::test
