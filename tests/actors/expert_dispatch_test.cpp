// Exchanges wait for shards that are away, go round them where there are replicas, and never exceed
// a message.
#include "actors/expert_dispatch.h"

#include <chrono>
#include <doctest/doctest.h>
#include <optional>
#include <vector>

#include "tests/actors/noting_exchange.h"
#include "tests/transport/step_scheduler.h"

namespace shoal {
namespace {

using std::chrono::seconds;
using testing::StepScheduler;

constexpr std::int64_t kDim = 32;

// Answers every part with its pairs' first code, or fails them all.
class Echo final : public NotingExchange {
 public:
  bool fails = false;

 private:
  void answer(const Dispatch& dispatch, Combined done) override {
    if (fails) {
      return done(fail(Code::kPeerLost, "gone"));
    }
    std::vector<transport::ExpertOutputs> outputs;
    for (const Part& part : dispatch.parts) {
      const auto& batch = part.batch;
      auto bytes = std::make_shared<std::vector<std::byte>>(
          static_cast<std::size_t>(batch.outputs_size().value));
      auto* rows = reinterpret_cast<kernels::Bf16*>(bytes->data());
      for (std::int64_t i = 0; i < batch.shape().pairs; ++i) {
        rows[i * kDim] = static_cast<kernels::Bf16>(batch.codes()[batch.row()[i] * kDim]);
      }
      outputs.push_back({bytes, bytes->data()});
    }
    done(std::move(outputs));
  }
};

// Rows that all ask experts 0 and 1.
struct Rows {
  explicit Rows(std::int64_t rows)
      : codes(static_cast<std::size_t>(rows * kDim)),
        scales(static_cast<std::size_t>(rows)),
        weights(static_cast<std::size_t>(rows * 2), 1.0F),
        outputs(static_cast<std::size_t>(rows * 2 * kDim)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      codes[static_cast<std::size_t>(row * kDim)] = static_cast<std::uint8_t>(row + 1);
      experts.insert(experts.end(), {0, 1});
    }
    exchange = {0,
                rows,
                2,
                kDim,
                {codes.data(), scales.data()},
                experts.data(),
                weights.data(),
                outputs.data()};
  }

  bool are_answered() const {
    for (std::int64_t pair = 0; pair < exchange.rows * 2; ++pair) {
      if (outputs[static_cast<std::size_t>(pair * kDim)] !=
          static_cast<kernels::Bf16>(pair / 2 + 1)) {
        return false;
      }
    }
    return true;
  }

  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
  std::vector<kernels::Bf16> outputs;
  kernels::Exchange exchange;
};

struct Bed {
  explicit Bed(ExpertDispatchLimits limits = {.waits = true})
      : dispatcher(echo, {{NodeId{1}, 0}, {NodeId{2}, 0}}, time.port(), limits) {}

  // Expert 0 at rank 0 alone, expert 1 at both.
  void publish(std::uint64_t epoch = 1) {
    const ExpertShape shape{.experts = 2, .ranks = 2, .slots = 2, .node_ranks = 1};
    REQUIRE(dispatcher.publish({EpochId{epoch}, {{shape, {0, 1, 1, kEmptySlot}}}}).has_value());
  }

  void run(Rows& rows) {
    outcome.reset();
    dispatcher.run(rows.exchange, [this](Result<void> done) { outcome = std::move(done); });
  }

  StepScheduler time;
  Echo echo;
  ExpertDispatcher dispatcher;
  std::optional<Result<void>> outcome;
};

}  // namespace

TEST_CASE("an exchange before the first placement waits for it") {
  Bed bed;
  Rows rows(3);
  bed.run(rows);
  bed.time.run_for(seconds(5));
  CHECK_FALSE(bed.outcome.has_value());
  bed.publish();
  CHECK_FALSE(bed.outcome.has_value());
  bed.dispatcher.go_on();
  REQUIRE(bed.outcome.has_value());
  CHECK(bed.outcome->has_value());
  CHECK(rows.are_answered());
}

TEST_CASE(
    "an exchange whose expert is away waits until it is back, at most as long as one may take") {
  Bed bed;
  bed.publish();
  Rows rows(3);
  bed.dispatcher.set_away({true, false});
  bed.run(rows);
  bed.time.run_for(seconds(9));
  CHECK_FALSE(bed.outcome.has_value());
  bed.dispatcher.set_away({false, false});
  bed.dispatcher.go_on();
  CHECK(rows.are_answered());

  bed.dispatcher.set_away({true, false});
  bed.run(rows);
  bed.time.run_for(seconds(11));
  REQUIRE(bed.outcome.has_value());
  CHECK(bed.outcome->error().code == Code::kUnavailable);
}

TEST_CASE("replicas carry on for a rank that is away") {
  Bed bed;
  bed.publish();
  bed.dispatcher.set_away({false, true});
  Rows rows(4);
  bed.run(rows);
  CHECK(rows.are_answered());
  REQUIRE(bed.echo.dispatches.size() == 1);
  CHECK(bed.echo.dispatches[0].parts.size() == 1);
  CHECK(bed.echo.dispatches[0].parts[0].node == NodeId{1});
  bed.dispatcher.set_away({false, false});
  bed.run(rows);
  CHECK(bed.echo.dispatches[1].parts.size() == 2);
}

TEST_CASE("what waits is refused when the dispatcher stops, and so is what comes then") {
  Bed bed;
  Rows rows(1);
  bed.run(rows);
  bed.dispatcher.stop();
  REQUIRE(bed.outcome.has_value());
  CHECK(bed.outcome->error().code == Code::kUnavailable);
  bed.run(rows);
  CHECK(bed.outcome->error().code == Code::kUnavailable);
}

TEST_CASE("rows of more than one message go in several, and each comes back to its place") {
  // Of both: twenty pairs' outputs, or thirty rows.
  Bed bed({.message = Bytes{64 + 20 * kDim * 2}, .waits = true});
  bed.publish();
  Rows rows(100);
  bed.run(rows);
  REQUIRE(bed.outcome.has_value());
  CHECK(rows.are_answered());
  REQUIRE(bed.echo.dispatches.size() == 1);
  CHECK(bed.echo.dispatches[0].parts.size() >= 10);
  for (const auto& part : bed.echo.dispatches[0].parts) {
    CHECK(part.batch.size() <= Bytes{64 + 20 * kDim * 2});
    CHECK(part.batch.outputs_size() + Bytes{32} <= Bytes{64 + 20 * kDim * 2});
  }
}

}  // namespace shoal
