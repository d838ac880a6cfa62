// Checks that files which do not fit are refused, and that odd vocabularies are encoded exactly.
#include "actors/codec/tokenizer_file.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/codec/tokenizer.h"
#include "actors/codec/tokenizer_bpe.h"
#include "actors/codec/tokenizer_byte_level.h"

namespace shoal {
namespace {

using nlohmann::json;

json split(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

// The smallest file that fits: the 256 bytes as ids 0-255 and the given merges, as pairs of spelled
// pieces.
json small_file(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[byte_level_spelling(static_cast<unsigned char>(byte))] = byte;
  json merge_list = json::array();
  for (const auto& [left, right] : merges) {
    if (!vocabulary.contains(left + right))
      vocabulary[left + right] = vocabulary.size();
    merge_list.push_back(json::array({left, right}));
  }
  const std::string third =
      "[!\"#$%&'()*+,\\-./"
      ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"added_tokens", json::array({{{"id", 1000}, {"content", "<end>"}, {"special", true}}})},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {split("\\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(third), byte_level}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merge_list}}}};
}

std::string refusal(const std::string& text) {
  const auto tokenizer = Tokenizer::parse(text, "some/tokenizer.json");
  if (tokenizer)
    return "accepted";
  CHECK(tokenizer.error().code == Code::kMisconfigured);
  const std::string message = tokenizer.error().message;
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.starts_with("some/tokenizer.json: "));
  return message;
}

std::string refusal_after(const std::function<void(json&)>& change) {
  json file = small_file({{"a", "b"}});
  change(file);
  return refusal(file.dump());
}

bool mentions(const std::string& message, const std::string& what) {
  CAPTURE(message);
  CAPTURE(what);
  const bool found = message.find(what) != std::string::npos;
  CHECK(found);
  return found;
}

TEST_CASE("a small file that fits is accepted") {
  const auto tokenizer = Tokenizer::parse(small_file({{"a", "b"}, {"ab", "c"}}).dump(), "small");
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message);
  CHECK((*tokenizer)->encode("abcab<end>") ==
        std::vector<TokenId>{257, 256, '<', 'e', 'n', 'd', '>'});
  CHECK((*tokenizer)->encode_parsed("abc<end>ab") == std::vector<TokenId>{257, 1000, 256});
  CHECK((*tokenizer)->vocabulary_size() == 1001);
  CHECK_FALSE((*tokenizer)->contains(999));
}

TEST_CASE("merges may be written as one string each") {
  json file = small_file({{"a", "b"}});
  file["model"]["merges"] = json::array({"a b"});
  const auto tokenizer = Tokenizer::parse(file.dump(), "small");
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message);
  CHECK((*tokenizer)->encode("ab") == std::vector<TokenId>{256});
}

TEST_CASE("text that is not the JSON of a tokenizer is refused") {
  mentions(refusal(""), "not valid JSON");
  mentions(refusal("{\"model\": "), "not valid JSON");
  mentions(refusal("\xFF\xFE"), "not valid JSON");
  mentions(refusal("[]"), "not a JSON object");
  mentions(refusal("{}"), "model is missing");
  mentions(refusal(R"({"model": 1})"), "model is missing");
  std::string truncated = small_file({{"a", "b"}}).dump();
  truncated.resize(truncated.size() / 2);
  mentions(refusal(truncated), "not valid JSON");
}

TEST_CASE("another kind of tokenizer is refused by the field that shows it") {
  mentions(refusal_after([](json& f) { f["model"]["type"] = "Unigram"; }),
           "model.type is \"Unigram\"");
  mentions(refusal_after([](json& f) { f["model"]["byte_fallback"] = true; }),
           "model.byte_fallback is set");
  mentions(refusal_after([](json& f) { f["model"]["unk_token"] = "<unk>"; }),
           "model.unk_token is set");
  mentions(refusal_after([](json& f) { f["model"]["dropout"] = 0.1; }), "model.dropout is set");
  mentions(refusal_after([](json& f) { f["normalizer"] = {{"type", "NFC"}}; }), "normalizer");
  mentions(refusal_after([](json& f) { f["pre_tokenizer"] = nullptr; }), "pre_tokenizer");
  mentions(refusal_after([](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); }),
           "pre_tokenizer");
  mentions(refusal_after([](json& f) { f["pre_tokenizer"]["pretokenizers"][0] = split("\\p{N}"); }),
           "pre_tokenizer");
  mentions(refusal_after(
               [](json& f) { f["pre_tokenizer"]["pretokenizers"][2]["behavior"] = "Removed"; }),
           "pre_tokenizer");
  mentions(refusal_after(
               [](json& f) { f["pre_tokenizer"]["pretokenizers"][3]["add_prefix_space"] = true; }),
           "pre_tokenizer");
}

TEST_CASE("a broken vocabulary or merge list is refused") {
  mentions(refusal_after([](json& f) { f["model"].erase("vocab"); }), "model.vocab is missing");
  mentions(refusal_after([](json& f) { f["model"]["vocab"] = json::array(); }),
           "model.vocab is missing");
  mentions(refusal_after([](json& f) { f["model"]["vocab"].erase("a"); }), "lacks \"a\"");
  mentions(refusal_after([](json& f) { f["model"]["vocab"]["x"] = 5; }), "gives id 5 twice");
  mentions(refusal_after([](json& f) { f["model"]["vocab"]["zz"] = -1; }),
           "model.vocab gives \"zz\" no id");
  mentions(refusal_after([](json& f) { f["model"]["vocab"]["zz"] = 1ll << 40; }),
           "model.vocab gives \"zz\" no id");
  mentions(refusal_after([](json& f) { f["model"]["vocab"]["zz"] = "1"; }),
           "model.vocab gives \"zz\" no id");
  mentions(refusal_after([](json& f) { f["model"]["vocab"][""] = 300; }), "empty piece");
  mentions(refusal_after([](json& f) { f["model"].erase("merges"); }), "model.merges is missing");
  mentions(refusal_after([](json& f) {
             f["model"]["merges"].push_back({"q", "q"});
           }),
           "model.merges[1] needs \"qq\"");
  mentions(refusal_after([](json& f) { f["model"]["merges"].push_back({"a", "b"}); }), "twice");
  for (const json& odd :
       {json("ab"), json(" b"), json("a "), json(7), json::array({"a"}), json::array({"a", 1})}) {
    mentions(refusal_after([&odd](json& f) { f["model"]["merges"][0] = odd; }),
             "model.merges[0] is not a pair");
  }
  mentions(refusal_after([](json& f) {
             f["model"]["vocab"]["模"] = 300;
             f["model"]["vocab"]["模a"] = 301;
             f["model"]["merges"].push_back({"模", "a"});
           }),
           "byte-level alphabet");
}

TEST_CASE("broken added tokens are refused") {
  mentions(refusal_after([](json& f) { f["added_tokens"] = 1; }), "added_tokens is not an array");
  mentions(refusal_after([](json& f) { f["added_tokens"][0] = 1; }),
           "added_tokens[0] is not an object");
  mentions(refusal_after([](json& f) { f["added_tokens"][0]["id"] = -5; }),
           "added_tokens[0] has no id");
  mentions(refusal_after([](json& f) { f["added_tokens"][0].erase("content"); }),
           "added_tokens[0] has no content");
  mentions(refusal_after([](json& f) { f["added_tokens"][0]["lstrip"] = true; }),
           "added_tokens[0] sets lstrip");
  mentions(refusal_after([](json& f) { f["added_tokens"][0]["id"] = 7; }),
           "not each other's alone");
  mentions(refusal_after([](json& f) { f["added_tokens"][0]["content"] = "ab"; }),
           "not each other's alone");
}

TEST_CASE("a message stays one short line whatever the file holds") {
  const std::string message =
      refusal_after([](json& f) { f["model"]["type"] = std::string(5000, 'x') + "\n\n"; });
  CHECK(message.size() < 300);
  CHECK(refusal_after([](json& f) { f["model"]["type"] = "a\nb"; }).find('\n') ==
        std::string::npos);
}

TEST_CASE("a path that cannot be read as a file is named in the error") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "shoal_tokenizer_file_test";
  std::filesystem::create_directories(folder);
  for (const auto& path : {folder, folder / "absent.json"}) {
    const auto tokenizer = Tokenizer::load(path);
    REQUIRE_FALSE(tokenizer);
    CHECK(tokenizer.error().code == Code::kMisconfigured);
    mentions(tokenizer.error().message, path.string() + ": ");
  }
  const auto empty = folder / "empty.json";
  std::ofstream(empty).flush();
  const auto tokenizer = Tokenizer::load(empty);
  REQUIRE_FALSE(tokenizer);
  mentions(tokenizer.error().message, empty.string() + ": not valid JSON");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a merge list in which parts come after products is followed to the letter") {
  // The first merge needs "ab", which only the last one makes; before that, "bc" takes the "b".
  const json text = small_file({{"ab", "c"}, {"b", "c"}, {"a", "b"}});
  const auto file = parse_tokenizer_file(text.dump(), "odd");
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK_FALSE(BytePairEncoder(*file).is_linear());
  const auto tokenizer = Tokenizer::parse(text.dump(), "odd");
  REQUIRE(tokenizer);
  const TokenId bc = text["model"]["vocab"]["bc"].get<TokenId>();
  const TokenId ab = text["model"]["vocab"]["ab"].get<TokenId>();
  CHECK((*tokenizer)->encode("abc") == std::vector<TokenId>{'a', bc});
  CHECK((*tokenizer)->encode("ab") == std::vector<TokenId>{ab});
  CHECK((*tokenizer)->encode("bcab") == std::vector<TokenId>{bc, ab});
}

TEST_CASE("a token that its own bytes do not encode to is never produced") {
  // "abcd" is spelled by "ab" + "cd", but "bc" merges first, so those two never meet.
  const json text = small_file({{"b", "c"}, {"a", "b"}, {"c", "d"}, {"ab", "cd"}});
  const auto file = parse_tokenizer_file(text.dump(), "unreachable");
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK_FALSE(BytePairEncoder(*file).is_linear());
  const auto tokenizer = Tokenizer::parse(text.dump(), "unreachable");
  REQUIRE(tokenizer);
  CHECK((*tokenizer)->encode("abcd") == std::vector<TokenId>{'a', 256, 'd'});
}

TEST_CASE("a vocabulary as training makes it is encoded in linear time") {
  const auto file = parse_tokenizer_file(small_file({{"a", "b"}, {"ab", "c"}}).dump(), "small");
  REQUIRE(file);
  CHECK(BytePairEncoder(*file).is_linear());
}

}  // namespace
}  // namespace shoal
