// Compares the tokenizer with the official program's answers, and checks what holds for any text.
#include "actors/codec/tokenizer.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/codec/golden_tokenizer.h"

namespace shoal {
namespace {

using nlohmann::json;

std::string text_of(const json& golden) {
  if (golden.contains("text"))
    return golden["text"].get<std::string>();
  std::string text;
  for (const json& run : golden["text_runs"]) {
    const auto unit = run[0].get<std::string>();
    for (int i = 0; i < run[1].get<int>(); ++i)
      text += unit;
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
    for (int shift = 0; shift < 32; shift += 8)
      words += static_cast<char>(static_cast<std::uint32_t>(id) >> shift);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest);
  return hex({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

std::vector<TokenId> from_runs(const json& runs) {
  std::vector<TokenId> ids;
  for (const json& run : runs)
    ids.insert(ids.end(), run[1].get<std::size_t>(), run[0].get<TokenId>());
  return ids;
}

void check_long_run(const json& golden, const std::vector<TokenId>& ids) {
  REQUIRE(ids.size() == golden["n_ids"].get<std::size_t>());
  CHECK(sha256_of_ids(ids) == golden["ids_sha256"].get<std::string>());
  if (golden.contains("ids_rle"))
    CHECK(ids == from_runs(golden["ids_rle"]));
  if (golden.contains("ids_head")) {
    const auto head = golden["ids_head"].get<std::vector<TokenId>>();
    const auto tail = golden["ids_tail"].get<std::vector<TokenId>>();
    CHECK(std::vector<TokenId>(ids.begin(),
                               ids.begin() + static_cast<std::ptrdiff_t>(head.size())) == head);
    CHECK(std::vector<TokenId>(ids.end() - static_cast<std::ptrdiff_t>(tail.size()), ids.end()) ==
          tail);
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
    for (const json& id : golden["ids"])
      ids.push_back(static_cast<TokenId>(id.get<std::uint32_t>()));
    const std::string bytes = decode_bytes(*tokenizer, ids);
    CHECK(hex(bytes) == golden["bytes_hex"].get<std::string>());
    CHECK(replace_malformed_utf8(bytes) == golden["text"].get<std::string>());
  }
}

std::vector<json> json_lines(const std::string& path) {
  std::istringstream lines(read_test_file(path));
  std::vector<json> cases;
  for (std::string line; std::getline(lines, line);)
    cases.push_back(json::parse(line));
  return cases;
}

TEST_CASE("guppy's tokenizer gives the ids its golden conversations hold") {
  const std::string folder = std::string(SHOAL_MODELS_DIR) + "/guppy/";
  const auto tokenizer = Tokenizer::load(folder + "tokenizer.json");
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message);
  CHECK((*tokenizer)->vocabulary_size() == 2496);
  const auto cases = json_lines(folder + "golden.jsonl");
  REQUIRE(!cases.empty());
  for (const json& golden : cases) {
    CAPTURE(golden["id"].get<int>());
    const auto prompt = golden["prompt"].get<std::string>();
    const auto ids = golden["prompt_ids"].get<std::vector<TokenId>>();
    CHECK((*tokenizer)->encode_parsed(prompt) == ids);
    CHECK(decode_bytes(**tokenizer, ids) == prompt);
  }
}

TEST_CASE("tiny-random's tokenizer gives the golden ids") {
  const std::string folder = std::string(SHOAL_GOLDEN_DIR) + "/model/";
  const auto tokenizer = Tokenizer::load(folder + "tiny-random/tokenizer.json");
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message);
  const json golden = json::parse(read_test_file(folder + "text_tokens.json"));
  CHECK((*tokenizer)->encode(golden["text"].get<std::string>()) ==
        golden["tokens"].get<std::vector<TokenId>>());
}

TEST_CASE("ids say what they are: ordinary, added or unknown") {
  const auto tokenizer = golden_tokenizer();
  CHECK(tokenizer->vocabulary_size() == 129280);
  CHECK(tokenizer->added_tokens().size() == 1283);
  CHECK(tokenizer->bytes(128803) == "<｜User｜>");
  CHECK(tokenizer->added_id("<｜User｜>") == 128803);
  CHECK(tokenizer->added_spelling(128803) == "<｜User｜>");
  CHECK(tokenizer->added_id("<｜begin▁of▁sentence｜>") == 0);
  CHECK(!tokenizer->added_id("<｜User｜"));
  CHECK(!tokenizer->added_id(""));
  CHECK(!tokenizer->added_id("the"));
  CHECK(!tokenizer->added_spelling(300));
  CHECK(tokenizer->contains(300));
  for (const TokenId unknown : {-1, 129280, 1 << 30}) {
    CHECK(!tokenizer->contains(unknown));
    CHECK(tokenizer->bytes(unknown).empty());
    CHECK(!tokenizer->added_spelling(unknown));
  }
}

TEST_CASE("every ordinary token's bytes encode to that token alone") {
  const auto tokenizer = golden_tokenizer();
  int checked = 0;
  for (TokenId id = 3; id < 128000; ++id) {
    const std::string_view bytes = tokenizer->bytes(id);
    if (replace_malformed_utf8(bytes) != bytes)
      continue;  // part of a character: not a text
    const auto ids = tokenizer->encode(bytes);
    // The pre-tokenizer may cut a token's text where the training text was not cut; then there is
    // nothing to compare.
    if (ids.size() == 1)
      CHECK(ids[0] == id);
    checked += ids.size() == 1 ? 1 : 0;
  }
  CHECK(checked > 120000);
}

TEST_CASE("appending encodes the same as a fresh list") {
  const auto tokenizer = golden_tokenizer();
  std::vector<TokenId> ids = {7};
  tokenizer->encode("Hello world", ids);
  std::vector<TokenId> expected = tokenizer->encode("Hello world");
  expected.insert(expected.begin(), 7);
  CHECK(ids == expected);
  CHECK(tokenizer->encode("").empty());
  CHECK(tokenizer->encode_parsed("").empty());
}

TEST_CASE("threads that share a tokenizer get the same ids") {
  const auto tokenizer = golden_tokenizer();
  std::string text;
  for (const json& golden : golden_codec_cases("tokenize.jsonl")) {
    if (golden.contains("text"))
      text += golden["text"].get<std::string>();
  }
  const auto expected = tokenizer->encode(text);
  std::vector<std::vector<TokenId>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&tokenizer, &text, &result] { result = tokenizer->encode(text); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const auto& result : results)
    CHECK(result == expected);
}

TEST_CASE("a megabyte without a place to cut is encoded in linear time") {
  // A quadratic engine would need minutes for each of these and run into the test's time limit.
  const auto tokenizer = golden_tokenizer();
  constexpr std::size_t kSize = 1'000'000;
  std::mt19937 random(1);
  const auto from = [&random](std::string_view alphabet) {
    std::string text;
    while (text.size() < kSize)
      text += alphabet[random() % alphabet.size()];
    return text;
  };
  for (const std::string_view alphabet :
       {"a", " ", "-", "=", "\n", "ab", "-=", " \n", "abcdefghijklmnopqrstuvwxyz"}) {
    CAPTURE(alphabet);
    const std::string text = from(alphabet);
    CHECK(decode_bytes(*tokenizer, tokenizer->encode(text)) == text);
  }
}

TEST_CASE("bytes that are no text are read safely and survive") {
  const auto tokenizer = golden_tokenizer();
  const unsigned seed = 20261129;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 4 == 0 ? random() % 128 : 128 + random() % 128);
    const std::vector<char> exact(bytes.begin(),
                                  bytes.end());  // the sanitizer sees every read past the end
    const auto ids = tokenizer->encode(std::string_view(exact.data(), exact.size()));
    CHECK(decode_bytes(*tokenizer, ids) == bytes);
  }
}

}  // namespace
}  // namespace shoal
