// Compares the tokenizer with the official program's answers, and checks what must hold for any text.
#include "actors/codec/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>

#include "tests/codec/golden_tokenizer.h"

namespace shoal {
namespace {

using nlohmann::json;

std::string text_of(const json& golden) {
  if (golden.contains("text")) return golden["text"].get<std::string>();
  std::string text;
  for (const json& run : golden["text_runs"]) {
    const auto unit = run[0].get<std::string>();
    for (int i = 0; i < run[1].get<int>(); ++i) text += unit;
  }
  return text;
}

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_of_ids(const std::vector<TokenId>& ids) {
  std::string words;
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) words += static_cast<char>(static_cast<std::uint32_t>(id) >> shift);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest);
  return hex({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

std::vector<TokenId> from_runs(const json& runs) {
  std::vector<TokenId> ids;
  for (const json& run : runs) ids.insert(ids.end(), run[1].get<std::size_t>(), run[0].get<TokenId>());
  return ids;
}

void check_long_run(const json& golden, const std::vector<TokenId>& ids) {
  REQUIRE(ids.size() == golden["n_ids"].get<std::size_t>());
  CHECK(sha256_of_ids(ids) == golden["ids_sha256"].get<std::string>());
  if (golden.contains("ids_rle")) CHECK(ids == from_runs(golden["ids_rle"]));
  if (golden.contains("ids_head")) {
    const auto head = golden["ids_head"].get<std::vector<TokenId>>();
    const auto tail = golden["ids_tail"].get<std::vector<TokenId>>();
    CHECK(std::vector<TokenId>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(head.size())) == head);
    CHECK(std::vector<TokenId>(ids.end() - static_cast<std::ptrdiff_t>(tail.size()), ids.end()) == tail);
  }
}

TEST_CASE("every golden text encodes to the official ids, and they decode to the text") {
  const auto tokenizer = golden_tokenizer();
  const auto cases = golden_codec_cases("tokenize.jsonl");
  REQUIRE(cases.size() == 557);
  for (const json& golden : cases) {
    CAPTURE(golden["id"].get<std::string>());
    const std::string text = text_of(golden);
    const std::vector<TokenId> ids = tokenizer->encode(text);
    if (golden.contains("ids")) {
      CHECK(ids == golden["ids"].get<std::vector<TokenId>>());
    } else {
      check_long_run(golden, ids);
    }
    CHECK(decode_bytes(*tokenizer, ids) == text);
  }
}

TEST_CASE("spellings of added tokens become single ids only when asked for") {
  const auto tokenizer = golden_tokenizer();
  for (const json& golden : golden_codec_cases("tokenize.jsonl")) {
    CAPTURE(golden["id"].get<std::string>());
    const std::string text = text_of(golden);
    const std::vector<TokenId> parsed = tokenizer->encode_parsed(text);
    if (golden.contains("ids_parsed")) {
      CHECK(parsed == golden["ids_parsed"].get<std::vector<TokenId>>());
    } else if (golden.contains("n_ids_parsed")) {
      CHECK(parsed.size() == golden["n_ids_parsed"].get<std::size_t>());
    } else {
      CHECK(parsed == tokenizer->encode(text));
    }
  }
}

TEST_CASE("every golden id sequence decodes to the official bytes and text") {
  const auto tokenizer = golden_tokenizer();
  const auto cases = golden_codec_cases("decode.jsonl");
  REQUIRE(cases.size() == 70);
  for (const json& golden : cases) {
    CAPTURE(golden["id"].get<std::string>());
    std::vector<TokenId> ids;
    // Some golden ids exceed 31 bits; as TokenId they are negative and as unknown as before.
    for (const json& id : golden["ids"]) ids.push_back(static_cast<TokenId>(id.get<std::uint32_t>()));
    const std::string bytes = decode_bytes(*tokenizer, ids);
    CHECK(hex(bytes) == golden["bytes_hex"].get<std::string>());
    CHECK(replace_malformed_utf8(bytes) == golden["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace shoal
