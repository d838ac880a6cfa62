// What the devices of a world compute: hashes, or a built-in model on CPU cores; and what it
// answers when nothing breaks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/model/model.h"
#include "kernels/registry.h"
#include "kernels/sim/sim_backend.h"
#include "schemas/basis.h"
#include "schemas/result.h"
#include "tests/sim/node_clients.h"

namespace shoal::sim {

struct DeviceModel {
  kernels::SimModel hashes{};
  std::shared_ptr<const kernels::Model> weights;  // null: hashes
};

// The model of that name under deploy/models, loaded once per process. kMisconfigured names those
// there are. One thread.
Result<std::shared_ptr<const kernels::Model>> built_in_model(const std::string& name);

// How far a row looks back.
Position window_of(const DeviceModel& model);

// A device's own KV memory and states; weights are shared.
std::shared_ptr<kernels::Backend> open_backend(const DeviceModel& model,
                                               const kernels::SimSize& size);
// Of weights only: one whose experts it runs itself, or yields at.
std::shared_ptr<kernels::Device> open_cpu_device(const DeviceModel& model,
                                                 const kernels::SimSize& size,
                                                 bool yields_experts);

// What a device that serves nobody else answers to `request` under `bases`, token by token.
// `context`: most tokens of prompt and answer.
std::vector<TokenId> true_answer(const DeviceModel& model,
                                 const testing::Wanted& request,
                                 const std::vector<testing::BasisFrom>& bases,
                                 Position context);

}  // namespace shoal::sim
