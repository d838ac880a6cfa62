// Canonicalises the text of every token and numbers the distinct results in token order.
#include "kernels/model/token_map.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <simdjson.h>
#include <unordered_map>
#include <utf8proc.h>
#include <utility>

#include "kernels/model/json.h"
#include "schemas/check.h"

namespace shoal::kernels {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

// Unicode White_Space. (U+001C..1F count as space elsewhere, not here.)
bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// The only characters whose runs collapse.
bool is_blank(char32_t c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_mark(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

// NFKD, which is what NFKC followed by NFD gives.
std::u32string decompose(std::string_view utf8) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(utf8, is_ascii)) {
    return {utf8.begin(), utf8.end()};
  }
  constexpr auto kOptions =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  const auto length = static_cast<utf8proc_ssize_t>(utf8.size());
  std::vector<utf8proc_int32_t> buffer(utf8.size());
  for (;;) {
    const auto room = static_cast<utf8proc_ssize_t>(buffer.size());
    const auto count = utf8proc_decompose(bytes, length, buffer.data(), room, kOptions);
    CHECK(count >= 0);
    buffer.resize(static_cast<std::size_t>(count));
    if (count <= room) {
      return {buffer.begin(), buffer.end()};
    }
  }
}

std::string encode(std::u32string_view text) {
  std::string utf8;
  for (const char32_t c : text) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    utf8.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
  }
  return utf8;
}

constexpr std::size_t kAlphabetEnd = 256 + 68;  // 68 bytes are not printable

// The byte of each character of the byte-level alphabet, -1 for others: printable Latin-1
// characters stand for themselves, the other bytes take the characters from U+0100 on, in order.
constexpr std::array<std::int16_t, kAlphabetEnd> byte_alphabet() {
  std::array<std::int16_t, kAlphabetEnd> alphabet{};
  alphabet.fill(-1);
  std::size_t next = 256;
  for (std::int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    alphabet[printable ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return alphabet;
}

// A token's bytes; nothing if a character is outside the alphabet. `piece` is valid UTF-8.
std::optional<std::string> to_bytes(std::string_view piece) {
  static constexpr auto kAlphabet = byte_alphabet();
  std::string bytes;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(piece.data());
  for (auto left = static_cast<utf8proc_ssize_t>(piece.size()); left > 0;) {
    utf8proc_int32_t c = -1;
    const auto read = utf8proc_iterate(at, left, &c);
    const auto index = static_cast<std::size_t>(c);
    if (read <= 0 || index >= kAlphabet.size() || kAlphabet[index] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet[index]));
    at += read;
    left -= read;
  }
  return bytes;
}

struct Piece {
  std::string_view text;
  bool is_added = false;
  bool is_set = false;
};

// What tells tokens apart; nothing if the piece is not byte-level.
std::optional<std::string> key_of(const Piece& piece) {
  auto text = piece.is_added ? std::string(piece.text) : to_bytes(piece.text);
  if (!text) {
    return std::nullopt;
  }
  // Part of a character: such tokens are distinct words under their raw names.
  if (!simdjson::validate_utf8(text->data(), text->size()) ||
      text->find(kReplacement) != std::string::npos) {
    return std::string(piece.text);
  }
  auto canonical = canonical_text(*text);
  return canonical.empty() ? std::move(text) : std::move(canonical);
}

Result<void> put(std::vector<Piece>& pieces, simdjson::dom::element id_field, Piece piece) {
  std::uint64_t id = 0;
  if (id_field.get(id) != simdjson::SUCCESS || id >= pieces.size()) {
    return fail(Code::kMisconfigured,
                "token \"" + std::string(piece.text) + "\" has no id below the number of tokens");
  }
  pieces[id] = piece;
  pieces[id].is_set = true;
  return {};
}

// All tokens by id; added tokens win. Views into the document.
Result<std::vector<Piece>> collect(simdjson::dom::element root) {
  simdjson::dom::object vocab;
  if (root["model"]["vocab"].get(vocab) != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured, "has no object model.vocab");
  }
  simdjson::dom::array added;
  if (root["added_tokens"].get(added) != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured, "has no array added_tokens");
  }
  std::vector<Piece> pieces(vocab.size() + added.size());
  for (const auto& [text, id] : vocab) {
    TRY_VOID(put(pieces, id, {text}));
  }
  for (const auto token : added) {
    std::string_view content;
    simdjson::dom::element id;
    if (token["content"].get(content) != simdjson::SUCCESS ||
        token["id"].get(id) != simdjson::SUCCESS) {
      return fail(Code::kMisconfigured, "added_tokens has an entry without id or content");
    }
    TRY_VOID(put(pieces, id, {content, true}));
  }
  // An added token may replace one of the vocabulary: then the list is shorter.
  while (!pieces.empty() && !pieces.back().is_set) {
    pieces.pop_back();
  }
  return pieces;
}

Result<TokenMap> number(const std::vector<Piece>& pieces) {
  TokenMap map;
  std::unordered_map<std::string, std::int32_t> seen;
  seen.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const std::string id = std::to_string(map.ids.size());
    if (!piece.is_set) {
      return fail(Code::kMisconfigured, "has no token with id " + id);
    }
    auto key = key_of(piece);
    if (!key) {
      return fail(Code::kMisconfigured, "token " + id + " is not in the byte-level alphabet");
    }
    const auto next = static_cast<std::int32_t>(seen.size());
    map.ids.push_back(seen.try_emplace(*std::move(key), next).first->second);
  }
  map.compressed = static_cast<std::int64_t>(seen.size());
  return map;
}

}  // namespace

std::string canonical_text(std::string_view utf8) {
  std::u32string text;
  for (const char32_t c : decompose(utf8)) {
    if (is_mark(c)) {
      continue;
    }
    // Per character: no final-sigma rule. U+0130, whose lower case is two characters, never gets
    // here: it was decomposed.
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    if (!is_blank(lower)) {
      text.push_back(lower);
    } else if (text.empty() || text.back() != U' ') {
      text.push_back(U' ');
    }
  }
  if (text == U" ") {
    return " ";
  }
  const auto first = std::ranges::find_if_not(text, is_space);
  const auto last = std::find_if_not(text.rbegin(), std::make_reverse_iterator(first), is_space);
  return encode({first, last.base()});
}

Result<TokenMap> parse_token_map(std::string_view json, std::string_view name_for_errors) {
  TRY(const auto document, JsonDocument::parse(json, name_for_errors));
  auto map = collect(document.root()).and_then(number);
  if (!map) {
    return fail(Code::kMisconfigured,
                std::string(name_for_errors) + ": " + map.error().message +
                    ": pass the model's own byte-level tokenizer");
  }
  return map;
}

Result<TokenMap> read_token_map(const std::filesystem::path& directory) {
  const auto path = directory / "tokenizer.json";
  TRY(const auto text, read_text(path));
  return parse_token_map(text, path.string());
}

}  // namespace shoal::kernels
