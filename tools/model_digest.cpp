// SHA-256 over the small files and over the ends of the large ones.
#include "tools/model_digest.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <openssl/evp.h>
#include <string_view>
#include <system_error>
#include <vector>

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEnd = 64 << 10;
// A longer header is damage, which loading the weights finds.
constexpr std::uint64_t kLongestHeader = 256 << 20;

tl::unexpected<Error> unreadable(const fs::path& file) {
  return fail(Code::kMisconfigured, file.string() + ": cannot be read");
}

Result<std::string> sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1) {
    return fail(Code::kInternal, "OpenSSL has no SHA-256");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[hash[i] >> 4];
    hex += kDigits[hash[i] & 15];
  }
  return hex;
}

Result<std::uint64_t> size_of(const fs::path& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  if (error) {
    return unreadable(file);
  }
  return size;
}

// Fewer bytes where the file ends before.
Result<std::string> read_part(const fs::path& file, std::uint64_t from, std::uint64_t bytes) {
  TRY(const std::uint64_t size, size_of(file));
  std::string text(std::min(bytes, size - std::min(size, from)), '\0');
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(from));
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return unreadable(file);
  }
  return text;
}

Result<std::string> digest_file(const fs::path& file) {
  TRY(const std::uint64_t size, size_of(file));
  TRY(const std::string text, read_part(file, 0, size));
  return sha256(text);
}

// A safetensors file begins with the length of its header, little-endian.
Result<std::string> digest_weights(const fs::path& file) {
  TRY(const std::uint64_t size, size_of(file));
  TRY(const std::string length, read_part(file, 0, 8));
  std::uint64_t header = 0;
  for (std::size_t i = length.size(); i > 0; --i) {
    header = header << 8 | static_cast<unsigned char>(length[i - 1]);
  }
  TRY(const std::string begin, read_part(file, 0, 8 + std::min(header, kLongestHeader) + kEnd));
  TRY(const std::string end, read_part(file, size - std::min(size, kEnd), kEnd));
  return sha256(file.filename().string() + "\n" + std::to_string(size) + "\n" + begin + end);
}

Result<std::string> digest_all_weights(const fs::path& model) {
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
  std::string digests;
  for (const fs::path& file : files) {
    TRY(const std::string digest, digest_weights(file));
    digests += digest + "\n";
  }
  return sha256(digests);
}

}  // namespace

Result<ModelDigests> digest_model(const DevicePlan& plan) {
  const fs::path& model = plan.config.model;
  TRY(const kernels::DeviceKind kind, kernels::find_device(plan.name));
  ModelDigests digests;
  TRY(digests.tokenizer, digest_file(model / "tokenizer.json"));
  if (kind.reads_model) {
    TRY(digests.config, digest_file(model / "config.json"));
    TRY(digests.weights, digest_all_weights(model));
  }
  return digests;
}

Result<std::string> model_identity(const DevicePlan& plan) {
  TRY(const ModelDigests digests, digest_model(plan));
  const std::string computed = digests.config + "\n" + digests.weights + "\n";
  return sha256((digests.weights.empty() ? plan.name : computed) + digests.tokenizer);
}

}  // namespace shoal::tools
