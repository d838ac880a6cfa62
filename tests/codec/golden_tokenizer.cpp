// Unpacks the checked-in tokenizer with liblzma and reads the case files.
#include "tests/codec/golden_tokenizer.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <lzma.h>
#include <sstream>

namespace shoal {
namespace {

const std::string kFolder = std::string(SHOAL_GOLDEN_DIR) + "/codec/";

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "golden data: %s\n", why.c_str());
  std::abort();
}

std::string unpack_xz(const std::string& packed, std::size_t unpacked_size) {
  std::string text(unpacked_size, '\0');
  std::uint64_t memory_limit = 1u << 30;
  std::size_t read = 0;
  std::size_t written = 0;
  const lzma_ret done =
      lzma_stream_buffer_decode(&memory_limit,
                                0,
                                nullptr,
                                reinterpret_cast<const std::uint8_t*>(packed.data()),
                                &read,
                                packed.size(),
                                reinterpret_cast<std::uint8_t*>(text.data()),
                                &written,
                                text.size());
  if (done != LZMA_OK || written != unpacked_size)
    give_up("tokenizer.json.xz does not unpack");
  return text;
}

}  // namespace

std::string read_test_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    give_up(path + " is missing");
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::string golden_tokenizer_json() {
  constexpr std::size_t kSize = 6'367'257;
  return unpack_xz(read_test_file(kFolder + "tokenizer/tokenizer.json.xz"), kSize);
}

std::shared_ptr<const Tokenizer> golden_tokenizer() {
  static const std::shared_ptr<const Tokenizer> tokenizer = [] {
    auto loaded = Tokenizer::parse(golden_tokenizer_json(), "tokenizer.json.xz");
    if (!loaded)
      give_up(loaded.error().message);
    return *loaded;
  }();
  return tokenizer;
}

std::vector<nlohmann::json> golden_codec_cases(const std::string& name) {
  std::istringstream lines(read_test_file(kFolder + name));
  std::vector<nlohmann::json> cases;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty())
      cases.push_back(nlohmann::json::parse(line));
  }
  return cases;
}

}  // namespace shoal
