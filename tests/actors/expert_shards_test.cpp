// The model with its experts on shards: the same bits as on one device, whatever the placement, and
// a step that is lost as a whole when a shard is.
#include "actors/expert_shards.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "actors/shard_group.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/draft.h"
#include "kernels/model/experts.h"
#include "kernels/registry.h"
#include "tests/transport/step_scheduler.h"
#include "tests/transport/waits.h"
#include "transport/experts/shard_exchange.h"
#include "transport/sim/sim_experts.h"
#include "transport/thread_scheduler.h"

namespace shoal {
namespace {

using kernels::RowRun;
using kernels::StepResult;
using kernels::WantLogits;
using testing::StepScheduler;
using transport::ExpertExchange;

const std::string kGuppy = std::string(SHOAL_MODELS_DIR) + "/guppy";
constexpr std::size_t kTogether = 8;  // sequences of a step

std::unique_ptr<kernels::Device> open_device(bool yields) {
  kernels::DeviceConfig config;
  config.model = kGuppy;
  config.kv_blocks = 64;
  config.sequences = 16;
  config.yields_experts = yields;
  auto opened = kernels::open_device("cpu", config);
  REQUIRE(opened.has_value());
  return *std::move(opened);
}

using MakeExchange = std::function<std::unique_ptr<ExpertExchange>(transport::Scheduler)>;

// A device whose experts are its own or on shards; time passes only as a step needs it.
struct Bed {
  // On the device itself.
  Bed() : device(open_device(false)) {}

  // Without `make`: in this process.
  explicit Bed(const ExpertShardsSetup& setup, const MakeExchange& make = {})
      : device(open_device(true)) {
    auto exchange = make ? make(time.port())
                         : transport::make_shard_exchange({.self = {}, .timers = time.port()});
    auto opened = ExpertShards::open(
        setup,
        [this](const auto& limits) { return device->make_expert_engine(limits); },
        std::move(exchange),
        time.port());
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    shards = *std::move(opened);
  }

  // `between` is called at each exchange, before anything of it has run.
  Result<StepResult> step(std::vector<RowRun> runs) {
    kernels::StepPlan plan;
    plan.runs = std::move(runs);
    TRY(auto step, device->backend().begin(std::move(plan)));
    while (device->backend().advance(*step) == kernels::StepYield::kNeedsExchange) {
      Result<void> outcome = fail(Code::kInternal, "never completed");
      shards->runner()(device->backend().exchange(*step),
                       [&](Result<void> done) { outcome = std::move(done); });
      if (between) {
        between();
      }
      time.run_all();
      TRY_VOID(outcome);
    }
    return device->backend().take(*step);
  }

  StepScheduler time;
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<ExpertShards> shards;
  std::function<void()> between;
};

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
};

std::vector<Golden> golden_prompts(std::size_t most = 60) {
  std::ifstream file(kGuppy + "/golden.jsonl");
  std::vector<Golden> out;
  for (std::string line; out.size() < most && std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    out.push_back({json["prompt_ids"].get<std::vector<TokenId>>(),
                   json["output_ids"].get<std::vector<TokenId>>()});
  }
  REQUIRE(out.size() == most);
  return out;
}

// A sequence that is fed a golden text.
struct Fed {
  std::vector<TokenId> tokens;
  std::size_t prompt = 0;
  RowRun run;
  Position done = 0;
  std::vector<float> logits;
};

Fed open(Bed& bed, const Golden& golden) {
  Fed fed;
  fed.tokens = golden.prompt;
  fed.prompt = golden.prompt.size();
  fed.tokens.insert(fed.tokens.end(), golden.output.begin(), golden.output.end());
  kernels::KvArena& arena = bed.device->backend().arena();
  fed.run.sequence = *arena.take_sequence();
  fed.run.blocks = *arena.take_blocks(
      (static_cast<std::int64_t>(fed.tokens.size()) + kBlockTokens - 1) / kBlockTokens);
  bed.device->backend().reset_sequence(fed.run.sequence);
  fed.run.logits = WantLogits::kAll;
  return fed;
}

void close(Bed& bed, const Fed& fed) {
  bed.device->backend().arena().give_sequence(fed.run.sequence);
  bed.device->backend().arena().give_blocks(fed.run.blocks);
}

// The next rows: a chunk of the prompt, or one token of the answer.
RowRun next_run(Fed& fed, std::mt19937_64& random) {
  const std::size_t left = fed.tokens.size() - static_cast<std::size_t>(fed.done);
  const std::size_t chunk = static_cast<std::size_t>(fed.done) < fed.prompt
                                ? std::min<std::size_t>(1 + random() % 40, left)
                                : 1;
  fed.run.first = fed.done;
  fed.run.tokens.assign(fed.tokens.begin() + fed.done,
                        fed.tokens.begin() + fed.done + static_cast<std::ptrdiff_t>(chunk));
  fed.done += static_cast<Position>(chunk);
  return fed.run;
}

// Logits of every row of all texts, fed in chunks drawn from the seed, several in each step.
std::vector<std::vector<float>> all_logits(Bed& bed,
                                           const std::vector<Golden>& texts,
                                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> out;
  for (std::size_t first = 0; first < texts.size(); first += kTogether) {
    std::vector<Fed> open_texts;
    for (std::size_t i = first; i < std::min(first + kTogether, texts.size()); ++i) {
      open_texts.push_back(open(bed, texts[i]));
    }
    while (true) {
      std::vector<RowRun> runs;
      std::vector<Fed*> of_run;
      for (Fed& fed : open_texts) {
        if (static_cast<std::size_t>(fed.done) < fed.tokens.size()) {
          runs.push_back(next_run(fed, random));
          of_run.push_back(&fed);
        }
      }
      if (runs.empty()) {
        break;
      }
      const auto result = bed.step(std::move(runs));
      REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
      for (std::size_t i = 0; i < of_run.size(); ++i) {
        const auto& rows = result->runs[i].logits;
        of_run[i]->logits.insert(of_run[i]->logits.end(), rows.begin(), rows.end());
      }
    }
    for (Fed& fed : open_texts) {
      close(bed, fed);
      out.push_back(std::move(fed.logits));
    }
  }
  return out;
}

// Any slots for every expert, replicas of any in what is left, some empty.
std::vector<ExpertLayer> drawn_layers(std::vector<ExpertLayer> layers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (ExpertLayer& layer : layers) {
    const std::int32_t experts = layer.shape.experts;
    for (std::int32_t slot = 0; slot < layer.shape.all_slots(); ++slot) {
      layer.expert_at[static_cast<std::size_t>(slot)] =
          slot < experts ? slot : static_cast<std::int32_t>(random() % (experts + 1)) - 1;
    }
    std::shuffle(layer.expert_at.begin(), layer.expert_at.end(), random);
  }
  return layers;
}

}  // namespace

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

TEST_CASE("experts move while steps run, and neither a step nor a bit is lost") {
  const std::vector<Golden> texts = golden_prompts(8);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  Bed bed({.shards = 4, .redundant = 1});
  std::uint64_t moves = 0;
  bed.between = [&] {
    if (++moves % 5 == 0) {
      REQUIRE(bed.shards->place(drawn_layers(bed.shards->placement().layers, moves)).has_value());
    }
  };
  CHECK(all_logits(bed, texts, 4) == expected);
  CHECK(bed.shards->placement().epoch.value > 20);
}

TEST_CASE("a placement that does not serve all experts, or does not fit, changes nothing") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 2});
  auto lacking = bed.shards->placement().layers;
  lacking[4].expert_at[3] = kEmptySlot;
  CHECK(bed.shards->place(lacking).error().code == Code::kInvalid);
  auto large = *even_layers(bed.device->make_expert_engine({}).value()->model(), 2, 5);
  CHECK(bed.shards->place(large).error().code == Code::kNoCapacity);
  CHECK(bed.shards->placement().epoch == EpochId{1});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("a placement that is not loaded in time changes nothing, and the next one works") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  const auto held = bed.shards->use(1);
  const auto layers = drawn_layers(bed.shards->placement().layers, 7);
  bed.time.run_for(std::chrono::seconds(1));
  const auto late = bed.shards->place(layers, bed.time.now() - Nanos{1});
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == Code::kDeadline);
  CHECK(bed.shards->placement().epoch == EpochId{1});
  CHECK(bed.shards->use(1).weights == held.weights);
  REQUIRE(bed.shards->place(layers, bed.time.now()).has_value());
  CHECK(bed.shards->placement().epoch == EpochId{2});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("what a placement that fails half-way had loaded is let go, and steps notice nothing") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  const auto expected = all_logits(local, texts, 1);
  const Bytes needed = Bed({.shards = 4}).shards->use(0).weights;
  // Room for a fifth of the experts beside those that are served.
  Bed bed({.shards = 4, .weights = Bytes{needed.value * 6 / 5}});
  const auto before = bed.shards->placement().layers;
  const auto others = drawn_layers(before, 3);
  for (int again = 0; again < 3; ++again) {
    const auto placed = bed.shards->place(others);
    REQUIRE_FALSE(placed.has_value());
    CHECK(placed.error().code == Code::kNoCapacity);
    CHECK(bed.shards->placement().epoch == EpochId{1});
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      CHECK(bed.shards->use(shard).weights == needed);
    }
  }
  CHECK(all_logits(bed, texts, 2) == expected);
  REQUIRE(bed.shards->place(before).has_value());
  CHECK(all_logits(bed, texts, 3) == expected);
}

TEST_CASE("no placement is taken from steps that are still on the way by it") {
  const std::vector<Golden> texts = golden_prompts(2);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  int refused = 0;
  std::uint64_t seed = 0;
  bed.between = [&] {
    const auto layers = bed.shards->placement().layers;
    CHECK(bed.shards->place(drawn_layers(layers, ++seed)).has_value());
    const auto second = bed.shards->place(drawn_layers(layers, ++seed));
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == Code::kUnavailable);
    ++refused;
  };
  const auto logits = all_logits(bed, texts, 1);
  bed.between = nullptr;
  CHECK(logits == all_logits(local, texts, 1));
  CHECK(refused > 20);
  CHECK(bed.shards->exchange_use().failed == 0);
}

TEST_CASE("placements from one thread and shards that die and come back from another end well") {
  const std::vector<Golden> texts = golden_prompts(1);
  Bed local;
  Bed bed({.shards = 4, .redundant = 1});
  const auto layers = bed.shards->placement().layers;
  std::atomic<int> placed = 0;
  std::thread placing([&] {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      placed += bed.shards->place(drawn_layers(layers, seed)).has_value() ? 1 : 0;
    }
  });
  for (std::uint32_t i = 0; i < 60; ++i) {
    bed.shards->end(i % 4);
    CHECK(bed.shards->restore(i % 4).has_value());
  }
  placing.join();
  CHECK(placed == 40);
  CHECK(bed.shards->placement().epoch == EpochId{41});
  CHECK(all_logits(bed, texts, 1) == all_logits(local, texts, 1));
}

TEST_CASE("as a group to balance, shards load in the background and say what came of it") {
  Bed bed({.shards = 4, .redundant = 1});
  StepScheduler background;
  ShardGroup group(*bed.shards, background.port());
  const auto layers = drawn_layers(group.placement().layers, 5);
  std::vector<Result<EpochId>> ends;
  const auto place = [&](std::vector<ExpertLayer> wanted, Instant deadline) {
    group.place(std::move(wanted), deadline, [&](Result<EpochId> end) { ends.push_back(end); });
  };
  place(layers, bed.time.now());
  CHECK(ends.empty());
  CHECK(group.placement().epoch == EpochId{1});
  background.run_all();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0] == EpochId{2});
  CHECK(group.placement().layers[4].expert_at == layers[4].expert_at);
  bed.time.run_for(std::chrono::seconds(1));
  place(drawn_layers(layers, 6), bed.time.now() - Nanos{1});
  background.run_all();
  REQUIRE(ends.size() == 2);
  CHECK(ends[1].error().code == Code::kDeadline);
  CHECK(group.placement().epoch == EpochId{2});
  std::int64_t experts = 0;
  Bytes weights{0};
  for (std::uint32_t shard = 0; shard < 4; ++shard) {
    experts += bed.shards->use(shard).experts;
    weights = weights + bed.shards->use(shard).weights;
  }
  CHECK(group.expert_bytes() == Bytes{weights.value / experts});
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

// Takes what is dispatched, and answers nothing.
class Kept final : public ExpertExchange {
 public:
  void dispatch(Dispatch dispatch, Combined done) override {
    dispatches.push_back(std::move(dispatch));
    done(fail(Code::kUnavailable, "kept"));
  }

  void abort_before(EpochId) override {}

  void lose(NodeId) override {}

  void serve(std::uint32_t, transport::Scheduler, transport::ExpertWork) override {}

  void end(std::uint32_t) override {}

  void stop() override {}

  Use use() const override { return {}; }

  std::vector<Dispatch> dispatches;
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
