// What every row of the expert exchange promises: each dispatch is called back once, with the
// outputs of its own rows or with the reason why there are none.
#include "transport/expert_exchange.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/transport/step_scheduler.h"
#include "tests/transport/transport_rows.h"
#include "transport/experts/shard_exchange.h"
#include "transport/registry.h"
#include "transport/sim/sim_experts.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace shoal::transport;
using std::chrono::milliseconds;

constexpr std::int64_t kDim = 64;

// `rows` rows whose codes say which they are, each for two slots.
ExpertBatch batch_of(std::uint32_t shard, std::int64_t rows, std::uint8_t salt = 0) {
  const ExpertBatchShape shape{.shard = shard,
                               .epoch = EpochId{1},
                               .layer = 3,
                               .dim = kDim,
                               .rows = rows,
                               .pairs = rows * 2};
  return ExpertBatch(shape, [&](const ExpertBatch::Fields& fields) {
    for (std::int64_t i = 0; i < shape.pairs; ++i) {
      fields.row[i] = static_cast<std::int32_t>(i / 2);
      fields.slot[i] = static_cast<std::int32_t>(i % 2);
      fields.weight[i] = static_cast<float>(i);
    }
    std::memset(fields.scales, 127, static_cast<std::size_t>(rows * kDim / 32));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memset(fields.codes + row * kDim, static_cast<int>(salt + row), kDim);
    }
  });
}

// Output byte of a pair: its row's code plus its slot.
void echo(std::span<ExpertCall> calls) {
  for (ExpertCall& call : calls) {
    const ExpertBatch& batch = *call.batch;
    for (std::int64_t i = 0; i < batch.shape().pairs; ++i) {
      std::memset(call.outputs + i * kDim * 2,
                  batch.codes()[batch.row()[i] * kDim] + batch.slot()[i],
                  kDim * 2);
    }
  }
}

bool is_echo(const ExpertOutputs& outputs, std::int64_t rows, std::uint8_t salt = 0) {
  for (std::int64_t i = 0; i < rows * 2; ++i) {
    const auto want = static_cast<std::byte>(salt + i / 2 + i % 2);
    const std::byte* row = outputs.rows + i * kDim * 2;
    if (!std::all_of(row, row + kDim * 2, [&](std::byte b) { return b == want; })) {
      return false;
    }
  }
  return true;
}

using Combine = Result<std::vector<ExpertOutputs>>;

struct Answers {
  std::vector<Combine> came;

  ExpertExchange::Combined take() {
    return [this](Combine result) { came.push_back(std::move(result)); };
  }

  std::size_t count(Code code) const {
    return static_cast<std::size_t>(std::count_if(
        came.begin(), came.end(), [&](const auto& c) { return !c && c.error().code == code; }));
  }
};

struct OwnRow {
  StepScheduler time;
  std::unique_ptr<ExpertExchange> exchange;

  explicit OwnRow(const ExpertLimits& limits = {}) {
    auto opened =
        open_expert_exchange("shards", {.self = {}, .timers = time.port(), .limits = limits});
    REQUIRE(opened.has_value());
    exchange = *std::move(opened);
  }
};

struct SimRow {
  StepScheduler time;
  std::unique_ptr<ExpertExchange> exchange;

  explicit SimRow(const ExpertLimits& limits = {})
      : exchange(make_sim_experts({.scheduler = time.port(),
                                   .seed = 7,
                                   .longest_delay = milliseconds(1),
                                   .limits = limits})) {}
};

template <class Row>
void dispatch(Row& row, Answers& answers, std::vector<ExpertBatch> batches, Nanos limit) {
  ExpertExchange::Dispatch dispatch{
      .epoch = EpochId{1}, .deadline = row.time.now() + limit, .parts = {}};
  for (ExpertBatch& batch : batches) {
    dispatch.parts.push_back({NodeId{}, std::move(batch)});
  }
  row.exchange->dispatch(std::move(dispatch), answers.take());
}

constexpr Nanos kLong = std::chrono::seconds(100);

}  // namespace

TEST_CASE_TEMPLATE("each part comes back from its shard, in the order of the parts",
                   Row,
                   OwnRow,
                   SimRow) {
  Row row;
  for (const std::uint32_t shard : {0, 1, 2}) {
    row.exchange->serve(shard, row.time.port(), echo);
  }
  Answers answers;
  for (std::uint8_t n = 0; n < 20; ++n) {
    dispatch(row, answers, {batch_of(2, n + 1, n), batch_of(0, 3, n)}, kLong);
  }
  row.time.run_all();
  REQUIRE(answers.came.size() == 20);
  // Sizes tell whose answer it is: with delays they need not come in order.
  std::int64_t rows_seen = 0;
  for (const Combine& came : answers.came) {
    REQUIRE_MESSAGE(came.has_value(), came.error().message);
    REQUIRE(came->size() == 2);
    const auto salt = static_cast<std::uint8_t>((*came)[1].rows[0]);
    CHECK(is_echo((*came)[0], salt + 1, salt));
    CHECK(is_echo((*came)[1], 3, salt));
    rows_seen += salt + 1;
  }
  CHECK(rows_seen == 210);
  const ExpertExchange::Use use = row.exchange->use();
  CHECK(use.dispatches == 0);
  CHECK(use.in_flight == Bytes{0});
  CHECK(use.combined == 20);
  CHECK(use.hops == 40);
  CHECK(use.received == Bytes{(210 + 60) * 2 * kDim * 2});
}

TEST_CASE("a shard runs together what came while it was busy, and waits for nothing else") {
  OwnRow row;
  std::vector<std::size_t> sizes;
  Answers answers;
  row.exchange->serve(0, row.time.port(), [&](std::span<ExpertCall> calls) {
    sizes.push_back(calls.size());
    echo(calls);
    if (sizes.size() == 1) {
      for (int i = 0; i < 3; ++i) {
        dispatch(row, answers, {batch_of(0, 2)}, kLong);
      }
    }
  });
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  row.time.run_all();
  CHECK(answers.came.size() == 4);
  CHECK(sizes == std::vector<std::size_t>{1, 3});
}

TEST_CASE("a dispatch without parts is combined at once") {
  OwnRow row;
  Answers answers;
  dispatch(row, answers, {}, kLong);
  REQUIRE(answers.came.size() == 1);
  CHECK(answers.came[0].has_value());
}

TEST_CASE_TEMPLATE("a shard that nobody serves, or that ends, fails its dispatches at once",
                   Row,
                   OwnRow,
                   SimRow) {
  Row row;
  Answers answers;
  row.exchange->serve(0, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1), batch_of(1, 1)}, kLong);
  row.time.run_for(milliseconds(10));
  CHECK(answers.count(Code::kPeerLost) == 1);
  row.exchange->serve(1, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1), batch_of(1, 1)}, kLong);
  row.exchange->end(1);
  row.time.run_for(milliseconds(10));
  CHECK(answers.count(Code::kPeerLost) == 2);
  CHECK(answers.came.size() == 2);
  CHECK(row.exchange->use().in_flight == Bytes{0});
  // Another takes its place.
  row.exchange->serve(1, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1), batch_of(1, 1)}, kLong);
  row.time.run_for(milliseconds(10));
  REQUIRE(answers.came.size() == 3);
  CHECK(answers.came[2].has_value());
}

TEST_CASE("nobody gets what a shard makes that ended meanwhile") {
  OwnRow row;
  Answers answers;
  row.exchange->serve(0, row.time.port(), [&](std::span<ExpertCall> calls) {
    echo(calls);
    row.exchange->end(0);
  });
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  row.time.run_all();
  REQUIRE(answers.came.size() == 1);
  CHECK(answers.count(Code::kPeerLost) == 1);
}

TEST_CASE("an error of one call fails its dispatch, not that of its neighbour in the run") {
  OwnRow row;
  Answers answers;
  row.exchange->serve(0, row.time.port(), [&](std::span<ExpertCall> calls) {
    echo(calls);
    calls[0].outcome = fail(Code::kPeerLost, "no such slot");
  });
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  row.time.run_all();
  REQUIRE(answers.came.size() == 2);
  CHECK(answers.came[0].error().message == "no such slot");
  CHECK(answers.came[1].has_value());
}

TEST_CASE("a shard that does not answer costs its own dispatches, by their deadline") {
  OwnRow row;
  StepScheduler stuck;
  Answers answers;
  row.exchange->serve(0, stuck.port(), echo);
  row.exchange->serve(1, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1), batch_of(1, 1)}, milliseconds(30));
  dispatch(row, answers, {batch_of(0, 1)}, milliseconds(10));
  dispatch(row, answers, {batch_of(1, 1)}, milliseconds(10));
  row.time.run_for(milliseconds(9));
  CHECK(answers.came.size() == 1);
  row.time.run_for(milliseconds(1));
  CHECK(answers.count(Code::kDeadline) == 1);
  row.time.run_for(milliseconds(20));
  CHECK(answers.count(Code::kDeadline) == 2);
  // What is not waited for any more is not run either.
  stuck.run_all();
  CHECK(row.exchange->use().runs == 1);
  CHECK(answers.came.size() == 3);
}

TEST_CASE("of an older placement nothing is waited for, and nothing is sent") {
  OwnRow row;
  Answers answers;
  row.exchange->serve(0, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  row.exchange->abort_before(EpochId{1});
  CHECK(answers.came.empty());
  row.exchange->abort_before(EpochId{2});
  CHECK(answers.count(Code::kPeerLost) == 1);
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  CHECK(answers.count(Code::kPeerLost) == 2);
  row.time.run_all();
  CHECK(row.exchange->use().runs == 0);
}

TEST_CASE("ceilings of dispatches and bytes refuse what is beyond, by saying so") {
  const Bytes one = batch_of(0, 1).size() + batch_of(0, 1).outputs_size();
  OwnRow few({.dispatches = 2});
  OwnRow small({.in_flight = one + one});
  OwnRow short_line({.batches = 2});
  OwnRow narrow_line({.waiting = one + one});
  for (OwnRow* row : {&few, &small, &short_line, &narrow_line}) {
    Answers answers;
    row->exchange->serve(0, row->time.port(), echo);
    for (int i = 0; i < 3; ++i) {
      dispatch(*row, answers, {batch_of(0, 1)}, kLong);
    }
    REQUIRE(answers.count(Code::kNoCapacity) == 1);
    CHECK(answers.came[0].error().message.find("give it more") != std::string::npos);
    row->time.run_all();
    CHECK(answers.came.size() == 3);
    CHECK(row->exchange->use().in_flight == Bytes{0});
  }
}

TEST_CASE_TEMPLATE("stop fails what is in flight, and refuses what comes later",
                   Row,
                   OwnRow,
                   SimRow) {
  Row row;
  Answers answers;
  row.exchange->serve(0, row.time.port(), echo);
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  row.exchange->stop();
  CHECK(answers.count(Code::kUnavailable) == 1);
  dispatch(row, answers, {batch_of(0, 1)}, kLong);
  CHECK(answers.count(Code::kUnavailable) == 2);
  row.time.run_all();
  CHECK(answers.came.size() == 2);
}

TEST_CASE("with messages lost and connections cut each dispatch still ends once, right or not") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    StepScheduler time;
    const auto exchange = make_sim_experts({.scheduler = time.port(),
                                            .seed = seed,
                                            .longest_delay = milliseconds(3),
                                            .lost_per_million = 20'000,
                                            .broken_per_million = 10'000});
    for (const std::uint32_t shard : {0, 1}) {
      exchange->serve(shard, time.port(), echo);
    }
    std::vector<int> called(200, 0);
    int right = 0;
    for (std::size_t i = 0; i < called.size(); ++i) {
      const auto salt = static_cast<std::uint8_t>(i);
      exchange->dispatch({.epoch = EpochId{1},
                          .deadline = time.now() + milliseconds(50),
                          .parts = {{NodeId{}, batch_of(0, 2, salt)}, {NodeId{}, batch_of(1, 1)}}},
                         [&, i, salt](const Combine& came) {
                           ++called[i];
                           right += came ? 1 : 0;
                           CHECK((!came || is_echo((*came)[0], 2, salt)));
                         });
      time.run_for(milliseconds(1));
    }
    time.run_for(milliseconds(100));
    CHECK(std::count(called.begin(), called.end(), 1) == 200);
    CHECK(right > 100);
    CHECK(right < 200);
    CHECK(exchange->use().in_flight == Bytes{0});
  }
}

TEST_CASE_TEMPLATE("rows go to a shard of another node and back", Row, MemoryRow, TcpRow) {
  Row row;
  ThreadScheduler timers(clock_now);
  ThreadScheduler executor(clock_now);
  const auto open = [&](std::uint32_t node) {
    return row.open(NodeId{node}, IncarnationId{1}, TransportLimits{});
  };
  const auto source_end = open(1);
  const auto shard_end = open(2);
  Inbox<Combine> came;
  {
    const auto source = make_shard_exchange(
        {.self = NodeId{1}, .timers = timers.port(), .transport = source_end.get()});
    const auto host = make_shard_exchange(
        {.self = NodeId{2}, .timers = timers.port(), .transport = shard_end.get()});
    source_end->set_peer(address_of(NodeId{2}, IncarnationId{1}, shard_end->port()));
    shard_end->set_peer(address_of(NodeId{1}, IncarnationId{1}, source_end->port()));
    host->serve(4, executor.port(), echo);
    source->serve(4, executor.port(), echo);
    const auto ask = [&](std::uint32_t shard) {
      source->dispatch(
          {.epoch = EpochId{1},
           .deadline = later(),
           .parts = {{NodeId{2}, batch_of(shard, 500, 3)}, {NodeId{1}, batch_of(4, 1)}}},
          [&came](Combine result) { came.put(std::move(result)); });
      return came.wait(shard == 4 ? 1 : 2).back();
    };
    const Combine outputs = ask(4);
    REQUIRE_MESSAGE(outputs.has_value(), outputs.error().message);
    CHECK(is_echo((*outputs)[0], 500, 3));
    CHECK(is_echo((*outputs)[1], 1));
    CHECK(ask(5).error().code == Code::kPeerLost);
    CHECK(source->use().hops == 4);
  }
  source_end->stop();
  shard_end->stop();
}

TEST_CASE_TEMPLATE("an answer too large for one message fails its dispatch before the deadline",
                   Row,
                   MemoryRow,
                   TcpRow) {
  Row row;
  ThreadScheduler timers(clock_now);
  const auto source_end = row.open(NodeId{1}, IncarnationId{1}, TransportLimits{});
  const auto shard_end = row.open(NodeId{2}, IncarnationId{1}, {.message = Bytes{10'000}});
  Inbox<Combine> came;
  {
    const auto source = make_shard_exchange(
        {.self = NodeId{1}, .timers = timers.port(), .transport = source_end.get()});
    const auto host = make_shard_exchange(
        {.self = NodeId{2}, .timers = timers.port(), .transport = shard_end.get()});
    source_end->set_peer(address_of(NodeId{2}, IncarnationId{1}, shard_end->port()));
    shard_end->set_peer(address_of(NodeId{1}, IncarnationId{1}, source_end->port()));
    host->serve(0, timers.port(), echo);
    source->dispatch(
        {.epoch = EpochId{1}, .deadline = later(), .parts = {{NodeId{2}, batch_of(0, 100)}}},
        [&came](Combine result) { came.put(std::move(result)); });
    const auto ended = came.wait(1);
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].error().code == Code::kNoCapacity);
  }
  source_end->stop();
  shard_end->stop();
}

TEST_CASE("bytes that are no batch are refused, whatever they are") {
  const Buffer good = batch_of(0, 3).stamped(9, 2);
  const auto whole = ExpertBatch::read(good);
  REQUIRE(whole.has_value());
  CHECK(whole->dispatch() == 9);
  CHECK(whole->part() == 2);
  for (std::size_t length = 0; length < good->size(); ++length) {
    const auto cut = ExpertBatch::read(
        std::make_shared<std::vector<std::byte>>(good->begin(), good->begin() + length));
    REQUIRE_FALSE(cut.has_value());
    CHECK(cut.error().code == Code::kCorrupt);
  }
  // Any value of any byte of the header and the pairs: read or refused, never beyond the end.
  for (std::size_t at = 0; at < 48 + 6 * 8; ++at) {
    for (const int value : {0, 1, 127, 128, 255}) {
      auto changed = std::make_shared<std::vector<std::byte>>(*good);
      (*changed)[at] = static_cast<std::byte>(value);
      if (const auto read = ExpertBatch::read(changed)) {
        CHECK(read->size() == whole->size());
        for (std::int64_t i = 0; i < read->shape().pairs; ++i) {
          CHECK(read->row()[i] < read->shape().rows);
        }
      }
    }
  }
}

TEST_CASE("an expert exchange that does not exist is refused by naming what does") {
  StepScheduler time;
  const auto opened = open_expert_exchange("nonsense", {.self = {}, .timers = time.port()});
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().message == "no expert exchange 'nonsense'; there is: shards");
}
