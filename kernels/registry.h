// Which devices this build knows, by name: the only place that names concrete backends.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/expert_engine.h"
#include "kernels/model/checkpoint.h"
#include "kernels/profiled_ops.h"
#include "kernels/rejection.h"
#include "kernels/sim/sim_backend.h"
#include "kernels/sim/timed_backend.h"
#include "kernels/sum_precision.h"
#include "schemas/result.h"

namespace shoal::kernels {

struct Model;

// What a device that reads no model is told instead.
struct SimDeviceConfig {
  SimModel model;
  StepCost cost;
  DeviceTime time;
};

struct DeviceConfig {
  std::filesystem::path model;           // HF directory
  std::shared_ptr<const Model> weights;  // set: loaded already, `model` is not read
  int threads = 1;                       // compute pool, the advancing thread included
  std::string instructions = "auto";     // a row of the CPU's kernels; auto: the best there is
  std::int64_t kv_blocks = 0;            // ceiling, blocks of kBlockTokens tokens
  std::int64_t sequences = 0;            // ceiling, sequences with state at a time
  bool drafts = true;                    // false: DSpark stages are not run
  Acceptance acceptance = Acceptance::kCoupled;
  SumPrecision sums = SumPrecision::kSingle;
  std::function<Instant()> profile_clock;  // set: every operator is timed on it
  // False: the device runs its experts itself, inside a step (the exchange row `local`). True:
  // steps yield at each layer's experts, and whoever runs the steps has them run elsewhere.
  bool yields_experts = false;
  SimDeviceConfig sim;
};

// A model on a device, ready to run steps. Owns weights, pool and arena.
class Device {
 public:
  virtual ~Device() = default;
  virtual Backend& backend() = 0;
  // Null unless a profile clock was given and the device has operators.
  virtual ProfiledOps* profile() = 0;
  // Slots for experts of the device's model, run on its pool. The device outlives it.
  // kMisconfigured: it has no experts.
  virtual Result<std::unique_ptr<ExpertEngine>> make_expert_engine(
      const ExpertEngineLimits& limits) = 0;
};

// The experts of a device's model without the rest of it: for processes with expert shards alone.
class ExpertDevice {
 public:
  virtual ~ExpertDevice() = default;
  // As the device's; outputs of equal ones are equal.
  virtual std::string numeric_id() const = 0;
  // Reads weights of experts only as they are loaded. Outlives it.
  virtual Result<std::unique_ptr<ExpertEngine>> make_expert_engine(
      const ExpertEngineLimits& limits) = 0;
};

struct DeviceKind {
  std::string_view name;
  bool reads_model = true;  // DeviceConfig::model; otherwise it is DeviceConfig::sim that counts
};

std::vector<std::string_view> device_names();
// kMisconfigured names what exists.
Result<DeviceKind> find_device(std::string_view name);
// The shape that the opened device would have, its numeric id left out: what nodes without a
// device need of the model. Reads no weights.
Result<ModelShape> device_shape(std::string_view name, const DeviceConfig& config);
// kMisconfigured names what exists when `name` does not, or what is wrong with the model directory.
Result<std::unique_ptr<Device>> open_device(std::string_view name,
                                            const DeviceConfig& config,
                                            const LoadProgress& progress = {});
// So many of them, which share their weights.
Result<std::vector<std::unique_ptr<Device>>> open_devices(std::string_view name,
                                                          DeviceConfig config,
                                                          int count,
                                                          const LoadProgress& progress = {});
// Errors likewise; kMisconfigured: it has no experts.
Result<std::unique_ptr<ExpertDevice>> open_expert_device(std::string_view name,
                                                         const DeviceConfig& config);

}  // namespace shoal::kernels
