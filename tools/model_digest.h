// Which model it is, by the files that it is made of.
#pragma once

#include <string>

#include "schemas/result.h"
#include "tools/device_plan.h"

namespace shoal::tools {

// SHA-256 in hex. Config and weights are empty where the device reads no model.
struct ModelDigests {
  std::string config;
  std::string weights;
  std::string tokenizer;
};

// Reads the ends of large files only, so it takes milliseconds: of each file of weights its name,
// size and header, and the first and the last bytes of its data. Errors name the file.
Result<ModelDigests> digest_model(const DevicePlan& plan);

// Equal for nodes that run the same; devices that read the same model may differ in their name.
Result<std::string> model_identity(const DevicePlan& plan);

}  // namespace shoal::tools
