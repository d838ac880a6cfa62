// A checkpoint directory in the official format: safetensors files, mapped read-only, index file optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schemas/result.h"

namespace shoal::kernels {

enum class Dtype : std::uint8_t { kF64, kF32, kF16, kBf16, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool, kF8E4m3, kF8E8m0 };

std::string_view to_string(Dtype dtype);
std::int64_t dtype_bytes(Dtype dtype);

// A view on the mapping; valid while its SafetensorsFile (or Checkpoint) lives.
struct Tensor {
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

// One mapped safetensors file. Headers are checked whole: offsets inside the file, no overlap with the header, size = dtype x shape.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const Tensor* find(std::string_view name) const;
  const std::unordered_map<std::string, Tensor>& tensors() const;
  const std::filesystem::path& path() const;
  std::int64_t bytes() const;  // size of the file

 private:
  struct Mapping;
  explicit SafetensorsFile(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

// Called as files are mapped: bytes so far, bytes in all. May be empty.
using LoadProgress = std::function<void(std::int64_t, std::int64_t)>;

// All files of a model directory: those of model.safetensors.index.json if it exists, else every *.safetensors.
class Checkpoint {
 public:
  static Result<std::shared_ptr<const Checkpoint>> open(const std::filesystem::path& directory, const LoadProgress& progress = {});

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
