// Scenarios that a seed draws: nodes, workload, how many faults.
#include <algorithm>
#include <array>
#include <random>

#include "actors/policy/verify_plan.h"
#include "tests/sim/scenario.h"

namespace shoal::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

std::vector<std::string> drawn_nodes(int nodes, std::mt19937_64& random) {
  if (nodes <= 1) {
    return {"all"};
  }
  if (nodes == 2) {
    return {"gateway router", "prefill decode"};
  }
  std::vector<std::string> drawn;
  const bool apart = nodes >= 5 && random() % 2 == 0;
  drawn.emplace_back(apart ? "router" : "gateway router");
  if (apart) {
    drawn.emplace_back("gateway");
  }
  if (nodes >= 6 && random() % 2 == 0) {
    drawn.emplace_back("gateway router");
  }
  drawn.emplace_back("prefill");
  drawn.emplace_back("decode");
  while (std::ssize(drawn) < nodes) {
    constexpr std::array kMore = {"prefill", "decode", "prefill decode"};
    drawn.emplace_back(kMore[random() % kMore.size()]);
  }
  return drawn;
}

// Prompts are long enough for hits, and their blocks are there by the time the next turn comes.
void draw_store(scenario::Scenario& scenario, std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
  scenario::Store& store = *scenario.mutable_store();
  store.set_hours(100 + below(100));
  if (below(4) == 0) {
    store.set_bytes(std::int64_t{4} << 20);
  }
  scenario::Workload& work = *scenario.mutable_workload();
  work.set_texts(below(3) == 0 ? 0 : 1 + below(4));
  work.set_tenants(1 + below(2));
  work.set_turns(1 + below(4));
  work.set_prompt_max(200 + below(600));
  work.set_gap_us(2'000 + below(100'000));
  work.set_think_us(20'000 + below(1'000'000));
  scenario.mutable_device()->set_blocks(24 + below(60));
  scenario.mutable_random()->set_within_ms(500 + below(3'000));
}

}  // namespace

scenario::Scenario drawn_scenario(std::uint64_t seed, int nodes) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL ^ 0x5DEECE66DULL);
  return drawn_scenario(seed, drawn_nodes(nodes, random));
}

scenario::Scenario drawn_scenario(std::uint64_t seed, const std::vector<std::string>& roles) {
  std::mt19937_64 random(seed ^ 0x5DEECE66DULL);
  const auto below = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
  const auto nodes = std::ssize(roles);
  scenario::Scenario scenario;
  scenario.set_story("drawn from seed " + std::to_string(seed));
  for (const std::string& node : roles) {
    scenario.add_node(node);
  }
  scenario::Workload& work = *scenario.mutable_workload();
  work.set_requests(nodes <= 3 ? 8 + below(12) : 20 + below(60));
  work.set_gap_us(2'000 + below(30'000));
  work.set_answer_max(5 + below(60));
  work.set_prompt_max(20 + below(600));
  work.set_deadline_percent(below(3) == 0 ? 30 : 0);
  work.set_deadline_ms(20 + below(400));
  work.set_turns(1 + below(3));
  work.set_slow_percent(below(3) == 0 ? 20 : 0);
  scenario.mutable_clients()->set_unread_tokens(16 + below(100));
  scenario.mutable_random()->set_count(nodes <= 3 ? 1 + below(4) : 3 + below(12));
  scenario.mutable_random()->set_within_ms(100 + below(1'500));
  scenario.mutable_device()->set_eos_period(below(2) == 0 ? 0 : 20);
  scenario.mutable_device()->set_blocks(12 + below(60));
  scenario.mutable_device()->set_sequences(2 + below(12));
  if (below(3) > 0) {
    draw_store(scenario, random);
  }
  config::Decode& decode = *scenario.mutable_config()->mutable_decode();
  const auto rows = verify_policies();
  decode.set_drafts(std::string(rows[random() % rows.size()].name));
  decode.set_steps_ahead(below(4) == 0 ? 0 : 1);
  scenario.mutable_device()->set_ranks(below(3) == 0 ? 2 + below(2) : 1);
  return scenario;
}

// 200,000 prompt tokens a second and device, steps of 5 ms, 4 million tokens of KV: what the public
// traces need of a few nodes.
void fit_to_trace(scenario::Scenario& drawn, const TraceSize& size) {
  constexpr int kStepUs = 5'000;
  constexpr int kRowUs = 5;
  constexpr int kAnswers = 1'024;
  drawn.clear_clients();
  drawn.clear_store();
  drawn.set_settle_s(300);
  scenario::Workload& work = *drawn.mutable_workload();
  work.set_leave_percent(0);
  work.set_stop_percent(0);
  work.set_deadline_percent(0);
  work.set_slow_percent(0);
  scenario::Device& device = *drawn.mutable_device();
  device.set_eos_period(0);
  device.set_blocks(32'768);
  device.set_sequences(kAnswers);
  device.set_step_us(kStepUs);
  device.set_row_us(kRowUs);
  config::Config& config = *drawn.mutable_config();
  config.mutable_decode()->set_max_batch(kAnswers);
  for (config::Cost* cost :
       {config.mutable_prefill()->mutable_cost(), config.mutable_decode()->mutable_cost()}) {
    cost->set_step_ns(Nanos(microseconds(kStepUs)).count());
    cost->set_token_ps(Nanos(microseconds(kRowUs)).count() * 1'000);
    cost->set_pair_fs(0);
  }
  scenario::RandomFaults& random = *drawn.mutable_random();
  random.set_within_ms(std::max<std::int64_t>(1'000, size.span / milliseconds(1)));
  random.set_count(std::max(random.count(), static_cast<int>(size.span / seconds(20))));
}

}  // namespace shoal::sim
