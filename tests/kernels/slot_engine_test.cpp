// Slots of an expert shard: what they hold by placement, what that costs, what is refused.
#include "kernels/model/slot_engine.h"

#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/model/experts.h"
#include "tests/kernels/cpu_under_test.h"

namespace shoal::kernels {
namespace {

const std::shared_ptr<const Model>& guppy() {
  static const auto model = Model::load(std::string(SHOAL_MODELS_DIR) + "/guppy");
  REQUIRE(model.has_value());
  return *model;
}

// Rows of one layer for slots of an engine, with memory for what comes back.
struct Rows {
  Rows(int layer, std::vector<std::int32_t> slots, std::uint8_t salt, EpochId epoch = EpochId{1})
      : slot(std::move(slots)),
        row(slot.size()),
        weight(slot.size(), 0.75F),
        x(static_cast<std::int64_t>(slot.size()), guppy()->config.dim),
        outputs(slot.size() * static_cast<std::size_t>(guppy()->config.dim)) {
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < x.codes.size(); ++i) {
      x.codes[i] = static_cast<std::uint8_t>((i * 7 + salt) % 120);
    }
    std::fill(x.scales.begin(), x.scales.end(), 120);
    job = {.epoch = epoch,
           .layer = layer,
           .dim = guppy()->config.dim,
           .pairs = static_cast<std::int64_t>(slot.size()),
           .row = row.data(),
           .slot = slot.data(),
           .weight = weight.data(),
           .codes = x.codes.data(),
           .scales = x.scales.data(),
           .outputs = outputs.data()};
  }

  // What expert_at[slot] makes of the rows, without an engine.
  std::vector<Bf16> expected(const Ops& ops, const std::vector<std::int32_t>& expert_at) {
    std::vector<std::int32_t> experts;
    for (const std::int32_t s : slot) {
      experts.push_back(expert_at[static_cast<std::size_t>(s)]);
    }
    std::vector<Bf16> out(outputs.size());
    Exchange exchange{
        job.layer, job.pairs, 1, job.dim, x.view(), experts.data(), weight.data(), out.data()};
    LocalExperts(*guppy(), ops).run(exchange);
    return out;
  }

  std::vector<std::int32_t> slot;
  std::vector<std::int32_t> row;
  std::vector<float> weight;
  test::OwnedQuantRows x;
  std::vector<Bf16> outputs;
  ExpertJob job;
};

struct EngineUnderTest {
  explicit EngineUnderTest(const ExpertEngineLimits& limits = {.slots = 4,
                                                               .weights = Bytes{1 << 30}})
      : cpu(SumPrecision::kSingle),
        engine(make_expert_engine(guppy()->config, guppy()->weights.checkpoint, *cpu.ops, limits)) {
  }

  void load(int layer, const std::vector<std::int32_t>& expert_at) {
    for (std::size_t slot = 0; slot < expert_at.size(); ++slot) {
      REQUIRE(engine->load({layer, static_cast<std::int32_t>(slot)}, expert_at[slot]).has_value());
    }
  }

  void run(std::vector<Rows*> rows) {
    std::vector<ExpertJob> jobs;
    for (Rows* r : rows) {
      jobs.push_back(r->job);
    }
    engine->run(jobs);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i]->job.outcome = jobs[i].outcome;
    }
  }

  test::CpuUnderTest cpu;
  std::unique_ptr<ExpertEngine> engine;
};

}  // namespace

TEST_CASE("a shard's outputs are the device's own, whoever else is in the run, stages included") {
  EngineUnderTest shard;
  const std::vector<std::int32_t> backbone{5, 0, 15};
  const std::vector<std::int32_t> stage{7, 2};
  shard.load(2, backbone);
  shard.load(8, stage);
  shard.engine->publish(EpochId{1});
  Rows alone(2, {0, 1, 2, 0}, 3);
  shard.run({&alone});
  CHECK(alone.outputs == alone.expected(*shard.cpu.ops, backbone));
  Rows again(2, {0, 1, 2, 0}, 3);
  Rows other(2, {2, 2, 0}, 9);
  Rows of_stage(8, {1, 0, 0}, 11);
  shard.run({&other, &of_stage, &again});
  CHECK(again.outputs == alone.outputs);
  CHECK(other.outputs == other.expected(*shard.cpu.ops, backbone));
  CHECK(of_stage.outputs == of_stage.expected(*shard.cpu.ops, stage));
}

TEST_CASE("a shard holds the weights of its slots alone, each expert once") {
  EngineUnderTest shard;
  shard.load(0, {3, 3, 4});
  shard.load(1, {3});
  const ModelConfig& c = guppy()->config;
  const std::int64_t expert = 3 * c.inter * c.dim / 2 + 3 * c.inter * c.dim / kGroup;
  CHECK(shard.engine->use().experts == 3);
  CHECK(shard.engine->use().weights == Bytes{3 * expert});
}

TEST_CASE("the placement before is served beside the newest, an older one is not, nor a later") {
  EngineUnderTest shard;
  shard.load(1, {1, 2});
  shard.engine->publish(EpochId{1});
  REQUIRE(shard.engine->move(1, 1, 3).has_value());
  REQUIRE(shard.engine->load({1, 0}, 9).has_value());
  CHECK(shard.engine->use().experts == 3);  // 1 is served still
  shard.engine->publish(EpochId{2});
  Rows before(1, {0, 1}, 1, EpochId{1});
  Rows now(1, {0, 3}, 1, EpochId{2});
  Rows moved_away(1, {1}, 1, EpochId{2});
  Rows later(1, {0}, 1, EpochId{3});
  shard.run({&before, &now, &moved_away, &later});
  CHECK(before.outputs == before.expected(*shard.cpu.ops, {1, 2}));
  CHECK(now.outputs == now.expected(*shard.cpu.ops, {9, -1, -1, 2}));
  CHECK(moved_away.job.outcome.error().code == Code::kPeerLost);
  CHECK(later.job.outcome.error().code == Code::kPeerLost);
  shard.engine->publish(EpochId{3});
  CHECK(shard.engine->use().experts == 2);
  shard.run({&before});
  CHECK(before.job.outcome.error().code == Code::kPeerLost);
}

TEST_CASE("what a shard cannot hold or run is refused by name, and changes nothing") {
  const std::int64_t one = 3 * guppy()->config.inter * guppy()->config.dim * 17 / 32;
  EngineUnderTest shard({.slots = 2, .weights = Bytes{2 * one}});
  shard.load(0, {0, 1});
  CHECK(shard.engine->load({0, 2}, 1).error().code == Code::kNoCapacity);
  CHECK(shard.engine->load({9, 0}, 1).error().code == Code::kNoCapacity);
  CHECK(shard.engine->load({0, 0}, 16).error().code == Code::kInvalid);
  CHECK(shard.engine->load({8, 0}, 8).error().code == Code::kInvalid);
  const auto full = shard.engine->load({0, 0}, 2);
  CHECK(full.error().code == Code::kNoCapacity);
  CHECK(full.error().message.find("give it more") != std::string::npos);
  shard.engine->publish(EpochId{1});
  Rows rows(0, {0, 1}, 1);
  shard.run({&rows});
  CHECK(rows.outputs == rows.expected(*shard.cpu.ops, {0, 1}));
}

}  // namespace shoal::kernels
