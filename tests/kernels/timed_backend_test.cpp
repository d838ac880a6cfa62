// The timed backend on a clock of the test's own: what a step and a copy take, and what a worker is
// told about it.
#include "kernels/sim/timed_backend.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <vector>

#include "kernels/launch_queue.h"
#include "kernels/sim/sim_backend.h"

using namespace shoal;
using namespace shoal::kernels;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr StepCost kCost{milliseconds(2), microseconds(50), milliseconds(1), microseconds(300)};

// Moves when somebody waits, and by `per_look` whenever it is read: work that takes time.
struct FakeTime {
  std::atomic<std::int64_t> now_ns{0};
  Nanos per_look{0};

  Instant now() { return Instant{Nanos{now_ns += per_look.count()}}; }

  DeviceTime port() {
    return {[this] { return now(); },
            [this](Instant when) {
              now_ns = std::max(now_ns.load(), when.time_since_epoch().count());
            }};
  }

  Nanos passed() const { return Nanos{now_ns.load()}; }
};

struct Timed {
  explicit Timed(const SimModel& model = {})
      : sim(model, {.blocks = 8, .sequences = 8}),
        backend(sim, kCost, time.port()) {}

  FakeTime time;
  SimBackend sim;
  TimedBackend backend;
};

// Of an answer that does not end.
class AnyToken final : public SampleRules {
 public:
  bool add(SampleSpec&, Position, TokenId) const override { return true; }
};

RowRun rows(std::uint32_t sequence, Position first, std::size_t count) {
  RowRun run;
  run.sequence = SequenceId{sequence};
  run.first = first;
  run.tokens = std::vector<TokenId>(count, 7);
  run.blocks = {BlockId{sequence}};
  run.sample = true;
  return run;
}

StepPlan plan_of(std::vector<RowRun> runs) {
  StepPlan plan;
  plan.runs = std::move(runs);
  return plan;
}

}  // namespace

TEST_CASE("a step costs its fixed part, each of its rows and each sequence that gets drafts") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 8});
  const auto time = [&backend](std::vector<RowRun> runs) {
    const auto step = backend.begin(plan_of(std::move(runs)));
    REQUIRE(step.has_value());
    backend.take(**step);
    return step_time(kCost, **step);
  };
  CHECK(time({}) == milliseconds(2));
  RowRun prompt = rows(0, 0, 3);
  prompt.rules = std::make_shared<AnyToken>();
  prompt.drafts = true;
  CHECK(time({prompt, rows(1, 0, 1)}) == microseconds(2000 + 4 * 50 + 300));
  RowRun next = rows(0, 0, 0);
  next.continues = true;
  next.rules = prompt.rules;
  next.verifies = 3;
  CHECK(time({next}) == microseconds(2000 + 4 * 50));
}

TEST_CASE("a timed step says what the step within has, and waits for all of it") {
  Timed timed({.drafts = 5});
  RowRun prompt = rows(0, 0, 3);
  prompt.rules = std::make_shared<AnyToken>();
  prompt.drafts = true;
  auto step = timed.backend.begin(plan_of({prompt}));
  REQUIRE(step.has_value());
  CHECK((*step)->rows == 3);
  CHECK((*step)->drafted == 1);
  CHECK(timed.backend.advance(**step) == StepYield::kDone);
  CHECK(timed.time.passed() == microseconds(2450));
}

TEST_CASE("a step ends when its cost has passed, its own work included") {
  Timed timed;
  auto step = timed.backend.begin(plan_of({rows(0, 0, 3), rows(1, 0, 1)}));
  REQUIRE(step.has_value());
  CHECK(timed.time.passed() == Nanos{0});
  timed.time.now_ns = Nanos(microseconds(1500)).count();
  CHECK(timed.backend.advance(**step) == StepYield::kDone);
  CHECK(timed.time.passed() == microseconds(2200));
  CHECK(timed.backend.take(**step).runs.size() == 2);
}

TEST_CASE("work that takes longer than the cost is not waited for again") {
  Timed timed;
  auto step = timed.backend.begin(plan_of({rows(0, 0, 1)}));
  REQUIRE(step.has_value());
  timed.time.now_ns = Nanos(milliseconds(9)).count();
  timed.backend.advance(**step);
  CHECK(timed.time.passed() == milliseconds(9));
}

TEST_CASE("only the end of a step is waited for, not its exchanges") {
  Timed timed({.exchanges = 2});
  auto step = timed.backend.begin(plan_of({rows(0, 0, 1)}));
  REQUIRE(step.has_value());
  for (int i = 0; i < 2; ++i) {
    CHECK(timed.backend.advance(**step) == StepYield::kNeedsExchange);
    CHECK(timed.time.passed() == Nanos{0});
  }
  CHECK(timed.backend.advance(**step) == StepYield::kDone);
  CHECK(timed.time.passed() == microseconds(2050));
}

TEST_CASE("a step that is refused takes no time") {
  Timed timed;
  CHECK(timed.backend.begin(plan_of({rows(0, 5, 1)})).error().code == Code::kInvalid);
  CHECK(timed.time.passed() == Nanos{0});
}

TEST_CASE("a copy out and a copy in take their time") {
  Timed timed;
  auto step = timed.backend.begin(plan_of({rows(0, 0, 3)}));
  REQUIRE(step.has_value());
  timed.backend.advance(**step);
  timed.backend.take(**step);
  const Nanos before = timed.time.passed();
  const std::vector<BlockId> block{BlockId{0}};
  const auto image = timed.backend.export_sequence(SequenceId{0}, block, 3);
  REQUIRE(image.has_value());
  CHECK(timed.time.passed() == before + milliseconds(1));
  REQUIRE(timed.backend.import_sequence(SequenceId{2}, std::vector{BlockId{2}}, *image));
  CHECK(timed.time.passed() == before + milliseconds(2));
}

TEST_CASE("a tail takes the time of a copy on its way out, and is part of a step on its way in") {
  Timed timed;
  auto step = timed.backend.begin(plan_of({rows(0, 0, 3)}));
  REQUIRE(step.has_value());
  timed.backend.advance(**step);
  timed.backend.take(**step);
  const Nanos before = timed.time.passed();
  const auto tail = timed.backend.export_tail(SequenceId{0}, std::vector{BlockId{0}}, 3);
  REQUIRE(tail.has_value());
  CHECK(timed.time.passed() == before + milliseconds(1));
  REQUIRE(timed.backend.import_tail(rows(2, 3, 1), *tail));
  CHECK(timed.time.passed() == before + milliseconds(1));
}

TEST_CASE("without a clock steps and copies are not waited for") {
  SimBackend sim({}, {.blocks = 8, .sequences = 8});
  TimedBackend backend(sim, kCost, {});
  auto step = backend.begin(plan_of({rows(0, 0, 3)}));
  REQUIRE(step.has_value());
  CHECK(backend.advance(**step) == StepYield::kDone);
  CHECK(backend.take(**step).runs[0].drawn.at(0).token ==
        sim_token({}, {}, 0, 0, SimHistory(std::vector<TokenId>{7, 7, 7})));
}

TEST_CASE("the launch queue reports the cost as what the step computed") {
  Timed timed;
  std::promise<CompletedStep> done;
  LaunchQueue queue(timed.backend, timed.time.port().now);
  Launch launch;
  launch.plan = plan_of({rows(0, 0, 4)});
  launch.done = [&done](CompletedStep step) { done.set_value(std::move(step)); };
  queue.launch(std::move(launch));
  auto step = done.get_future();
  REQUIRE(step.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(step.get().compute == microseconds(2200));
}
