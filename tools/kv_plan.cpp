// Digests of the files that a model is made of.
#include "tools/kv_plan.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/process_ports.h"
#include "transport/memory/memory_blocks.h"

namespace shoal::tools {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kEnds = 64 << 10;
// A longer header is damage, which loading the weights finds.
constexpr std::uint64_t kLongestHeader = 256 << 20;

tl::unexpected<Error> unreadable(const fs::path& file) {
  return fail(Code::kMisconfigured, file.string() + ": cannot be read");
}

Result<std::string> read_part(const fs::path& file, std::uint64_t from, std::uint64_t bytes) {
  std::ifstream in(file, std::ios::binary);
  std::string text(bytes, '\0');
  in.seekg(static_cast<std::streamoff>(from));
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes))) {
    return unreadable(file);
  }
  return text;
}

Result<std::uint64_t> size_of(const fs::path& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  if (error) {
    return unreadable(file);
  }
  return size;
}

std::string digest(std::string text) {
  return to_string(root_key({std::move(text), "", "", "", ""}));
}

Result<std::string> digest_of(const fs::path& file) {
  TRY(const std::uint64_t size, size_of(file));
  TRY(std::string text, read_part(file, 0, size));
  return digest(std::move(text));
}

// Name, size, header, and both ends.
Result<std::string> digest_of_weights(const fs::path& file) {
  TRY(const std::uint64_t size, size_of(file));
  std::uint64_t header = 0;
  TRY(const std::string length, read_part(file, 0, std::min<std::uint64_t>(size, sizeof header)));
  std::memcpy(&header, length.data(), length.size());
  const std::uint64_t begin = std::min(size, std::max(kEnds, std::min(header, kLongestHeader) + 8));
  const std::uint64_t end = std::min(size, kEnds);
  TRY(const std::string first, read_part(file, 0, begin));
  TRY(const std::string last, read_part(file, size - end, end));
  return digest(file.filename().string() + "\n" + std::to_string(size) + "\n" + first + last);
}

Result<std::string> digest_of_all_weights(const fs::path& model) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(model, error)) {
    if (entry.path().extension() == ".safetensors") {
      files.push_back(entry.path());
    }
  }
  if (error) {
    return unreadable(model);
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) {
    TRY(const std::string one, digest_of_weights(file));
    text += one + "\n";
  }
  return digest(std::move(text));
}

// Until better is known: what was used longest ago goes first.
std::int64_t by_last_use(const transport::BlockUse& use, transport::WallSeconds) {
  return use.last_use;
}

}  // namespace

Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config) {
  if (config.kv().store() == "none") {
    return nullptr;
  }
  transport::BlockStoreParams params{.limits = {},
                                     .worth = by_last_use,
                                     .now = monotonic_now,
                                     .wall = unix_seconds_now,
                                     .directory = {},
                                     .writer = {}};
  params.limits.bytes = Bytes(config.kv().store_bytes());
  return transport::make_memory_blocks(std::move(params));
}

Result<KvIdentity> kv_identity(const DevicePlan& plan) {
  KvIdentity identity{plan.name, "", plan.shape.block_layout, "", ""};
  const fs::path& model = plan.config.model;
  TRY(const kernels::DeviceKind kind, kernels::find_device(plan.name));
  TRY(identity.tokenizer, digest_of(model / "tokenizer.json"));
  if (kind.reads_model) {
    TRY(identity.model, digest_of(model / "config.json"));
    TRY(identity.weights, digest_of_all_weights(model));
  }
  return identity;
}

}  // namespace shoal::tools
