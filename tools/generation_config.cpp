// Reads the four fields that sampling knows; everything else in the file is for other programs.
#include "tools/generation_config.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace shoal::tools {

Result<Sampling> read_generation_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "generation_config.json";
  Sampling sampling;
  std::ifstream file(path);
  if (!file) {
    return sampling;
  }
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) {
    return fail(Code::kMisconfigured,
                path.string() + ": not a JSON object; restore the published file or remove it");
  }
  try {
    sampling.temperature = json.value("temperature", sampling.temperature);
    sampling.top_p = json.value("top_p", sampling.top_p);
    sampling.top_k = json.value("top_k", sampling.top_k);
    if (!json.value("do_sample", true)) {
      sampling.temperature = 0;
    }
  } catch (const nlohmann::json::exception& wrong) {
    return fail(Code::kMisconfigured, path.string() + ": " + wrong.what());
  }
  if (sampling.temperature < 0 || !(sampling.top_p > 0 && sampling.top_p <= 1) ||
      sampling.top_k < 0) {
    return fail(Code::kMisconfigured,
                path.string() + ": temperature must be >= 0, top_p in (0, 1], top_k >= 0");
  }
  return sampling;
}

}  // namespace shoal::tools
