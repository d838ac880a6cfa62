// Walks the parsed JSON: first what kind of tokenizer it is, then pieces, merges, added tokens.
#include "actors/codec/tokenizer_file.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <simdjson.h>
#include <unordered_map>
#include <utility>

#include "actors/codec/tokenizer_byte_level.h"

namespace shoal {

std::string_view TokenBytes::of(TokenId id) const {
  if (!contains(id))
    return {};
  const Span span = spans_[static_cast<std::size_t>(id)];
  return std::string_view(joined_).substr(span.begin, span.size);
}

void TokenBytes::set(TokenId id, std::string_view bytes) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= spans_.size())
    spans_.resize(place + 1);
  spans_[place] = {static_cast<std::uint32_t>(joined_.size()),
                   static_cast<std::uint32_t>(bytes.size())};
  joined_.append(bytes);
}

namespace {

namespace dom = simdjson::dom;

// The three patterns of the DeepSeek family, those that tokenizer_pieces.cpp implements.
constexpr std::string_view kPatterns[] = {
    R"(\p{N}{1,3})",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)re"
    R"re( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
};
constexpr std::size_t kPreTokenizerSteps = std::size(kPatterns) + 1;

constexpr std::string_view kNoValidId = " no id from 0 to 2097149";
static_assert(kTokenIdsMax == 2097150);
constexpr std::string_view kWanted =
    "; a byte-level BPE tokenizer.json of the DeepSeek family is needed";

// Files write line ends and quotes of a pattern plainly or escaped; both mean the same.
std::string with_escapes(std::string_view pattern) {
  std::string same;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "\\\"")
      ++i;
    if (pattern[i] == '\r') {
      same += "\\r";
    } else if (pattern[i] == '\n') {
      same += "\\n";
    } else {
      same += pattern[i];
    }
  }
  return same;
}

std::string_view string_or_empty(const dom::object& object, std::string_view key) {
  std::string_view value;
  return object.at_key(key).get(value) == simdjson::SUCCESS ? value : std::string_view();
}

bool bool_or(const dom::object& object, std::string_view key, bool otherwise) {
  bool value = otherwise;
  return object.at_key(key).get(value) == simdjson::SUCCESS ? value : otherwise;
}

// Absent, null, false, 0 and "" all switch an option off.
bool is_off(const dom::object& object, std::string_view key) {
  dom::element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null())
    return true;
  if (bool flag = true; value.get(flag) == simdjson::SUCCESS)
    return !flag;
  if (double number = 1; value.get(number) == simdjson::SUCCESS)
    return number == 0;
  std::string_view text = "on";
  return value.get(text) == simdjson::SUCCESS && text.empty();
}

bool is_isolated_split(const dom::object& step, std::string_view pattern) {
  std::string_view regex;
  return string_or_empty(step, "type") == "Split" &&
         string_or_empty(step, "behavior") == "Isolated" && !bool_or(step, "invert", false) &&
         step.at_key("pattern").at_key("Regex").get(regex) == simdjson::SUCCESS &&
         with_escapes(regex) == pattern;
}

bool is_plain_byte_level(const dom::object& step) {
  return string_or_empty(step, "type") == "ByteLevel" && !bool_or(step, "add_prefix_space", true) &&
         !bool_or(step, "use_regex", true);
}

bool is_deepseek_pre_tokenizer(const dom::object& root) {
  dom::array steps;
  if (root.at_key("pre_tokenizer").at_key("pretokenizers").get(steps) != simdjson::SUCCESS)
    return false;
  if (steps.size() != kPreTokenizerSteps)
    return false;
  std::size_t at = 0;
  for (const dom::element element : steps) {
    dom::object step;
    if (element.get(step) != simdjson::SUCCESS)
      return false;
    const bool last = at == std::size(kPatterns);
    if (last ? !is_plain_byte_level(step) : !is_isolated_split(step, kPatterns[at]))
      return false;
    ++at;
  }
  return true;
}

bool has_no_normalizer(const dom::object& root) {
  dom::element normalizer;
  if (root.at_key("normalizer").get(normalizer) != simdjson::SUCCESS || normalizer.is_null())
    return true;
  dom::array steps;
  return normalizer["normalizers"].get(steps) == simdjson::SUCCESS && steps.size() == 0;
}

// For messages, which are one line of bounded length.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string shown(text.substr(0, kShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return '"' + shown + (text.size() > kShown ? "...\"" : "\"");
}

std::optional<TokenId> valid_id(const dom::element& value) {
  std::int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= kTokenIdsMax)
    return std::nullopt;
  return static_cast<TokenId>(id);
}

class FileReader {
 public:
  explicit FileReader(std::string_view name) : name_(name) {}

  Result<TokenizerFile> read(const dom::element& document) {
    dom::object root;
    if (document.get(root) != simdjson::SUCCESS)
      return refuse("is not a JSON object");
    dom::object model;
    if (root.at_key("model").get(model) != simdjson::SUCCESS)
      return refuse("model is missing or not an object");
    TRY_VOID(check_kind(root, model));
    TRY_VOID(read_vocabulary(model));
    TRY_VOID(read_byte_tokens());
    TRY_VOID(read_merges(model));
    TRY_VOID(read_added_tokens(root));
    return std::move(file_);
  }

 private:
  tl::unexpected<Error> refuse(const std::string& what) const {
    return fail(Code::kMisconfigured, name_ + ": " + what + std::string(kWanted));
  }

  Result<void> check_kind(const dom::object& root, const dom::object& model) const {
    const std::string_view type = string_or_empty(model, "type");
    if (type != "BPE")
      return refuse("model.type is " + in_quotes(type) + ", not \"BPE\"");
    for (const std::string_view option : {"dropout",
                                          "unk_token",
                                          "continuing_subword_prefix",
                                          "end_of_word_suffix",
                                          "byte_fallback",
                                          "ignore_merges"}) {
      if (!is_off(model, option))
        return refuse("model." + std::string(option) + " is set");
    }
    if (!has_no_normalizer(root))
      return refuse("normalizer changes the text");
    if (!is_deepseek_pre_tokenizer(root)) {
      return refuse("pre_tokenizer is not the family's three isolated splits and ByteLevel");
    }
    return {};
  }

  Result<void> read_vocabulary(const dom::object& model) {
    dom::object vocabulary;
    if (model.at_key("vocab").get(vocabulary) != simdjson::SUCCESS) {
      return refuse("model.vocab is missing or not an object");
    }
    ids_.reserve(vocabulary.size());
    for (const auto [piece, value] : vocabulary) {
      const auto id = valid_id(value);
      if (!id)
        return refuse("model.vocab gives " + in_quotes(piece) + std::string(kNoValidId));
      if (piece.empty())
        return refuse("model.vocab holds an empty piece");
      if (file_.bytes.contains(*id))
        return refuse("model.vocab gives id " + std::to_string(*id) + " twice");
      if (!ids_.emplace(piece, *id).second)
        return refuse("model.vocab holds " + in_quotes(piece) + " twice");
      file_.bytes.set(*id, read_byte_level(piece, bytes_) ? std::string_view(bytes_) : piece);
    }
    return {};
  }

  std::optional<TokenId> id_of(std::string_view piece) const {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  Result<void> read_byte_tokens() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string spelling = byte_level_spelling(static_cast<unsigned char>(byte));
      const auto id = id_of(spelling);
      if (!id)
        return refuse("model.vocab lacks " + in_quotes(spelling) + ", the piece of byte " +
                      std::to_string(byte));
      file_.byte_tokens[byte] = *id;
    }
    return {};
  }

  Result<void> read_merges(const dom::object& model) {
    dom::array merges;
    if (model.at_key("merges").get(merges) != simdjson::SUCCESS) {
      return refuse("model.merges is missing or not an array");
    }
    std::vector<std::pair<TokenId, TokenId>> pairs;
    for (const dom::element element : merges) {
      TRY(const FileMerge merge, read_merge(element));
      file_.merges.push_back(merge);
      pairs.emplace_back(merge.left, merge.right);
    }
    std::sort(pairs.begin(), pairs.end());
    const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
    if (twice == pairs.end())
      return {};
    return refuse("model.merges joins ids " + std::to_string(twice->first) + " and " +
                  std::to_string(twice->second) + " twice");
  }

  // A merge is "left right" or ["left", "right"].
  Result<FileMerge> read_merge(const dom::element& element) {
    const auto refuse_merge = [this](const std::string& what) {
      return refuse("model.merges[" + std::to_string(file_.merges.size()) + "] " + what);
    };
    std::string_view left;
    std::string_view right;
    if (std::string_view both; element.get(both) == simdjson::SUCCESS) {
      const std::size_t space = both.find(' ');
      left = both.substr(0, space);
      if (space != std::string_view::npos)
        right = both.substr(space + 1);
    } else if (dom::array parts; element.get(parts) == simdjson::SUCCESS && parts.size() == 2) {
      if (parts.at(0).get(left) != simdjson::SUCCESS || parts.at(1).get(right) != simdjson::SUCCESS)
        left = {};
    }
    if (left.empty() || right.empty())
      return refuse_merge("is not a pair of pieces");
    joined_.assign(left).append(right);
    if (!read_byte_level(joined_, bytes_))
      return refuse_merge("is not spelled in the byte-level alphabet");
    std::array<TokenId, 3> ids{};
    for (std::size_t i = 0;
         const std::string_view piece : {left, right, std::string_view(joined_)}) {
      const auto id = id_of(piece);
      if (!id)
        return refuse_merge("needs " + in_quotes(piece) + ", which is not in model.vocab");
      ids[i++] = *id;
    }
    return FileMerge{ids[0], ids[1], ids[2]};
  }

  Result<void> read_added_tokens(const dom::object& root) {
    dom::element list;
    if (root.at_key("added_tokens").get(list) != simdjson::SUCCESS)
      return {};
    dom::array tokens;
    if (list.get(tokens) != simdjson::SUCCESS)
      return refuse("added_tokens is not an array");
    for (const dom::element element : tokens) {
      TRY_VOID(
          read_added_token(element, "added_tokens[" + std::to_string(file_.added.size()) + "]"));
    }
    return {};
  }

  Result<void> read_added_token(const dom::element& element, const std::string& where) {
    dom::object token;
    dom::element id_value;
    if (element.get(token) != simdjson::SUCCESS ||
        token.at_key("id").get(id_value) != simdjson::SUCCESS) {
      return refuse(where + " is not an object with an id");
    }
    const auto valid = valid_id(id_value);
    if (!valid)
      return refuse(where + " has" + std::string(kNoValidId));
    const TokenId id = *valid;
    const std::string_view content = string_or_empty(token, "content");
    if (content.empty())
      return refuse(where + " has no content");
    for (const std::string_view option : {"single_word", "lstrip", "rstrip"}) {
      if (!is_off(token, option))
        return refuse(where + " sets " + std::string(option));
    }
    // One of the vocabulary may be listed here too, under its own id; ids_ then knows it already.
    const bool known = file_.bytes.contains(id);
    const auto [spelled, fresh] = ids_.emplace(content, id);
    if (known == fresh || spelled->second != id) {
      return refuse(where + ": " + in_quotes(content) + " and id " + std::to_string(id) +
                    " are not each other's alone");
    }
    const bool special = bool_or(token, "special", false);
    file_.bytes.set(id, content);
    file_.added.push_back({id, std::string(content), special});
    file_.added_normalized.push_back(bool_or(token, "normalized", !special));
    return {};
  }

  std::string name_;
  TokenizerFile file_;
  std::unordered_map<std::string_view, TokenId>
      ids_;             // by spelling in the file; views into the parsed document
  std::string joined_;  // reused from merge to merge
  std::string bytes_;   // reused from piece to piece
};

}  // namespace

Result<TokenizerFile> parse_tokenizer_file(std::string_view json, std::string_view name) {
  dom::parser parser;
  dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document)) {
    return fail(Code::kMisconfigured,
                std::string(name) + ": not valid JSON (" + simdjson::error_message(error) +
                    "); copy the model's tokenizer.json again");
  }
  return FileReader(name).read(document);
}

}  // namespace shoal
