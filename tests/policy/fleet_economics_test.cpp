// The published economics and storage of one cluster, reproduced from their inputs.
#include "actors/policy/fleet_economics.h"

#include <array>
#include <doctest/doctest.h>

using namespace shoal;

namespace {

struct Published {
  double output_T;
  double output_per_input_pct;
  double gpus;
  double income_musd;  // 0: not published
  double uncached_k;   // of a prefill GPU
  double logical_k;    // 0: not published
};

// In the order of published_incomes().
constexpr std::array<Published, 7> kPublished = {{
    {1.50, 0.98, 2'482, 2.26, 57.3, 723},
    {2.96, 1.95, 3'430, 3.13, 41.0, 523},
    {6.23, 4.19, 5'549, 5.06, 24.8, 323},
    {2.55, 1.67, 3'162, 2.88, 67.0, 567},
    {1.06, 0.69, 2'199, 2.01, 54.0, 816},
    {1.75, 1.1, 2'889, 0, 61.4, 0},
    {1.25, 0.8, 2'075, 0, 51.5, 0},
}};

StorageNeeds published_storage() {
  const FleetDay day = *solve_day({});
  StorageInputs inputs;
  inputs.input = day.input;
  inputs.output = day.output;
  inputs.hit_share = 0.96;
  inputs.prefill_gpus = day.gpus / 2;
  return storage_of(inputs);
}

// Equal when both are written with that many digits behind the point.
bool reads_as(double value, double written, int digits) {
  double half = 0.5;
  for (int i = 0; i < digits; ++i) {
    half /= 10;
  }
  return value >= written - half * 1.0001 && value <= written + half * 1.0001;
}

}  // namespace

TEST_CASE("fleet sizes, outputs and rates of the published cases follow from their inputs") {
  REQUIRE(published_incomes().size() == kPublished.size());
  for (std::size_t i = 0; i < kPublished.size(); ++i) {
    CAPTURE(i);
    const Published& row = kPublished[i];
    const FleetDay day = *solve_day(published_incomes()[i]);
    CHECK(reads_as(day.output / 1e12, row.output_T, 2));
    CHECK(reads_as(100 * day.output / day.input, row.output_per_input_pct, i < 5 ? 2 : 1));
    CHECK(reads_as(day.gpus, row.gpus, 0));
    CHECK(reads_as(day.uncached_rate / 1e3, row.uncached_k, 1));
    CHECK((row.income_musd == 0 || reads_as(day.revenue.total() / 1e6, row.income_musd, 2)));
    CHECK((row.logical_k == 0 || reads_as(day.logical_rate / 1e3, row.logical_k, 0)));
  }
}

TEST_CASE("hits, misses and output share the income of the published cases") {
  constexpr std::array<std::array<double, 3>, 3> kShares = {
      {{0.44, 0.92, 0.90}, {0.44, 0.91, 1.78}, {0.43, 0.89, 3.74}}};
  for (std::size_t i = 0; i < kShares.size(); ++i) {
    CAPTURE(i);
    const Revenue revenue = solve_day(published_incomes()[i])->revenue;
    CHECK(reads_as(revenue.hit / 1e6, kShares[i][0], 2));
    CHECK(reads_as(revenue.miss / 1e6, kShares[i][1], 2));
    CHECK(reads_as(revenue.output / 1e6, kShares[i][2], 2));
  }
}

TEST_CASE("the income of a day is what its GPUs earn") {
  for (const FleetIncome& income : published_incomes()) {
    const FleetDay day = *solve_day(income);
    CHECK(day.revenue.total() == doctest::Approx(24 * income.gpu_hour * day.gpus));
    CHECK(day.input + day.output == doctest::Approx(income.tokens));
  }
}

TEST_CASE("costs of 5, 7.50 and 10 dollars an hour leave 87, 80 and 74 % of 38") {
  CHECK(reads_as(100 * margin(38, 5), 86.8, 1));
  CHECK(reads_as(100 * margin(38, 7.5), 80.3, 1));
  CHECK(reads_as(100 * margin(38, 10), 73.7, 1));
  CHECK(margin(0, 10) == 0);
}

TEST_CASE("an income that no output pays for has no fleet") {
  FleetIncome income;
  income.gpu_hour = 1;
  CHECK_FALSE(solve_day(income).has_value());
  for (double FleetIncome::*field : {&FleetIncome::tokens,
                                     &FleetIncome::decode_rate,
                                     &FleetIncome::prefill_per_decode,
                                     &FleetIncome::gpu_hour}) {
    FleetIncome zero;
    zero.*field = 0;
    CHECK_FALSE(solve_day(zero).has_value());
  }
}

TEST_CASE("reads, writes and live bytes of the published day") {
  const StorageNeeds s = published_storage();
  CHECK(reads_as(s.read_rate / 1e12, 1.52, 2));
  CHECK(reads_as(s.headroom, 6.6, 1));
  CHECK(reads_as(s.blocks_read / 1e6, 13.3, 1));
  CHECK(reads_as(s.peak_blocks / 1e6, 88, 0));
  CHECK(reads_as(s.written_a_day / 1e15, 6.8, 1));
  CHECK(reads_as(s.write_rate / 1e9, 79, 0));
  CHECK(s.blocks_written == doctest::Approx(690e3).epsilon(0.01));
  CHECK(reads_as(s.live_short / 1e15, 20, 0));
  CHECK(reads_as(s.live_long / 1e15, 48, 0));
  CHECK(3 * s.live_short == doctest::Approx(61e15).epsilon(0.01));
  CHECK(3 * s.live_long == doctest::Approx(143e15).epsilon(0.01));
  CHECK(reads_as(s.days_with_three, 5.5, 1));
  CHECK(reads_as(s.days_with_two, 8.3, 1));
}

TEST_CASE("index, nodes, links, rings and replay of the published day") {
  const StorageNeeds s = published_storage();
  CHECK(reads_as(s.blocks_short / 1e11, 1.8, 1));
  CHECK(reads_as(s.blocks_long / 1e11, 4.2, 1));
  CHECK(reads_as(s.index_short / 1e12, 6, 0));
  CHECK(reads_as(s.index_long / 1e12, 13, 0));
  CHECK(s.nodes == 457);
  CHECK(reads_as(s.node_rate / 1e9, 22, 0));
  CHECK(reads_as(100 * s.link_share, 44, 0));
  CHECK(reads_as(s.read_per_gpu / 1e9, 1.2, 1));
  CHECK(reads_as(s.read_per_node / 1e9, 9.8, 1));
  CHECK(s.requests == doctest::Approx(14.6e3).epsilon(0.005));
  CHECK(reads_as(s.rings / 1e12, 3.7, 1));
  CHECK(reads_as(s.rings_per_node / 1e9, 24, 0));
  CHECK(reads_as(100 * s.replay_share, 0.05, 2));
  CHECK(reads_as(100 * s.replay_all_share, 2.6, 1));
}

TEST_CASE("a day without tokens needs no storage, and nothing is divided by zero") {
  const StorageNeeds s = storage_of({});
  CHECK(s.read_rate == 0);
  CHECK(s.days_with_two == 0);
  CHECK(s.read_per_gpu == 0);
  CHECK(s.replay_share == 0);
}
