// Which device a configuration asks for and what it is opened with, as far as files say it without
// weights.
#pragma once

#include <memory>
#include <string>

#include "actors/codec/tokenizer.h"
#include "actors/config.h"
#include "kernels/registry.h"
#include "schemas/result.h"

namespace shoal::tools {

struct DevicePlan {
  std::string name;              // of its row
  kernels::DeviceConfig config;  // of each rank, all but the clocks of the process
  int ranks = 1;
  kernels::ModelShape shape;  // its numeric id left out
  std::string model_name;     // of what it runs, unless the configuration gives one
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the device has no use for one
};

// Errors name the device, file or field and what to do.
Result<DevicePlan> plan_device(const Config& config);

}  // namespace shoal::tools
