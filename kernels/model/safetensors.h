// One safetensors file, mapped read-only: names, dtypes, shapes and bytes of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schemas/result.h"

namespace shoal::kernels {

enum class Dtype : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4m3,
  kF8E8m0
};

std::string_view to_string(Dtype dtype);
std::int64_t dtype_bytes(Dtype dtype);

// A view on the mapping; valid while its SafetensorsFile (or Checkpoint) lives.
struct Tensor {
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

// One mapped safetensors file. Headers are checked whole: offsets inside the file, no overlap with
// the header, size = dtype x shape.
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

}  // namespace shoal::kernels
