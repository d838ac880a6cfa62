// The launch queue over the sim device: order, priority, parking, refusal, stop.
#include "kernels/launch_queue.h"

#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
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

TEST_CASE("a prefill step waits for one decode step, however many are prepared") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue* self = nullptr;
  LaunchQueue queue(backend, clock_now);
  self = &queue;
  Launch first = one_row(Queue::kPrefill, 0, 0, record, "first");
  first.done = [&](CompletedStep) {
    for (Position p = 0; p < 3; ++p) {
      self->launch(one_row(Queue::kDecode, 2, p, record, "decode"));
    }
    self->launch(one_row(Queue::kPrefill, 1, 0, record, "prefill"));
    record.add("first");
  };
  queue.launch(std::move(first));
  CHECK(record.wait_for(5) ==
        std::vector<std::string>{"first", "decode", "prefill", "decode", "decode"});
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
  std::vector<std::function<void(Result<void>)>> waiting;
  LaunchQueue queue(backend, clock_now, [&](Exchange&, std::function<void(Result<void>)> complete) {
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
  std::vector<std::function<void(Result<void>)>> parked;
  {
    const std::lock_guard lock(mutex);
    parked.swap(waiting);
  }
  REQUIRE(parked.size() == 2);
  parked[1]({});
  CHECK(record.wait_for(3).back() == "prefill");
  parked[0]({});
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

TEST_CASE("copies run in order with the steps of their queue") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now);
  const auto copy_out = [&](Position tokens, auto done) {
    queue.copy_out({Queue::kDecode, SequenceId{0}, {BlockId{0}}, tokens, std::move(done)});
  };
  const auto add_outcome = [&record](const std::string& name) {
    return [&record, name](const auto& done) { record.add(done ? name : name + " refused"); };
  };
  auto image = std::make_shared<std::vector<std::byte>>(3);  // an offset of 3
  copy_out(1, add_outcome("before any row"));
  queue.launch(one_row(Queue::kDecode, 0, 0, record, "row 0"));
  copy_out(1, [&](Result<std::vector<std::byte>> bytes) {
    image->insert(image->end(), bytes->begin(), bytes->end());
    record.add("out");
  });
  queue.launch(one_row(Queue::kDecode, 0, 1, record, "row 1"));
  Launch other = one_row(Queue::kDecode, 1, 1, record, "row 1 of the other");
  queue.copy_in({Queue::kDecode, SequenceId{1}, {BlockId{1}}, image, 3, add_outcome("in")});
  queue.launch(std::move(other));
  queue.copy_in({Queue::kDecode, SequenceId{2}, {BlockId{2}}, image, 2, add_outcome("shifted")});
  CHECK(record.wait_for(7) == std::vector<std::string>{"before any row refused",
                                                       "row 0",
                                                       "out",
                                                       "row 1",
                                                       "in",
                                                       "row 1 of the other",
                                                       "shifted refused"});
}

TEST_CASE("a step's sequences go on from tails, and a tail that is refused ends the step") {
  SimBackend backend({}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now);
  auto bytes = std::make_shared<std::vector<std::byte>>(3);  // an offset of 3
  queue.launch(one_row(Queue::kDecode, 0, 0, record, "row 0"));
  queue.copy_out({.queue = Queue::kDecode,
                  .sequence = SequenceId{0},
                  .blocks = {BlockId{0}},
                  .tokens = 1,
                  .done =
                      [&](Result<std::vector<std::byte>> tail) {
                        bytes->insert(bytes->end(), tail->begin(), tail->end());
                        record.add("tail");
                      },
                  .tail = true});
  const auto behind = [&](std::uint32_t sequence, std::size_t offset, const std::string& name) {
    Launch launch = one_row(Queue::kDecode, sequence, 1, record, name);
    launch.tails = {{SequenceId{1}, bytes, offset}};
    queue.launch(std::move(launch));
  };
  behind(1, 3, "behind it");
  queue.launch(one_row(Queue::kDecode, 1, 2, record, "and on"));
  behind(1, 2, "shifted");
  queue.launch(one_row(Queue::kDecode, 1, 1, record, "nothing left"));
  behind(2, 3, "no run of it");
  CHECK(record.wait_for(7) == std::vector<std::string>{"row 0",
                                                       "tail",
                                                       "behind it",
                                                       "and on",
                                                       "shifted refused",
                                                       "nothing left refused",
                                                       "no run of it refused"});
}

TEST_CASE("a copy waits behind a parked step of its queue, not behind the other queue's") {
  SimBackend backend({.exchanges = 1}, {.blocks = 8, .sequences = 8});
  Record record;
  std::mutex mutex;
  std::function<void(Result<void>)> parked;
  LaunchQueue queue(backend, clock_now, [&](Exchange&, std::function<void(Result<void>)> complete) {
    {
      const std::lock_guard lock(mutex);
      parked = std::move(complete);
    }
    record.add("parked");
  });
  const auto copy_out = [&](Queue which, const std::string& name) {
    queue.copy_out({which, SequenceId{0}, {BlockId{0}}, 1, [&record, name](const auto&) {
                      record.add(name);
                    }});
  };
  queue.launch(one_row(Queue::kDecode, 0, 0, record, "step"));
  record.wait_for(1);
  copy_out(Queue::kDecode, "behind");
  copy_out(Queue::kPrefill, "beside");
  CHECK(record.wait_for(2).back() == "beside");
  {
    const std::lock_guard lock(mutex);
    parked({});
  }
  CHECK(record.wait_for(4) == std::vector<std::string>{"parked", "beside", "step", "behind"});
}

TEST_CASE("stop drops copies that wait, with what they hold") {
  SimBackend backend({.exchanges = 1}, {.blocks = 8, .sequences = 8});
  Record record;
  LaunchQueue queue(backend, clock_now, [&](Exchange&, const std::function<void(Result<void>)>&) {
    record.add("parked");
  });
  const auto held = std::make_shared<const std::vector<std::byte>>(1);
  const auto never = [held](const auto&) { FAIL("called back"); };
  queue.launch(one_row(Queue::kDecode, 0, 0, record, "never"));
  record.wait_for(1);
  queue.copy_out({Queue::kDecode, SequenceId{0}, {BlockId{0}}, 1, never});
  queue.copy_in({Queue::kDecode, SequenceId{1}, {BlockId{1}}, held, 0, never});
  queue.stop();
  queue.copy_in({Queue::kDecode, SequenceId{1}, {BlockId{1}}, held, 0, never});
  CHECK(held.use_count() == 2);  // here and in `never`
  CHECK(record.wait_for(1).size() == 1);
}

TEST_CASE("a step whose exchange fails is done with that error, and the next one runs") {
  SimBackend backend({.exchanges = 2}, {.blocks = 8, .sequences = 8});
  Record record;
  int exchanges = 0;
  LaunchQueue queue(
      backend, clock_now, [&](Exchange&, const std::function<void(Result<void>)>& complete) {
        complete(++exchanges == 2 ? Result<void>(fail(Code::kPeerLost, "a shard is gone"))
                                  : Result<void>());
      });
  Launch lost = one_row(Queue::kDecode, 0, 0, record, "");
  lost.done = [&record](const CompletedStep& step) { record.add(step.result.error().message); };
  queue.launch(std::move(lost));
  queue.launch(one_row(Queue::kDecode, 1, 0, record, "next"));
  CHECK(record.wait_for(2) == std::vector<std::string>{"a shard is gone", "next"});
}

TEST_CASE("an exchange may end after its queue was destroyed: nothing is called, nothing is held") {
  SimBackend backend({.exchanges = 1}, {.blocks = 8, .sequences = 8});
  Record record;
  std::function<void(Result<void>)> parked;
  const auto held = std::make_shared<int>(1);
  {
    LaunchQueue queue(backend, clock_now, [&](Exchange&, auto complete) {
      parked = std::move(complete);
      record.add("parked");
    });
    Launch launch = one_row(Queue::kDecode, 0, 0, record, "");
    launch.done = [held](CompletedStep) { FAIL("called back"); };
    queue.launch(std::move(launch));
    record.wait_for(1);
  }
  CHECK(held.use_count() == 1);
  parked({});
}

namespace {

// Its answers do not end.
class AnyToken final : public SampleRules {
 public:
  bool add(SampleSpec&, Position, TokenId) const override { return true; }
};

CompletedStep completed(SimBackend& backend, Launch launch) {
  CompletedStep out;
  launch.done = [&out](CompletedStep step) { out = std::move(step); };
  LaunchedStep step(std::move(launch));
  REQUIRE(step.advance(backend) == StepYield::kDone);
  step.finish(backend, Nanos{0});
  REQUIRE(out.result.has_value());
  return out;
}

}  // namespace

TEST_CASE(
    "a block is saved by the step that completes it, not by one whose drafts only reached it") {
  SimBackend backend({.drafts = 5}, {.blocks = 8, .sequences = 8});
  Launch launch;
  launch.plan.runs.resize(1);
  RowRun& run = launch.plan.runs[0];
  run.tokens = {7, 8, 9};
  run.blocks = {BlockId{4}, BlockId{2}, BlockId{6}};
  run.sample = true;
  run.rules = std::make_shared<AnyToken>();
  run.drafts = true;
  launch.fresh = {run.sequence};
  Position end = completed(backend, launch).result->runs[0].end;
  launch.fresh.clear();
  run.tokens.clear();
  run.continues = true;
  run.verifies = 5;
  std::vector<std::byte> block(static_cast<std::size_t>(backend.shape().block_bytes));
  int reached = 0;
  while (end < 320) {
    const auto open = static_cast<std::size_t>(end / kBlockTokens);
    const Position open_end = static_cast<Position>(open + 1) * kBlockTokens;
    launch.saves = {{0, run.blocks[open], open_end}, {0, run.blocks[0], open_end - kBlockTokens}};
    const CompletedStep step = completed(backend, launch);
    const RunResult& result = step.result->runs[0];
    REQUIRE(step.saved.size() == 2);
    CHECK((step.saved[0] != nullptr) == (result.end >= open_end));
    CHECK(step.saved[1] == nullptr);  // it was complete before
    if (step.saved[0] != nullptr) {
      backend.read_block(run.blocks[open], block);
      CHECK(*step.saved[0] == block);
    }
    reached += result.end < open_end && result.first + 1 + result.verified >= open_end ? 1 : 0;
    end = result.end;
  }
  CHECK(reached > 0);
}
