// Maps safetensors files and checks their headers whole: no later access can leave the file.
#include "kernels/model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "kernels/model/json.h"
#include "schemas/check.h"

namespace shoal::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is used as mapped");

constexpr std::int64_t kLengthBytes = 8;          // u64 header length at the start of a file
constexpr std::int64_t kMaxHeader = 100'000'000;  // the limit of the format
constexpr std::size_t kMaxDims = 8;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DtypeRow, 15> kDtypes{{
    {Dtype::kF64, "F64", 8},
    {Dtype::kF32, "F32", 4},
    {Dtype::kF16, "F16", 2},
    {Dtype::kBf16, "BF16", 2},
    {Dtype::kI64, "I64", 8},
    {Dtype::kI32, "I32", 4},
    {Dtype::kI16, "I16", 2},
    {Dtype::kI8, "I8", 1},
    {Dtype::kU64, "U64", 8},
    {Dtype::kU32, "U32", 4},
    {Dtype::kU16, "U16", 2},
    {Dtype::kU8, "U8", 1},
    {Dtype::kBool, "BOOL", 1},
    {Dtype::kF8E4m3, "F8_E4M3", 1},
    {Dtype::kF8E8m0, "F8_E8M0", 1},
}};

const DtypeRow& row_of(Dtype dtype) {
  const auto row = std::ranges::find(kDtypes, dtype, &DtypeRow::dtype);
  CHECK(row != kDtypes.end());
  return *row;
}

tl::unexpected<Error> bad(const std::filesystem::path& path, std::string_view what) {
  return fail(Code::kMisconfigured, path.string() + ": " + std::string(what));
}

tl::unexpected<Error> bad_tensor(const std::filesystem::path& path,
                                 std::string_view name,
                                 std::string_view what) {
  return bad(path, "tensor " + std::string(name) + " " + std::string(what));
}

std::string last_error() {
  return std::generic_category().message(errno);
}

// Shape of one header entry; sizes are bounded so that elements() never overflows.
Result<std::vector<std::int64_t>> read_shape(simdjson::dom::element entry) {
  simdjson::dom::array dims;
  if (entry["shape"].get(dims) != simdjson::SUCCESS || dims.size() > kMaxDims) {
    return fail(Code::kMisconfigured, "has no shape of at most 8 sizes");
  }
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const auto dim : dims) {
    std::int64_t size = 0;
    if (dim.get(size) != simdjson::SUCCESS || size < 0 ||
        __builtin_mul_overflow(elements, size, &elements)) {
      return fail(Code::kMisconfigured, "has an impossible shape");
    }
    shape.push_back(size);
  }
  return shape;
}

Result<Dtype> read_dtype(simdjson::dom::element entry) {
  std::string_view name;
  if (entry["dtype"].get(name) != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured, "has no dtype");
  }
  const auto row = std::ranges::find(kDtypes, name, &DtypeRow::name);
  if (row == kDtypes.end()) {
    return fail(Code::kMisconfigured, "has unknown dtype " + std::string(name));
  }
  return row->dtype;
}

// data_offsets of one header entry, relative to the end of the header.
Result<std::pair<std::int64_t, std::int64_t>> read_offsets(simdjson::dom::element entry) {
  std::int64_t begin = -1;
  std::int64_t end = -1;
  simdjson::dom::array offsets;
  if (entry["data_offsets"].get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(begin) != simdjson::SUCCESS ||
      offsets.at(1).get(end) != simdjson::SUCCESS || begin < 0 || end < begin) {
    return fail(Code::kMisconfigured, "has no valid data_offsets");
  }
  return std::pair(begin, end);
}

Result<Tensor> read_entry(simdjson::dom::element entry, std::span<const std::byte> data) {
  Tensor tensor;
  TRY(tensor.dtype, read_dtype(entry));
  TRY(tensor.shape, read_shape(entry));
  TRY(const auto range, read_offsets(entry));
  const auto [begin, end] = range;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.elements(), dtype_bytes(tensor.dtype), &bytes) ||
      bytes != end - begin) {
    return fail(
        Code::kMisconfigured,
        "takes " + std::to_string(end - begin) + " bytes, which does not fit its dtype and shape");
  }
  const auto size = static_cast<std::int64_t>(data.size());
  if (end > size) {
    return fail(Code::kMisconfigured,
                "ends " + std::to_string(end - size) +
                    " bytes behind the end of the file: the file is "
                    "truncated, fetch it again");
  }
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return tensor;
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return row_of(dtype).name;
}

std::int64_t dtype_bytes(Dtype dtype) {
  return row_of(dtype).bytes;
}

std::int64_t Tensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return count;
}

struct SafetensorsFile::Mapping {
  std::filesystem::path path;
  std::span<const std::byte> bytes;
  std::unordered_map<std::string, Tensor> tensors;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  ~Mapping() {
    if (!bytes.empty()) {
      ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
    }
  }

  Result<void> map();
  Result<void> read_header();
};

Result<void> SafetensorsFile::Mapping::map() {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return bad(path, "cannot open (" + last_error() + ")");
  }
  struct stat status = {};
  void* address = MAP_FAILED;
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    address = ::mmap(
        nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0);
  }
  const std::string reason = status.st_size > 0 ? last_error() : "it is empty";
  ::close(descriptor);
  if (address == MAP_FAILED) {
    return bad(path, "cannot map (" + reason + "): fetch the file again");
  }
  bytes = {static_cast<const std::byte*>(address), static_cast<std::size_t>(status.st_size)};
  return {};
}

Result<void> SafetensorsFile::Mapping::read_header() {
  const auto size = static_cast<std::int64_t>(bytes.size());
  std::uint64_t declared = 0;
  if (size >= kLengthBytes) {
    std::memcpy(&declared, bytes.data(), sizeof declared);
  }
  if (declared < 2 || declared > static_cast<std::uint64_t>(kMaxHeader)) {
    return bad(path, "not a safetensors file: its header length is impossible");
  }
  const auto length = static_cast<std::int64_t>(declared);
  if (length > size - kLengthBytes) {
    return bad(path, "the file ends inside its header: it is truncated, fetch it again");
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  TRY(const auto document,
      JsonDocument::parse({text, static_cast<std::size_t>(length)},
                          path.string() + ": safetensors header"));
  simdjson::dom::object header;
  if (document.root().get(header) != simdjson::SUCCESS) {
    return bad(path, "not a safetensors file: its header is no JSON object");
  }
  const auto data = bytes.subspan(static_cast<std::size_t>(kLengthBytes + length));
  tensors.reserve(header.size());
  for (const auto& [name, entry] : header) {
    if (name == "__metadata__") {
      continue;
    }
    auto tensor = read_entry(entry, data);
    if (!tensor) {
      return bad_tensor(path, name, tensor.error().message);
    }
    if (!tensors.emplace(name, *std::move(tensor)).second) {
      return bad_tensor(path, name, "is named twice in the header");
    }
  }
  return {};
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  auto mapping = std::make_unique<Mapping>();
  mapping->path = path;
  TRY_VOID(mapping->map());
  TRY_VOID(mapping->read_header());
  return SafetensorsFile(std::move(mapping));
}

const Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = mapping_->tensors.find(std::string(name));
  return it == mapping_->tensors.end() ? nullptr : &it->second;
}

const std::unordered_map<std::string, Tensor>& SafetensorsFile::tensors() const {
  return mapping_->tensors;
}

const std::filesystem::path& SafetensorsFile::path() const {
  return mapping_->path;
}

std::int64_t SafetensorsFile::bytes() const {
  return static_cast<std::int64_t>(mapping_->bytes.size());
}

}  // namespace shoal::kernels
