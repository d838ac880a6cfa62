// The launch queue over the sim device: order, priority, parking, refusal, stop.
#include "kernels/launch_queue.h"

#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/sim/sim_backend.h"

using namespace shoal;
using namespace shoal::kernels;

namespace {

Instant clock_now() {
  return std::chrono::steady_clock::now();
}

// Names of finished steps in order, and a wait with a deadline.
class Record {
 public:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.push_back(name);
    changed_.notify_all();
  }

  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return names_.size() >= count; }));
    return names_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> names_;
};

Launch one_row(
    Queue queue, std::uint32_t sequence, Position first, Record& record, const std::string& name) {
  Launch launch;
  launch.plan.queue = queue;
  RowRun run;
  run.sequence = SequenceId{sequence};
  run.first = first;
  run.tokens = {7};
  run.blocks = {BlockId{sequence}};
  launch.plan.runs = {run};
  if (first == 0) {
    launch.fresh = {SequenceId{sequence}};
  }
  launch.done = [&record, name](CompletedStep step) {
    record.add(step.result ? name : name + " refused");
  };
  return launch;
}

}  // namespace

TEST_CASE("steps of one queue complete in order") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now);
  for (Position p = 0; p < 5; ++p) {
    queue.launch(one_row(Queue::kDecode, 0, p, record, std::to_string(p)));
  }
  CHECK(record.wait_for(5) == std::vector<std::string>{"0", "1", "2", "3", "4"});
}

TEST_CASE("decode steps go before prefill steps that wait") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue* self = nullptr;
  LaunchQueue queue(backend, clock_now);
  self = &queue;
  // While the first step ends, both kinds are queued behind it.
  Launch first = one_row(Queue::kPrefill, 0, 0, record, "first");
  first.done = [&](CompletedStep) {
    self->launch(one_row(Queue::kPrefill, 1, 0, record, "prefill"));
    self->launch(one_row(Queue::kDecode, 2, 0, record, "decode"));
    record.add("first");
  };
  queue.launch(std::move(first));
  CHECK(record.wait_for(3) == std::vector<std::string>{"first", "decode", "prefill"});
}

TEST_CASE("a step the device refuses is done with its error") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now);
  queue.launch(one_row(Queue::kDecode, 0, 5, record, "hole"));
  CHECK(record.wait_for(1) == std::vector<std::string>{"hole refused"});
}

TEST_CASE("a step that waits for an exchange lets others pass and goes on when it is complete") {
  SimBackend backend({.exchanges = 1}, {.blocks = 8, .sequences = 8});
  Record record;
  std::mutex mutex;
  std::vector<std::function<void()>> waiting;
  LaunchQueue queue(backend, clock_now, [&](Exchange&, std::function<void()> complete) {
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(complete));
    }
    record.add("parked");
  });
  queue.launch(one_row(Queue::kDecode, 0, 0, record, "decode"));
  record.wait_for(1);
  queue.launch(one_row(Queue::kPrefill, 1, 0, record, "prefill"));
  record.wait_for(2);
  std::vector<std::function<void()>> parked;
  {
    const std::lock_guard lock(mutex);
    parked.swap(waiting);
  }
  REQUIRE(parked.size() == 2);
  parked[1]();
  CHECK(record.wait_for(3).back() == "prefill");
  parked[0]();
  CHECK(record.wait_for(4).back() == "decode");
}

TEST_CASE("after stop nothing is called back, and what a dropped step held is let go") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now);
  queue.stop();
  const auto held = std::make_shared<int>(1);
  Launch launch = one_row(Queue::kDecode, 0, 0, record, "late");
  launch.done = [held](CompletedStep) { FAIL("called back"); };
  queue.launch(std::move(launch));
  queue.stop();
  CHECK(held.use_count() == 1);
}

TEST_CASE("the sim device shows a wrong history and a foreign block") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  const auto run_one = [&backend](std::uint32_t sequence, Position first, std::uint32_t block) {
    StepPlan plan;
    RowRun run;
    run.sequence = SequenceId{sequence};
    run.first = first;
    run.tokens = {7};
    run.blocks = {BlockId{block}};
    plan.runs = {run};
    return backend.begin(std::move(plan));
  };
  CHECK(run_one(0, 0, 0).has_value());
  CHECK(run_one(1, 0, 1).has_value());
  CHECK(run_one(1, 0, 1).error().code == Code::kInvalid);  // position 0 was written
  CHECK(run_one(0, 1, 0).has_value());
  CHECK(run_one(1, 1, 0).error().code == Code::kCorrupt);  // sequence 0's block
}
