// shoal models: the model directories under a folder, with what can be told from their config.
// shoal version.
#include <cstdio>
#include <filesystem>

#include "kernels/model/config.h"
#include "tools/commands.h"

namespace shoal::tools {

namespace {

void print_model(const std::filesystem::path& directory) {
  const auto config = kernels::read_config(directory);
  if (!config) {
    std::printf(
        "%-16s not usable: %s\n", directory.filename().c_str(), config.error().message.c_str());
    return;
  }
  std::printf("%-16s %d layers, %lld experts, hidden %lld, vocabulary %lld, %lld positions  %s\n",
              directory.filename().c_str(),
              config->layers,
              static_cast<long long>(config->experts),
              static_cast<long long>(config->dim),
              static_cast<long long>(config->vocab),
              static_cast<long long>(config->max_positions),
              directory.c_str());
}

}  // namespace

int run_models(const std::string& directory) {
  std::error_code failed;
  std::filesystem::directory_iterator entries(directory, failed);
  if (failed) {
    return report(Error{
        Code::kMisconfigured,
        directory + ": " + failed.message() + "; name a folder that holds model directories"});
  }
  int found = 0;
  for (const auto& entry : entries) {
    if (std::filesystem::exists(entry.path() / "config.json", failed)) {
      print_model(entry.path());
      ++found;
    }
  }
  if (found == 0) {
    return report(Error{
        Code::kMisconfigured,
        directory + ": no model directory in it (a folder with config.json and *.safetensors)"});
  }
  return 0;
}

int run_version() {
  std::puts(kVersionLine);
  return 0;
}

}  // namespace shoal::tools
