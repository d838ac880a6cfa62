// A loaded model: config, weights, rotation tables and Engram constants. Immutable after load;
// shared by every step of the process.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/model/checkpoint.h"
#include "kernels/model/config.h"
#include "kernels/model/engram.h"
#include "kernels/model/weights.h"
#include "schemas/result.h"

namespace shoal::kernels {

struct Model {
  ModelConfig config;
  ModelWeights weights;
  Engram engram;
  std::vector<float> window_freqs;      // layers of ratio 0 and the drafter
  std::vector<float> compressed_freqs;  // every layer of ratio > 0, for everything it rotates

  const std::vector<float>& freqs(int layer) const {
    return config.ratios[static_cast<std::size_t>(layer)] > 0 ? compressed_freqs : window_freqs;
  }

  // Errors name the file and field and what to do.
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& directory,
                                                   const LoadProgress& progress = {});
};

}  // namespace shoal::kernels
