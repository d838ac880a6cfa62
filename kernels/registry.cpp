// One row per device.
#include "kernels/registry.h"

#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/model/experts.h"
#include "kernels/model/model_backend.h"
#include "kernels/model/slot_engine.h"
#include "kernels/sim/sim_backend.h"
#include "kernels/sim/timed_backend.h"

namespace shoal::kernels {

namespace {

std::unique_ptr<ExpertPort> make_experts(const Model& model, const Ops& ops, bool yields) {
  if (yields) {
    return std::make_unique<YieldedExperts>();
  }
  return std::make_unique<LocalExperts>(model, ops);
}

std::string cpu_numeric_id(SumPrecision sums) {
  return sums == SumPrecision::kDouble ? "cpu.2.double" : "cpu.2";
}

class CpuDevice final : public Device {
 public:
  CpuDevice(std::shared_ptr<const Model> model,
            const cpu::LaneKernels& lanes,
            const DeviceConfig& config)
      : model_(std::move(model)),
        pool_(config.threads),
        ops_(make_cpu_ops(pool_, config.sums, lanes)),
        profile_(config.profile_clock ? std::make_unique<ProfiledOps>(*ops_, config.profile_clock)
                                      : nullptr),
        experts_(make_experts(*model_, ops(), config.yields_experts)),
        backend_(
            *model_,
            ops(),
            pool_,
            *experts_,
            BackendLimits{config.kv_blocks, config.sequences, config.drafts, config.acceptance},
            cpu_numeric_id(config.sums)) {}

  Backend& backend() override { return backend_; }

  ProfiledOps* profile() override { return profile_.get(); }

  Result<std::unique_ptr<ExpertEngine>> make_expert_engine(
      const ExpertEngineLimits& limits) override {
    return kernels::make_expert_engine(model_->config, model_->weights.checkpoint, ops(), limits);
  }

 private:
  const Ops& ops() const {
    return profile_ == nullptr ? *ops_ : static_cast<const Ops&>(*profile_);
  }

  std::shared_ptr<const Model> model_;
  ComputePool pool_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ProfiledOps> profile_;
  std::unique_ptr<ExpertPort> experts_;
  ModelBackend backend_;
};

class CpuExperts final : public ExpertDevice {
 public:
  CpuExperts(ModelConfig model,
             std::shared_ptr<const Checkpoint> checkpoint,
             const cpu::LaneKernels& lanes,
             const DeviceConfig& config)
      : model_(std::move(model)),
        checkpoint_(std::move(checkpoint)),
        sums_(config.sums),
        pool_(config.threads),
        ops_(make_cpu_ops(pool_, config.sums, lanes)) {}

  std::string numeric_id() const override { return cpu_numeric_id(sums_); }

  Result<std::unique_ptr<ExpertEngine>> make_expert_engine(
      const ExpertEngineLimits& limits) override {
    return kernels::make_expert_engine(model_, checkpoint_, *ops_, limits);
  }

 private:
  const ModelConfig model_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const SumPrecision sums_;
  ComputePool pool_;
  const std::unique_ptr<Ops> ops_;
};

tl::unexpected<Error> no_sim_experts() {
  return fail(Code::kMisconfigured,
              "the device sim has no experts: leave experts.shards at 0 and give no node the role "
              "experts, or take the device cpu");
}

class SimDevice final : public Device {
 public:
  explicit SimDevice(const DeviceConfig& config)
      : backend_(config.sim.model, {.blocks = config.kv_blocks, .sequences = config.sequences}),
        timed_(backend_, config.sim.cost, config.sim.time) {}

  Backend& backend() override { return timed_; }

  ProfiledOps* profile() override { return nullptr; }

  Result<std::unique_ptr<ExpertEngine>> make_expert_engine(const ExpertEngineLimits&) override {
    return no_sim_experts();
  }

 private:
  SimBackend backend_;
  TimedBackend timed_;
};

Result<ModelShape> cpu_shape(const DeviceConfig& config) {
  TRY(const ModelConfig model, read_config(config.model));
  return model_shape(model, "");
}

Result<std::unique_ptr<Device>> open_cpu(const DeviceConfig& config, const LoadProgress& progress) {
  TRY(const cpu::LaneKernels* lanes, cpu::find_lane_kernels(config.instructions));
  std::shared_ptr<const Model> weights = config.weights;
  if (weights == nullptr) {
    TRY(weights, Model::load(config.model, progress));
  }
  return std::make_unique<CpuDevice>(std::move(weights), *lanes, config);
}

Result<ModelShape> shape_of_sim(const DeviceConfig& config) {
  ModelShape shape = sim_shape(config.sim.model);
  shape.numeric_id.clear();
  return shape;
}

Result<std::unique_ptr<Device>> open_sim(const DeviceConfig& config, const LoadProgress&) {
  return std::make_unique<SimDevice>(config);
}

Result<std::unique_ptr<ExpertDevice>> open_cpu_experts(const DeviceConfig& config) {
  TRY(const cpu::LaneKernels* lanes, cpu::find_lane_kernels(config.instructions));
  TRY(ModelConfig model, read_config(config.model));
  TRY(auto checkpoint, Checkpoint::open(config.model));
  return std::make_unique<CpuExperts>(std::move(model), std::move(checkpoint), *lanes, config);
}

Result<std::unique_ptr<ExpertDevice>> open_sim_experts(const DeviceConfig&) {
  return no_sim_experts();
}

struct Row {
  DeviceKind kind;
  Result<ModelShape> (*shape)(const DeviceConfig&);
  Result<std::unique_ptr<Device>> (*open)(const DeviceConfig&, const LoadProgress&);
  Result<std::unique_ptr<ExpertDevice>> (*open_experts)(const DeviceConfig&);
};

constexpr Row kRows[] = {
    {{.name = "cpu", .reads_model = true}, cpu_shape, open_cpu, open_cpu_experts},
    {{.name = "sim", .reads_model = false}, shape_of_sim, open_sim, open_sim_experts},
};

Result<const Row*> find_row(std::string_view name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.kind.name == name) {
      return &row;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.kind.name);
  }
  return fail(Code::kMisconfigured,
              "device '" + std::string(name) + "' is not in this build; known: " + known);
}

}  // namespace

std::vector<std::string_view> device_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    names.push_back(row.kind.name);
  }
  return names;
}

Result<DeviceKind> find_device(std::string_view name) {
  TRY(const Row* row, find_row(name));
  return row->kind;
}

Result<ModelShape> device_shape(std::string_view name, const DeviceConfig& config) {
  TRY(const Row* row, find_row(name));
  return row->shape(config);
}

Result<std::unique_ptr<Device>> open_device(std::string_view name,
                                            const DeviceConfig& config,
                                            const LoadProgress& progress) {
  TRY(const Row* row, find_row(name));
  if (config.threads < 1 || config.kv_blocks < 1 || config.sequences < 1) {
    return fail(
        Code::kMisconfigured,
        "device " + std::string(name) + ": threads, kv_blocks and sequences must be at least 1");
  }
  return row->open(config, progress);
}

Result<std::vector<std::unique_ptr<Device>>> open_devices(std::string_view name,
                                                          DeviceConfig config,
                                                          int count,
                                                          const LoadProgress& progress) {
  TRY(const Row* row, find_row(name));
  if (row->kind.reads_model && config.weights == nullptr) {
    TRY(config.weights, Model::load(config.model, progress));
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    TRY(devices.emplace_back(), open_device(name, config));
  }
  return devices;
}

Result<std::unique_ptr<ExpertDevice>> open_expert_device(std::string_view name,
                                                         const DeviceConfig& config) {
  TRY(const Row* row, find_row(name));
  if (config.threads < 1) {
    return fail(Code::kMisconfigured,
                "device " + std::string(name) + ": threads must be at least 1");
  }
  return row->open_experts(config);
}

}  // namespace shoal::kernels
