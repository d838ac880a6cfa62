// A checkpoint directory in the official format: safetensors files, mapped read-only, index file
// optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/model/safetensors.h"
#include "schemas/result.h"

namespace shoal::kernels {

// Called as files are mapped: bytes so far, bytes in all. May be empty.
using LoadProgress = std::function<void(std::int64_t, std::int64_t)>;

// All files of a model directory: those of model.safetensors.index.json if it exists, else every
// *.safetensors.
class Checkpoint {
 public:
  static Result<std::shared_ptr<const Checkpoint>> open(const std::filesystem::path& directory,
                                                        const LoadProgress& progress = {});

  // The tensor and the name of its file, for error messages; null if there is none.
  struct Found {
    const Tensor* tensor = nullptr;
    const std::filesystem::path* file = nullptr;
  };

  Found find(std::string_view name) const;

  const std::filesystem::path& directory() const { return directory_; }

  std::int64_t bytes() const { return bytes_; }

  std::size_t tensor_count() const { return tensors_.size(); }

 private:
  Result<void> add(SafetensorsFile file);

  std::filesystem::path directory_;
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string_view, Found> tensors_;  // keys and targets live in files_
  std::int64_t bytes_ = 0;
};

}  // namespace shoal::kernels
