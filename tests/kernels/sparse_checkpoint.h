// Writes safetensors files of any size without their data: holes read as zeros and take no disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/model/config.h"

namespace shoal::test {

struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

// Every text tensor of a model, from the tables of the format's description (model spec 4.2, 4.3).
std::vector<TensorSpec> official_tensors(const kernels::ModelConfig& config);

// Returns where in the file each tensor's data starts: at multiples of 8, except that the first one
// lies `shift` bytes behind.
std::map<std::string, std::int64_t> write_sparse(const std::filesystem::path& path,
                                                 const std::vector<TensorSpec>& tensors,
                                                 std::int64_t shift = 0);

// Overwrites bytes of an existing file.
void poke(const std::filesystem::path& path, std::int64_t offset, std::string_view bytes);

// The smallest configuration that has a KV source, as config.json; fields can be added or replaced.
std::string small_config(std::string_view extra_fields = "");

}  // namespace shoal::test
