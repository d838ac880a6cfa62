// A placement is a table of references; publishing shares what did not change.
#include "kernels/model/slot_engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/model/experts.h"
#include "kernels/model/weights.h"
#include "schemas/check.h"

namespace shoal::kernels {
namespace {

using Held = std::shared_ptr<const ExpertWeights>;
// Of each layer and slot; null: empty.
using Slots = std::vector<std::vector<Held>>;

struct Served {
  EpochId epoch;
  std::shared_ptr<const Slots> slots;
};

ExpertModel expert_model(const ModelConfig& c) {
  ExpertModel model;
  model.dim = c.dim;
  model.experts.assign(static_cast<std::size_t>(c.layers), static_cast<std::int32_t>(c.experts));
  model.experts.insert(model.experts.end(),
                       static_cast<std::size_t>(c.stages),
                       static_cast<std::int32_t>(c.draft_experts));
  return model;
}

class SlotEngine final : public ExpertEngine {
 public:
  SlotEngine(const ModelConfig& config,
             std::shared_ptr<const Checkpoint> checkpoint,
             const Ops& ops,
             const ExpertEngineLimits& limits)
      : config_(config),
        model_(expert_model(config)),
        checkpoint_(std::move(checkpoint)),
        ops_(ops),
        limits_(limits),
        next_(static_cast<std::size_t>(model_.layers()),
              std::vector<Held>(static_cast<std::size_t>(limits.slots))) {}

  const ExpertModel& model() const override { return model_; }

  Result<void> load(ExpertSlot slot, std::int32_t expert) override;
  Result<void> move(int layer, std::int32_t from, std::int32_t to) override;
  void clear(ExpertSlot slot) override;
  void publish(EpochId epoch) override;
  void retire() override;
  void run(std::span<ExpertJob> jobs) override;
  ExpertEngineUse use() const override;

 private:
  Result<void> check(ExpertSlot slot) const;
  Result<Held> held(int layer, std::int32_t expert);
  std::shared_ptr<const Slots> served(EpochId epoch) const;
  void add_pairs(ExpertJob& job, const Slots* slots, std::vector<ExpertPair>& pairs) const;

  const ModelConfig& config_;
  const ExpertModel model_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const Ops& ops_;
  const ExpertEngineLimits limits_;
  Slots next_;
  mutable std::mutex mutex_;  // guards what follows
  // By layer and expert: all that some placement holds.
  std::map<std::pair<int, std::int32_t>, std::weak_ptr<const ExpertWeights>> experts_;
  std::vector<Served> served_;  // at most two
};

Result<void> SlotEngine::check(ExpertSlot slot) const {
  if (slot.layer < 0 || slot.layer >= model_.layers() || slot.slot < 0 ||
      slot.slot >= limits_.slots) {
    return fail(Code::kNoCapacity,
                "slot " + std::to_string(slot.slot) + " of layer " + std::to_string(slot.layer) +
                    ": the shard has " + std::to_string(limits_.slots) + " slots in each of " +
                    std::to_string(model_.layers()) + " layers");
  }
  return {};
}

Result<void> SlotEngine::load(ExpertSlot slot, std::int32_t expert) {
  TRY_VOID(check(slot));
  TRY(next_[static_cast<std::size_t>(slot.layer)][static_cast<std::size_t>(slot.slot)],
      held(slot.layer, expert));
  return {};
}

Result<Held> SlotEngine::held(int layer, std::int32_t expert) {
  const std::pair key(layer, expert);
  {
    const std::lock_guard lock(mutex_);
    const auto found = experts_.find(key);
    if (found != experts_.end()) {
      if (Held known = found->second.lock()) {
        return known;
      }
    }
  }
  TRY(const ExpertWeights weights, load_expert(config_, *checkpoint_, layer, expert));
  if (use().weights + Bytes{expert_bytes(weights)} > limits_.weights) {
    return fail(Code::kNoCapacity,
                "the shard holds its ceiling of " + std::to_string(limits_.weights.value) +
                    " bytes of experts: give it more, or more shards");
  }
  auto loaded = std::make_shared<const ExpertWeights>(weights);
  const std::lock_guard lock(mutex_);
  experts_.insert_or_assign(key, loaded);
  return loaded;
}

Result<void> SlotEngine::move(int layer, std::int32_t from, std::int32_t to) {
  TRY_VOID(check({layer, from}));
  TRY_VOID(check({layer, to}));
  auto& slots = next_[static_cast<std::size_t>(layer)];
  slots[static_cast<std::size_t>(to)] =
      std::exchange(slots[static_cast<std::size_t>(from)], nullptr);
  return {};
}

void SlotEngine::clear(ExpertSlot slot) {
  if (check(slot)) {
    next_[static_cast<std::size_t>(slot.layer)][static_cast<std::size_t>(slot.slot)] = nullptr;
  }
}

void SlotEngine::publish(EpochId epoch) {
  auto slots = std::make_shared<const Slots>(next_);
  const std::lock_guard lock(mutex_);
  CHECK(served_.empty() || served_.back().epoch < epoch);
  served_.push_back({epoch, std::move(slots)});
  if (served_.size() > 2) {
    served_.erase(served_.begin());
  }
  std::erase_if(experts_, [](const auto& entry) { return entry.second.expired(); });
}

void SlotEngine::retire() {
  std::vector<Served> let_go;  // without the lock
  const std::lock_guard lock(mutex_);
  if (served_.size() > 1) {
    let_go.push_back(std::move(served_.front()));
    served_.erase(served_.begin());
  }
}

std::shared_ptr<const Slots> SlotEngine::served(EpochId epoch) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(served_, epoch, &Served::epoch);
  return found == served_.end() ? nullptr : found->slots;
}

// A job that asks for what is not here adds nothing.
void SlotEngine::add_pairs(ExpertJob& job,
                           const Slots* slots,
                           std::vector<ExpertPair>& pairs) const {
  if (slots == nullptr) {
    job.outcome = fail(Code::kPeerLost,
                       "the shard does not serve placement " + std::to_string(job.epoch.value));
    return;
  }
  if (job.layer < 0 || job.layer >= model_.layers() || job.dim != model_.dim) {
    job.outcome = fail(Code::kInvalid, "rows of another model");
    return;
  }
  const auto& layer = (*slots)[static_cast<std::size_t>(job.layer)];
  const std::size_t before = pairs.size();
  for (std::int64_t i = 0; i < job.pairs; ++i) {
    const auto slot = static_cast<std::size_t>(job.slot[i]);
    if (slot >= layer.size() || layer[slot] == nullptr) {
      pairs.resize(before);
      job.outcome = fail(
          Code::kPeerLost,
          "slot " + std::to_string(slot) + " of layer " + std::to_string(job.layer) + " is empty");
      return;
    }
    pairs.push_back({.expert = layer[slot].get(),
                     .codes = job.codes + job.row[i] * job.dim,
                     .scales = job.scales + job.row[i] * (job.dim / kGroup),
                     .weight = job.weight[i],
                     .out = job.outputs + i * job.dim});
  }
}

void SlotEngine::run(std::span<ExpertJob> jobs) {
  std::vector<std::shared_ptr<const Slots>> kept;  // while their experts run
  std::vector<ExpertPair> pairs;
  for (ExpertJob& job : jobs) {
    kept.push_back(served(job.epoch));
    add_pairs(job, kept.back().get(), pairs);
  }
  run_pairs(ops_, config_, std::move(pairs));
}

ExpertEngineUse SlotEngine::use() const {
  ExpertEngineUse use;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, expert] : experts_) {
    if (const Held held = expert.lock()) {
      ++use.experts;
      use.weights = use.weights + Bytes{expert_bytes(*held)};
    }
  }
  return use;
}

}  // namespace

std::unique_ptr<ExpertEngine> make_expert_engine(const ModelConfig& config,
                                                 std::shared_ptr<const Checkpoint> checkpoint,
                                                 const Ops& ops,
                                                 const ExpertEngineLimits& limits) {
  return std::make_unique<SlotEngine>(config, std::move(checkpoint), ops, limits);
}

}  // namespace shoal::kernels
