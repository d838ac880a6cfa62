// One row per device.
#include "kernels/registry.h"

#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/expert_engine.h"
#include "kernels/model/model_backend.h"

namespace shoal::kernels {

namespace {

class CpuDevice final : public Device {
 public:
  CpuDevice(std::shared_ptr<const Model> model, const DeviceConfig& config)
      : model_(std::move(model)),
        pool_(config.threads),
        ops_(make_cpu_ops(pool_, config.sums)),
        profile_(config.profile_clock ? std::make_unique<ProfiledOps>(*ops_, config.profile_clock)
                                      : nullptr),
        experts_(*model_, ops()),
        backend_(*model_,
                 ops(),
                 pool_,
                 experts_,
                 BackendLimits{config.kv_blocks, config.sequences},
                 config.sums == SumPrecision::kDouble ? "cpu.1.double" : "cpu.1") {}

  Backend& backend() override { return backend_; }

  ProfiledOps* profile() override { return profile_.get(); }

 private:
  const Ops& ops() const {
    return profile_ == nullptr ? *ops_ : static_cast<const Ops&>(*profile_);
  }

  std::shared_ptr<const Model> model_;
  ComputePool pool_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ProfiledOps> profile_;
  LocalExperts experts_;
  ModelBackend backend_;
};

}  // namespace

std::vector<std::string_view> device_names() {
  return {"cpu"};
}

Result<std::unique_ptr<Device>> open_device(std::string_view name,
                                            const DeviceConfig& config,
                                            const LoadProgress& progress) {
  if (name != "cpu") {
    return fail(Code::kMisconfigured,
                "device '" + std::string(name) + "' is not in this build; known: cpu");
  }
  if (config.threads < 1 || config.kv_blocks < 1 || config.sequences < 1) {
    return fail(Code::kMisconfigured,
                "device cpu: threads, kv_blocks and sequences must be at least 1");
  }
  TRY(auto model, Model::load(config.model, progress));
  return std::make_unique<CpuDevice>(std::move(model), config);
}

}  // namespace shoal::kernels
