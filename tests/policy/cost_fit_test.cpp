// What steps cost is learned from steps: planted coefficients, changes of speed, stalls, nonsense,
// and steps of the CPU backend as they were recorded.
#include "actors/policy/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <fstream>
#include <random>
#include <string>
#include <vector>

using namespace shoal;
using std::chrono::hours;
using std::chrono::milliseconds;

namespace {

constexpr CostCoefficients kPrior{
    .step = Nanos{500'000}, .row_ps = 150'000'000, .pair_fs = 100'000};
// About what the built-in model costs on a CPU core.
constexpr CostCoefficients kPlanted{.step = Nanos{700'000},
                                    .row_ps = 63'000'000,
                                    .pair_fs = 20'000'000,
                                    .near_fs = 170'000'000,
                                    .deep_row_ps = 70'000'000,
                                    .deep_pair_fs = 42'000'000};

// Steps as a prefill group makes them, and how long they take on a machine of planted costs.
class Machine {
 public:
  explicit Machine(std::uint64_t seed, double noise = 0) : random_(seed), noise_(0, noise) {
    MESSAGE("seed ", seed);
  }

  StepWork draw() {
    StepWork work;
    for (auto runs = 1 + random_() % 3; runs > 0; --runs) {
      const auto rows = static_cast<std::int64_t>(16 + random_() % 256);
      const auto start = static_cast<Position>(random_() % 64 * 128);
      work.add(rows, start, random_() % 3 == 0 ? std::min<std::int64_t>(rows, 128) : 0);
    }
    return work;
  }

  Nanos run(const StepWork& work) {
    const auto whole = static_cast<double>(CostModel(kPlanted).step(work).count());
    return Nanos{static_cast<std::int64_t>(whole * slower_ * std::exp(noise_(random_)))};
  }

  void teach(CostFit& fit, int steps) {
    for (int i = 0; i < steps; ++i) {
      const StepWork work = draw();
      fit.add(work, run(work));
    }
  }

  void slow_down(double factor) { slower_ *= factor; }

  // Mean error of its predictions without noise.
  double error(const CostFit& fit) {
    double sum = 0;
    for (int i = 0; i < 200; ++i) {
      const StepWork work = draw();
      const double took = static_cast<double>(CostModel(kPlanted).step(work).count()) * slower_;
      sum += std::abs(static_cast<double>(fit.model().step(work).count()) - took) / took;
    }
    return sum / 200;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> noise_;
  double slower_ = 1;
};

struct RecordedStep {
  StepWork work;
  Nanos took{0};
};

// `shoal bench cost --record`: a line a shape, "stage runs rows start deep ns".
std::vector<RecordedStep> recorded_steps(const std::string& of_stage) {
  std::ifstream file(std::string(SHOAL_GOLDEN_DIR) + "/policy/guppy-cpu-steps.txt");
  REQUIRE(file.good());
  std::vector<RecordedStep> steps;
  std::string stage;
  std::int64_t runs = 0;
  std::int64_t rows = 0;
  std::int64_t start = 0;
  std::int64_t deep = 0;
  std::int64_t ns = 0;
  while (file >> stage >> runs >> rows >> start >> deep >> ns) {
    RecordedStep step{.work = {}, .took = Nanos{ns}};
    for (std::int64_t i = 0; i < runs; ++i) {
      step.work.add(rows, start, deep);
    }
    if (stage == of_stage) {
      steps.push_back(step);
    }
  }
  return steps;
}

// Every other one, and of the next pair the other: shapes come in pairs.
bool is_held_out(std::size_t i) {
  return (i + i / 2) % 2 != 0;
}

bool is_sane(const CostFit& fit) {
  const CostCoefficients& k = fit.model().coefficients();
  const auto within = [](std::int64_t value, std::int64_t most) {
    return value >= 0 && value <= most;
  };
  return within(k.step.count(), kMostCost.step.count()) && k.row_ps >= 1 &&
         within(k.row_ps, kMostCost.row_ps) && within(k.near_fs, kMostCost.near_fs) &&
         within(k.pair_fs, kMostCost.pair_fs) && within(k.deep_row_ps, kMostCost.deep_row_ps) &&
         within(k.deep_pair_fs, kMostCost.deep_pair_fs) && fit.error_ppm() >= 0 &&
         within(fit.report().late_ppm, kMostLatePpm);
}

}  // namespace

TEST_CASE("before the first step costs are as configured") {
  const CostFit fit(kPrior);
  CHECK(fit.model().chunk(100, 1'000) == CostModel(kPrior).chunk(100, 1'000));
  CHECK(fit.steps() == 0);
  CHECK(fit.error_ppm() == 0);
  CHECK(fit.report().late_ppm == 0);
}

TEST_CASE("planted costs are found within a hundred steps, exactly known or with noise") {
  for (const auto& [noise, most] : {std::pair{0.0, 0.01}, {0.02, 0.02}, {0.1, 0.05}}) {
    CAPTURE(noise);
    Machine machine(11, noise);
    CostFit fit(kPrior);
    machine.teach(fit, 100);
    CHECK(machine.error(fit) < most);
    CHECK(fit.steps() == 100);
  }
}

TEST_CASE("another speed is followed within thirty steps, up and down") {
  for (const double factor : {3.0, 1.0 / 3, 1.3, 100.0, 1.0 / 100}) {
    CAPTURE(factor);
    Machine machine(12, 0.02);
    CostFit fit(kPrior);
    machine.teach(fit, 400);
    machine.slow_down(factor);
    machine.teach(fit, 30);
    CHECK(machine.error(fit) < 0.06);
  }
}

TEST_CASE("a machine that stalls now and then does not look slower") {
  Machine machine(13, 0.02);
  CostFit fit(kPrior);
  machine.teach(fit, 100);
  for (int i = 0; i < 300; ++i) {
    const StepWork work = machine.draw();
    fit.add(work, machine.run(work) * (i % 12 == 0 ? 200 : 1));
  }
  CHECK(machine.error(fit) < 0.06);
}

TEST_CASE("a single odd step moves predictions by a twentieth at most") {
  for (const Nanos odd : {Nanos{1}, Nanos(hours(5))}) {
    CAPTURE(odd.count());
    Machine machine(14, 0.02);
    CostFit fit(kPrior);
    machine.teach(fit, 100);
    fit.add(machine.draw(), odd);
    CHECK(machine.error(fit) < 0.05);
  }
}

TEST_CASE("steps of one shape are predicted right, and tell the parts by proportion") {
  CostFit fit(kPrior);
  StepWork work;
  work.add(128, 0);
  for (int i = 0; i < 50; ++i) {
    fit.add(work, milliseconds(8));
  }
  const double took = static_cast<double>(fit.model().step(work).count());
  CHECK(took == doctest::Approx(8e6).epsilon(0.01));
  StepWork twice;
  twice.add(256, 0);
  CHECK(fit.model().step(twice) > milliseconds(9));
  CHECK(fit.model().step(twice) < milliseconds(24));
}

TEST_CASE("how much longer all but one in twenty steps take is told, and how far off all are") {
  Machine machine(15, 0.1);
  CostFit fit(kPrior);
  machine.teach(fit, 600);
  // Of a lognormal of 0.1: its 95 % quantile is 1.18, its mean absolute deviation 0.08.
  CHECK(fit.report().late_ppm > 120'000);
  CHECK(fit.report().late_ppm < 260'000);
  CHECK(fit.error_ppm() > 60'000);
  CHECK(fit.error_ppm() < 110'000);
}

TEST_CASE("no time and no rows teach nothing") {
  CostFit fit(kPrior);
  fit.add(StepWork{}, milliseconds(5));
  fit.add(StepWork{.rows = 5}, Nanos{0});
  fit.add(StepWork{.rows = -5}, milliseconds(5));
  fit.add(StepWork{.rows = INT64_MAX}, milliseconds(5));
  CHECK(fit.steps() == 0);
  CHECK(fit.model().chunk(100, 0) == CostModel(kPrior).chunk(100, 0));
}

TEST_CASE("nonsense keeps every coefficient within its bounds") {
  std::mt19937_64 random(16);
  MESSAGE("seed 16");
  for (const CostCoefficients& prior : {kPrior, CostCoefficients{}, kMostCost}) {
    CostFit fit(prior);
    for (int i = 0; i < 3'000; ++i) {
      StepWork work;
      work.add(static_cast<std::int64_t>(1 + random() % 1'000'000),
               static_cast<Position>(random() % 1'000'000),
               static_cast<std::int64_t>(random() % 2));
      fit.add(work, Nanos{static_cast<std::int64_t>(random() >> (1 + random() % 63))});
      REQUIRE(is_sane(fit));
    }
  }
}

TEST_CASE("equal steps give equal coefficients") {
  CostFit one(kPrior);
  CostFit other(kPrior);
  Machine(17, 0.1).teach(one, 200);
  Machine(17, 0.1).teach(other, 200);
  CHECK(one.model().chunk(1'000, 1'000) == other.model().chunk(1'000, 1'000));
  CHECK(one.error_ppm() == other.error_ppm());
}

TEST_CASE("half of the steps recorded on a CPU predict the other half to 5 %") {
  for (const std::string stage : {"prefill", "decode"}) {
    CAPTURE(stage);
    const std::vector<RecordedStep> steps = recorded_steps(stage);
    REQUIRE(steps.size() > 30);
    CostFit fit(kPrior);
    for (int pass = 0; pass < 10; ++pass) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!is_held_out(i)) {
          fit.add(steps[i].work, steps[i].took);
        }
      }
    }
    double sum = 0;
    double held_out = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (is_held_out(i)) {
        const auto took = static_cast<double>(steps[i].took.count());
        sum += std::abs(static_cast<double>(fit.model().step(steps[i].work).count()) - took) / took;
        ++held_out;
      }
    }
    CHECK(sum / held_out < 0.05);
  }
}
