// Engram row ids, exact: token map, hash constants, slots and rows.
#include "kernels/model/engram.h"

#include <chrono>
#include <cstring>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/model/safetensors.h"
#include "tests/kernels/temp_directory.h"

using namespace shoal;
using namespace shoal::kernels;

namespace {

using Ints = std::vector<std::int64_t>;

const std::filesystem::path kTiny = SHOAL_GOLDEN_DIR "/model/tiny-random";
const std::filesystem::path kGuppy = SHOAL_MODELS_DIR "/guppy";

const SafetensorsFile& golden() {
  static const auto file =
      SafetensorsFile::open(SHOAL_GOLDEN_DIR "/model/ops/engram.safetensors").value();
  return file;
}

template <class T>
std::vector<T> read(std::string_view name) {
  const Tensor* tensor = golden().find(name);
  REQUIRE(tensor != nullptr);
  std::vector<T> values(static_cast<std::size_t>(tensor->elements()));
  REQUIRE(values.size() * sizeof(T) == tensor->bytes.size());
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

Ints slice(const Ints& values, std::size_t index, std::size_t width) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(index * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(width)};
}

Ints copy(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

// Constants, then rows of every recorded token, of a hash with layers 0 and 1 of the fixture.
void check_hash(const EngramHash& hash, const std::string& prefix) {
  const auto columns = static_cast<std::size_t>(hash.columns());
  const auto ngram = static_cast<std::size_t>(hash.ngram());
  const auto slots = read<std::int64_t>(prefix + "slots");
  const auto rows = read<std::int64_t>(prefix + "rows");
  for (const int layer : {0, 1}) {
    const auto l = static_cast<std::size_t>(layer);
    CHECK(copy(hash.primes(layer)) == slice(read<std::int64_t>(prefix + "primes"), l, columns));
    CHECK(copy(hash.offsets(layer)) == slice(read<std::int64_t>(prefix + "offsets"), l, columns));
    CHECK(copy(hash.multipliers(layer)) ==
          slice(read<std::int64_t>(prefix + "multipliers"), l, ngram));
    for (std::size_t t = 0; t < slots.size() / ngram; ++t) {
      Ints out(columns);
      hash.rows(layer, slice(slots, t, ngram), out.data());
      CHECK(out == slice(rows, 2 * t + l, columns));
    }
  }
}

std::string tokenizer_json(const nlohmann::json& vocab, const nlohmann::json& added) {
  return nlohmann::json{{"model", {{"vocab", vocab}}}, {"added_tokens", added}}.dump();
}

}  // namespace

TEST_CASE("canonical text folds case, accents, width and runs of blanks") {
  CHECK(canonical_text("Hello") == "hello");
  CHECK(canonical_text("  The ") == "the");
  CHECK(canonical_text("\xC3\x89T\xC3\x89") == "ete");        // É É
  CHECK(canonical_text("\xEF\xBC\xA1\xEF\xBC\xA2") == "ab");  // fullwidth AB
  CHECK(canonical_text("\xEF\xAC\x81x") == "fix");            // ligature fi
  CHECK(canonical_text("a \t\r\n b") == "a b");
  CHECK(canonical_text("a\v\vb") == "a\v\vb");  // no blank, so no run
  CHECK(canonical_text("\xC2\xA0"
                       "a\xE3\x80\x80") == "a");  // wide spaces
  CHECK(canonical_text("\x1C"
                       "a") ==
        "\x1C"
        "a");                                                           // no White_Space
  CHECK(canonical_text("\xC4\xB0") == "i");                             // U+0130
  CHECK(canonical_text("\xCE\xA3\xCE\xA3") == "\xCF\x83\xCF\x83");      // no final sigma
  CHECK(canonical_text("\xE1\xBA\x9E") == "\xC3\x9F");                  // capital sharp s
  CHECK(canonical_text("\xEA\xB0\x80") == "\xE1\x84\x80\xE1\x85\xA1");  // Hangul falls apart
  CHECK(canonical_text("\xE3\x81\x8C") == "\xE3\x81\x8B");              // kana: its mark
  CHECK(canonical_text(std::string_view("\0A", 2)) == std::string_view("\0a", 2));
}

TEST_CASE("only a lone blank survives the strip") {
  CHECK(canonical_text(" ") == " ");
  CHECK(canonical_text("\n\n \t") == " ");
  CHECK(canonical_text("\xC2\xA0") == " ");
  CHECK(canonical_text("\v") == "");
  CHECK(canonical_text("\xCC\x81") == "");  // a mark alone
  CHECK(canonical_text("") == "");
}

TEST_CASE("the token map of the recorded tokenizer is exact") {
  const auto map = read_token_map(kTiny);
  REQUIRE_MESSAGE(map.has_value(), map.error().message);
  CHECK(map->compressed == 408);
  CHECK(Ints(map->ids.begin(), map->ids.end()) == read<std::int64_t>("token_map"));
}

TEST_CASE("parts of characters stay apart and empty forms fall back to their text") {
  // Bytes C3 and E3 are no text, CC 81 is a mark without letter, added tokens are plain text.
  const nlohmann::json vocab = {{"Ã", 0}, {"ã", 1}, {"Ìģ", 2}, {"A", 3}, {"a", 4}, {"ĠA", 5}};
  const nlohmann::json added = {{{"id", 6}, {"content", "Ã"}}, {{"id", 7}, {"content", " a\n"}}};
  const auto map = parse_token_map(tokenizer_json(vocab, added), "tokenizer.json");
  REQUIRE_MESSAGE(map.has_value(), map.error().message);
  CHECK(map->ids == std::vector<std::int32_t>{0, 1, 2, 3, 3, 3, 3, 3});
}

TEST_CASE("a tokenizer that is no byte-level vocabulary is refused") {
  const auto refused = [](const std::string& json, std::string_view what) {
    const auto map = parse_token_map(json, "DIR/tokenizer.json");
    REQUIRE_FALSE(map.has_value());
    CHECK(map.error().code == Code::kMisconfigured);
    CHECK(map.error().message.starts_with("DIR/tokenizer.json: "));
    CHECK(map.error().message.find(what) != std::string::npos);
  };
  const auto none = nlohmann::json::array();
  refused("{}", "has no object model.vocab");
  refused(R"({"model": {"vocab": {}}})", "has no array added_tokens");
  refused(tokenizer_json({{"a", 0}, {"b", 2}}, none), "token \"b\" has no id");
  refused(tokenizer_json({{"a", 0}, {"b", "1"}}, none), "token \"b\" has no id");
  refused(tokenizer_json({{"a", 1}, {"b", 1}}, none), "has no token with id 0");
  refused(tokenizer_json({{"a b", 0}}, none), "token 0 is not in the byte-level alphabet");
  refused(tokenizer_json({{"a", 0}}, {{{"id", 1}}}), "added_tokens has an entry without");
}

TEST_CASE("hash constants and rows of the small model are exact") {
  check_hash(EngramHash({1, 4}, 100, 2, 4, 408), "");
}

TEST_CASE("hash constants and rows of the published model are exact") {
  const EngramHash hash({1, 14}, 16'000'000, 8, 4, 99'092);
  check_hash(hash, "real.");
  CHECK(hash.table_rows() == Ints{384'006'168, 384'016'682});
  CHECK(copy(hash.multipliers(0)) ==
        Ints{76632096046245, 4839876093313, 35959672319349, 73987337458391});
  CHECK(copy(hash.multipliers(1)) ==
        Ints{67716810739261, 51510806800915, 30921347202721, 82619226485591});
}

TEST_CASE("multipliers follow numpy for any layer and vocabulary") {
  // numpy 2.4: default_rng(10007 * layer).integers(0, (2**63 - 1) // vocab // 2, 3) * 2 + 1
  CHECK(copy(EngramHash({0}, 11, 1, 3, 6).multipliers(0)) ==
        Ints{979155769231422855, 414723871940770967, 62985675820749669});
  CHECK(copy(EngramHash({2}, 11, 1, 3, 1).multipliers(0)) ==
        Ints{7581278190532787371, 3676095719277115165, 2244174728982398957});
  CHECK(copy(EngramHash({39}, 11, 1, 3, 99092).multipliers(0)) ==
        Ints{78783423298101, 66755978342133, 54001799726845});
  CHECK(copy(EngramHash({4095}, 11, 1, 3, 16777216).multipliers(0)) ==
        Ints{294998854777, 364701566089, 92751958777});
  CHECK(copy(EngramHash({429}, 11, 1, 3, 512).multipliers(0)) ==
        Ints{1364331891120677, 4681795335730679, 17329762992804465});
}

TEST_CASE("n-grams stop at the start of the sequence and at dead tokens (public fixture)") {
  const std::int64_t map[] = {0, 1, 1, 1, 2, 2, 3, 4, 5};
  const EngramHash hash({1, 14}, 11, 2, 4, 6);
  const std::int64_t tokens[] = {7, 1, 4, 3, 8, 7};
  const std::uint8_t is_dead[] = {0, 0, 1, 1, 0, 0};
  const Ints first[] = {{10, 13, 39, 43, 71, 100},
                        {9, 11, 32, 43, 72, 88},
                        {6, 13, 35, 57, 80, 103},
                        {6, 13, 35, 57, 80, 103},
                        {1, 19, 37, 51, 80, 83},
                        {6, 12, 32, 56, 61, 93}};
  const Ints second[] = {{3, 34, 100, 141, 191, 245},
                         {11, 65, 95, 111, 164, 244},
                         {22, 42, 98, 150, 171, 200},
                         {22, 42, 98, 150, 171, 200},
                         {25, 60, 102, 116, 153, 214},
                         {25, 58, 85, 135, 163, 214}};
  for (int p = 0; p < 6; ++p) {
    Ints history;
    std::vector<std::uint8_t> dead;
    for (int q = p; q > p - 4; --q) {
      history.push_back(q < 0 ? -1 : map[tokens[q]]);
      dead.push_back(q < 0 ? std::uint8_t{0} : is_dead[q]);
    }
    Ints slots(4);
    engram_slots(history, dead, map[2], slots.data());
    Ints out(6);
    hash.rows(0, slots, out.data());
    CHECK(out == first[p]);
    hash.rows(1, slots, out.data());
    CHECK(out == second[p]);
  }
}

TEST_CASE("slots of the recorded sequence are exact") {
  const auto map = read<std::int64_t>("token_map");
  const auto tokens = read<std::int32_t>("tokens");
  const auto dead = read<std::uint8_t>("dead");
  const auto expected = read<std::int64_t>("slots");
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    Ints history(4, -1);
    std::vector<std::uint8_t> is_dead(4, 0);
    for (std::size_t back = 0; back < 4 && back <= p; ++back) {
      history[back] = map[static_cast<std::size_t>(tokens[p - back])];
      is_dead[back] = dead[p - back];
    }
    Ints slots(4);
    engram_slots(history, is_dead, map[2], slots.data());
    CHECK(slots == slice(expected, p, 4));
  }
}

TEST_CASE("both stored models fit their tokenizers") {
  for (const auto& [directory, compressed] : {std::pair(kTiny, 408), std::pair(kGuppy, 2110)}) {
    const auto config = read_config(directory);
    REQUIRE(config.has_value());
    const auto engram = load_engram(*config, directory);
    REQUIRE_MESSAGE(engram.has_value(), engram.error().message);
    CHECK(engram->tokens.compressed == compressed);
    CHECK(engram->hash.table_rows() == config->engram_rows);
    CHECK(engram->pad == engram->tokens.ids[2]);
  }
}

TEST_CASE("a tokenizer or table size that does not fit the model is refused") {
  auto config = read_config(kTiny).value();
  const auto refused = [&](const std::filesystem::path& directory, std::string_view what) {
    const auto engram = load_engram(config, directory);
    REQUIRE_FALSE(engram.has_value());
    CHECK(engram.error().code == Code::kMisconfigured);
    CHECK(engram.error().message.find(what) != std::string::npos);
  };
  refused(kGuppy, "does not fit the model: 2496 tokens, but config.json has vocab_size 512");
  config.engram_vocab = 407;
  refused(kTiny, "408 distinct words, but config.json has engram_compressed_vocab_size 407");
  config.engram_vocab = 408;
  ++config.engram_rows[1];
  refused(kTiny, "engram_num_embeddings");
  const test::TempDirectory empty;
  refused(empty.path(), "tokenizer.json: cannot read");
}

TEST_CASE("a model without Engram layers needs no tokenizer") {
  auto config = read_config(kTiny).value();
  config.engram_layers.clear();
  const test::TempDirectory empty;
  const auto engram = load_engram(config, empty.path());
  REQUIRE(engram.has_value());
  CHECK(engram->hash.columns() == 0);
}

TEST_CASE("a vocabulary of 129,280 tokens is mapped whole; the time is printed") {
  auto vocab = nlohmann::json::object();
  for (int i = 0; i < 129'280; ++i) {
    vocab["\u0120Tok" + std::to_string(i)] = i;
  }
  const auto json = tokenizer_json(vocab, nlohmann::json::array());
  const auto start = std::chrono::steady_clock::now();
  const auto map = parse_token_map(json, "tokenizer.json");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  REQUIRE_MESSAGE(map.has_value(), map.error().message);
  CHECK(map->compressed == 129'280);
  MESSAGE("129,280 tokens mapped in " << took.count() << " s");
}
