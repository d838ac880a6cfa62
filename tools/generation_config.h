// The sampling a model's makers recommend (generation_config.json): what a client leaves out is
// taken from there.
#pragma once

#include <filesystem>

#include "schemas/result.h"
#include "schemas/sampling.h"

namespace shoal::tools {

// DIR/generation_config.json; without the file, the API's own defaults. do_sample false means
// greedy.
Result<Sampling> read_generation_config(const std::filesystem::path& directory);

}  // namespace shoal::tools
