// The draft network against the golden data of ops/dspark: operator rules, since its inputs are
// recorded taps.
#include "kernels/model/draft.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/experts.h"
#include "tests/kernels/golden.h"
#include "tests/kernels/model_runner.h"

namespace shoal::kernels {
namespace {

float relative_l2(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
    norm += static_cast<double>(want[i]) * want[i];
  }
  return static_cast<float>(std::sqrt(difference / norm));
}

std::vector<float> widen(const std::vector<Bf16>& values) {
  std::vector<float> out;
  std::transform(
      values.begin(), values.end(), std::back_inserter(out), [](Bf16 v) { return to_float(v); });
  return out;
}

}  // namespace

TEST_CASE("drafts, their logits and confidence equal the golden ones from recorded taps") {
  auto model = Model::load(std::string(SHOAL_GOLDEN_DIR) + "/model/tiny-random");
  REQUIRE(model.has_value());
  const test::Golden golden("ops/dspark");
  ComputePool pool(1);
  for (const bool exact : {true, false}) {
    const auto ops = make_cpu_ops(pool, exact ? SumPrecision::kDouble : SumPrecision::kSingle);
    LocalExperts experts(**model, *ops);
    Drafter drafter(**model, *ops, experts);
    for (const int n : {1, 5, 16, 33}) {
      CAPTURE(n);
      CAPTURE(exact);
      const std::string p = "n" + std::to_string(n) + ".";
      const auto taps = golden.bf16(p + "taps");
      const Position first = golden.ints(p + "first_position")[0];
      const std::int64_t rows = n - first;
      Workspace space;
      const std::vector<Bf16> main_x = drafter.main_x(taps.data(), rows, space);
      CHECK(relative_l2(widen(main_x), widen(golden.bf16(p + "main_x"))) <= 5e-3F);
      auto rings = drafter.make_rings();
      const std::vector<DraftRows> committed = {{&rings, first, rows}};
      drafter.commit(committed, main_x.data(), space);
      DraftStep step;
      step.starts = {{&rings, first, n - 1, static_cast<TokenId>(golden.ints(p + "anchor")[0])}};
      drafter.begin(step);
      REQUIRE(drafter.advance(step));
      std::vector<float> logits;
      const DraftResult draft = drafter.finish(step, 0, [&logits](int i, auto of_draft) {
        logits.insert(logits.end(), of_draft.begin(), of_draft.end());
        return choose_likeliest(i, of_draft);
      });
      // Way 1: nothing is left to order. Ordinary sums: three layers of quantisers in a row (golden
      // README).
      const float limit = exact ? 1e-6F : 0.03F;
      CHECK(relative_l2(step.base_logits, golden.floats(p + "base_logits")) <= limit);
      CHECK(relative_l2(logits, golden.floats(p + "logits")) <= limit);
      if (exact) {
        CHECK(draft.tokens == token_ids(golden.ints(p + "drafts")));
        CHECK(max_difference(draft.confidence, golden.floats(p + "confidence")) <= 1e-5F);
      }
    }
  }
}

}  // namespace shoal::kernels
