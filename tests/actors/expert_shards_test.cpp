// The model with its experts on shards: the same bits as on one device, whatever the placement, and
// a step that is lost as a whole when a shard is.
#include "actors/expert_shards.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/draft.h"
#include "kernels/model/experts.h"
#include "tests/actors/expert_bed.h"
#include "tests/actors/noting_exchange.h"
#include "tests/transport/step_scheduler.h"
#include "tests/transport/waits.h"
#include "transport/experts/shard_exchange.h"
#include "transport/sim/sim_experts.h"
#include "transport/thread_scheduler.h"

namespace shoal {

using kernels::RowRun;
using kernels::StepResult;
using testing::StepScheduler;

TEST_CASE("on 1 to 8 shards, with any placement and replicas, every logit is that of one device") {
  const std::vector<Golden> texts = golden_prompts();
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  for (const std::int32_t count : {1, 2, 4, 8}) {
    CAPTURE(count);
    for (const std::int32_t redundant : {0, 2}) {
      CAPTURE(redundant);
      Bed bed({.shards = count, .redundant = redundant});
      const auto seed = static_cast<std::uint64_t>(count * 10 + redundant);
      if (redundant > 0 || count > 2) {
        REQUIRE(bed.shards->place(drawn_layers(bed.shards->placement().layers, seed)).has_value());
      }
      CHECK(all_logits(bed, texts, seed) == expected);
    }
  }
}

TEST_CASE("messages that take long change no bit, only steps that lose one are lost") {
  const std::vector<Golden> texts = golden_prompts(8);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  const auto far = [](std::int64_t lost) {
    return [lost](const transport::Scheduler& scheduler) {
      return transport::make_sim_experts({.scheduler = scheduler,
                                          .seed = 3,
                                          .longest_delay = std::chrono::milliseconds(2),
                                          .lost_per_million = lost});
    };
  };
  Bed bed({.shards = 4, .redundant = 1}, far(0));
  CHECK(all_logits(bed, texts, 2) == expected);

  Bed losing({.shards = 4, .redundant = 1}, far(3'000));
  int lost = 0;
  for (int i = 0; i < 40; ++i) {
    Fed fed = open(losing, texts[0]);
    fed.run.tokens = fed.tokens;
    const auto result = losing.step({fed.run});
    lost += result ? 0 : 1;
    if (result) {
      CHECK(result->runs[0].logits == expected[0]);
    } else {
      CHECK(result.error().code == Code::kDeadline);
    }
    close(losing, fed);
  }
  CHECK(lost > 0);
  CHECK(lost < 40);
}

TEST_CASE("each shard holds its own experts, all together each once where there are no replicas") {
  Bed bed({.shards = 8});
  std::int64_t experts = 0;
  for (std::uint32_t shard = 0; shard < 8; ++shard) {
    experts += bed.shards->use(shard).experts;
    CHECK(bed.shards->use(shard).experts == 6 * 2 + 3);
  }
  CHECK(experts == 6 * 16 + 3 * 8);
}

TEST_CASE("a step whose shard dies at any of its layers is lost whole, and its text starts anew") {
  const std::vector<Golden> texts = golden_prompts(1);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  Bed bed({.shards = 4});
  for (int dies_at = 1; dies_at <= 6; ++dies_at) {
    CAPTURE(dies_at);
    Fed fed = open(bed, texts[0]);
    std::mt19937_64 random(5);
    int exchanges = 0;
    bed.between = [&] {
      if (++exchanges == dies_at) {
        for (std::uint32_t shard = 0; shard < 4; ++shard) {
          bed.shards->end(shard);
        }
      }
    };
    const auto lost = bed.step({next_run(fed, random)});
    REQUIRE_FALSE(lost.has_value());
    CHECK(lost.error().code == Code::kPeerLost);
    CHECK(exchanges == dies_at);
    CHECK(bed.shards->use(1).experts == 0);
    close(bed, fed);
    bed.between = nullptr;
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      REQUIRE(bed.shards->restore(shard).has_value());
    }
    CHECK(all_logits(bed, texts, 6) == expected);
  }
  CHECK(bed.shards->exchange_use().in_flight == Bytes{0});
}

TEST_CASE("what the gate chose is counted by layer and expert, and what shards were given") {
  const std::vector<Golden> texts = golden_prompts(3);
  Bed bed({.shards = 2});
  all_logits(bed, texts, 1);
  std::int64_t rows = 0;
  for (const Golden& text : texts) {
    rows += static_cast<std::int64_t>(text.prompt.size() + text.output.size());
  }
  const auto routed = bed.shards->routed();
  REQUIRE(routed.size() == 9);
  for (std::size_t layer = 0; layer < 6; ++layer) {
    CHECK(std::accumulate(routed[layer].begin(), routed[layer].end(), std::int64_t{0}) == 2 * rows);
  }
  CHECK(std::accumulate(routed[6].begin(), routed[6].end(), std::int64_t{0}) == 0);
  const std::vector<ExpertTraffic> traffic = bed.shards->traffic();
  REQUIRE(traffic.size() == 9);
  for (std::size_t layer = 0; layer < 6; ++layer) {
    CHECK(traffic[layer].experts == routed[layer]);
    REQUIRE(traffic[layer].ranks.size() == 2);
    CHECK(traffic[layer].ranks[0] + traffic[layer].ranks[1] == 2 * rows);
    CHECK(traffic[layer].exchanges == traffic[0].exchanges);
  }
  CHECK(traffic[0].exchanges > 0);
  CHECK(traffic[6].exchanges == 0);
}

namespace {

class Kept final : public NotingExchange {
  void answer(const Dispatch&, Combined done) override { done(fail(Code::kUnavailable, "kept")); }
};

}  // namespace

TEST_CASE("a replicated expert's rows are split over its replicas, a row goes to a shard once") {
  Kept kept;
  StepScheduler time;
  ExpertDispatcher dispatcher(
      kept, {{NodeId{3}, 7}, {NodeId{4}, 8}, {NodeId{5}, 9}}, time.port(), {});
  constexpr std::int64_t kRows = 9;
  std::vector<std::uint8_t> codes(kRows * 32);
  std::vector<std::uint8_t> scales(kRows);
  std::vector<std::int32_t> experts;
  std::vector<float> weights(kRows * 2, 0.5F);
  std::vector<kernels::Bf16> outputs(kRows * 2 * 32);
  for (std::int64_t row = 0; row < kRows; ++row) {
    codes[static_cast<std::size_t>(row * 32)] = static_cast<std::uint8_t>(row);
    experts.insert(experts.end(), {0, row < 3 ? 1 : 2});
  }
  kernels::Exchange exchange{0,
                             kRows,
                             2,
                             32,
                             {codes.data(), scales.data()},
                             experts.data(),
                             weights.data(),
                             outputs.data()};
  Result<void> outcome;
  const auto run = [&] {
    dispatcher.run(exchange, [&](Result<void> done) { outcome = std::move(done); });
  };
  run();
  CHECK(outcome.error().message == "no placement of the experts is known yet");
  const ExpertShape shape{.experts = 3, .ranks = 3, .slots = 2, .node_ranks = 3};
  // Expert 0 everywhere; 1 at the first shard, 2 at the second.
  REQUIRE(dispatcher.publish({EpochId{5}, {{shape, {1, 0, 0, 2, kEmptySlot, 0}}}}).has_value());
  run();
  CHECK(outcome.error().message == "kept");
  REQUIRE(kept.dispatches.size() == 1);
  const auto& parts = kept.dispatches[0].parts;
  CHECK(kept.dispatches[0].epoch == EpochId{5});
  REQUIRE(parts.size() == 3);
  // Three rows of expert 1, six of expert 2: the nine of expert 0 make it six each.
  std::int64_t pairs = 0;
  std::vector<std::int64_t> of_shard;
  for (const auto& part : parts) {
    pairs += part.batch.shape().pairs;
    of_shard.push_back(part.batch.shape().pairs);
    for (std::int64_t i = 0; i < part.batch.shape().pairs; ++i) {
      CHECK(part.batch.row()[i] < part.batch.shape().rows);
    }
  }
  CHECK(pairs == kRows * 2);
  CHECK(of_shard == std::vector<std::int64_t>{6, 6, 6});
  CHECK(parts[0].node == NodeId{3});
  CHECK(parts[0].batch.shape().shard == 7);
  CHECK(parts[0].batch.shape().rows <= 6);
  CHECK(parts[2].batch.shape().rows == 6);
  CHECK(parts[2].batch.slot()[0] == 1);
}

TEST_CASE("drafts whose experts are on shards are the drafts of one device, bit for bit") {
  const auto model = kernels::Model::load(kGuppy);
  REQUIRE(model.has_value());
  const kernels::ModelConfig& c = (*model)->config;
  kernels::ComputePool pool(1);
  const auto ops = kernels::make_cpu_ops(pool, kernels::SumPrecision::kSingle);
  kernels::LocalExperts local(**model, *ops);
  kernels::YieldedExperts yielded;
  Bed bed({.shards = 4, .redundant = 1});
  std::mt19937_64 random(9);
  for (const std::int64_t n : {1, 5, 40}) {
    CAPTURE(n);
    std::vector<kernels::Bf16> main_x(static_cast<std::size_t>(n * c.dim));
    for (kernels::Bf16& x : main_x) {
      x.bits = static_cast<std::uint16_t>(0x3f00 + random() % 0x100 + (random() % 2 << 15));
    }
    const auto draft = [&](kernels::ExpertPort& experts, int& exchanges) {
      kernels::Drafter drafter(**model, *ops, experts);
      auto rings = drafter.make_rings();
      kernels::DraftStep step;
      const std::vector<kernels::DraftRows> committed = {{&rings, 0, n}};
      drafter.commit(committed, main_x.data(), step.space);
      step.starts = {{&rings, 0, n - 1, 300}};
      drafter.begin(step);
      while (!drafter.advance(step)) {
        Result<void> outcome = fail(Code::kInternal, "never completed");
        bed.shards->runner()(step.pending.exchange,
                             [&](Result<void> done) { outcome = std::move(done); });
        bed.time.run_all();
        REQUIRE(outcome.has_value());
        ++exchanges;
      }
      std::vector<float> logits;
      const kernels::DraftResult made = drafter.finish(step, 0, [&](int i, auto of_draft) {
        logits.insert(logits.end(), of_draft.begin(), of_draft.end());
        return kernels::choose_likeliest(i, of_draft);
      });
      return std::pair(made, logits);
    };
    int none = 0;
    int some = 0;
    const auto [expected, expected_logits] = draft(local, none);
    const auto [got, got_logits] = draft(yielded, some);
    CHECK(none == 0);
    CHECK(some == c.stages);
    CHECK(got.tokens == expected.tokens);
    CHECK(got_logits == expected_logits);
    CHECK(got.confidence == expected.confidence);
  }
}

TEST_CASE(
    "behind a launch queue no thread waits: while a shard is held, the other queue's steps run") {
  const auto device = open_device(true);
  transport::ThreadScheduler timers(testing::clock_now);
  transport::ThreadScheduler executor(testing::clock_now);
  std::atomic<int> held_back = 0;
  auto opened = ExpertShards::open(
      {.shards = 2},
      [&](const auto& limits) { return device->make_expert_engine(limits); },
      transport::make_shard_exchange({.self = {}, .timers = timers.port()}),
      executor.port());
  REQUIRE(opened.has_value());
  ExpertShards& shards = **opened;
  std::vector<std::function<void()>> later;
  std::mutex mutex;
  std::atomic<bool> open_now = false;
  kernels::LaunchQueue queue(
      device->backend(),
      testing::clock_now,
      [&](kernels::Exchange& exchange, std::function<void(Result<void>)> complete) {
        if (exchange.rows == 1 && !open_now) {
          const std::lock_guard lock(mutex);
          later.push_back([&shards, &exchange, complete = std::move(complete)] {
            shards.runner()(exchange, complete);
          });
          ++held_back;
          return;
        }
        shards.runner()(exchange, std::move(complete));
      });
  testing::Inbox<std::pair<kernels::Queue, Result<StepResult>>> done;
  const auto launch = [&](kernels::Queue which, std::vector<TokenId> tokens) {
    kernels::Launch launch;
    launch.plan.queue = which;
    RowRun run;
    run.sequence = *device->backend().arena().take_sequence();
    run.blocks = *device->backend().arena().take_blocks(1);
    run.tokens = std::move(tokens);
    run.sample = true;
    launch.fresh = {run.sequence};
    launch.plan.runs = {run};
    launch.done = [&done, which](kernels::CompletedStep step) {
      done.put({which, std::move(step.result)});
    };
    queue.launch(std::move(launch));
  };
  launch(kernels::Queue::kDecode, {300});
  for (int i = 0; i < 3; ++i) {
    launch(kernels::Queue::kPrefill, {300, 301, 302, 303});
  }
  auto came = done.wait(3);
  REQUIRE(came.size() == 3);
  for (const auto& [which, result] : came) {
    CHECK(which == kernels::Queue::kPrefill);
    REQUIRE(result.has_value());
    CHECK(result->runs[0].drawn.at(0).token == came[0].second->runs[0].drawn.at(0).token);
  }
  CHECK(held_back == 1);
  open_now = true;
  for (const auto& go_on : later) {
    go_on();
  }
  came = done.wait(4);
  REQUIRE(came.size() == 4);
  CHECK(came[3].first == kernels::Queue::kDecode);
  CHECK(came[3].second.has_value());
  shards.stop();
  queue.stop();
}

}  // namespace shoal
