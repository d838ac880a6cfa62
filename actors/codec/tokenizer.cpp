// Joins file, encoder and added tokens to the one interface of the tokenizer.
#include "actors/codec/tokenizer.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <utility>

#include "actors/codec/tokenizer_bpe.h"
#include "actors/codec/tokenizer_file.h"
#include "actors/codec/tokenizer_trie.h"

namespace shoal {
namespace {

// Of the added tokens that are normalized, or of the others: values are token ids.
ByteTrie added_trie(const TokenizerFile& file, bool normalized) {
  std::vector<ByteTrie::Entry> entries;
  for (std::size_t i = 0; i < file.added.size(); ++i) {
    if (file.added_normalized[i] != normalized)
      continue;
    entries.push_back({file.added[i].text, static_cast<std::uint32_t>(file.added[i].id)});
  }
  return ByteTrie(std::move(entries));
}

// Calls plain(stretch) and token(id) in the order of the text; the leftmost spelling wins, of those
// the longest.
template <class Plain, class Token>
void split_at_added(const ByteTrie& added,
                    std::string_view text,
                    Plain&& plain,
                    Token&& token,
                    const TokenBytes& bytes) {
  std::size_t plain_begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t found = added.longest(text.substr(at));
    if (found == ByteTrie::kNone) {
      ++at;
      continue;
    }
    const auto id = static_cast<TokenId>(found);
    plain(text.substr(plain_begin, at - plain_begin));
    token(id);
    at += bytes.of(id).size();
    plain_begin = at;
  }
  plain(text.substr(plain_begin));
}

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto unreadable = [&](const std::string& why) {
    return fail(Code::kMisconfigured,
                path.string() + ": " + why + "; name a readable tokenizer.json");
  };
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error)
    return unreadable(error.message());
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return unreadable(std::generic_category().message(errno));
  std::string text(size, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(size)))
    return unreadable("reading failed");
  return text;
}

}  // namespace

struct Tokenizer::Tables {
  explicit Tables(TokenizerFile parsed)
      : file(std::move(parsed)),
        encoder(file),
        added_first(added_trie(file, false)),
        added_second(added_trie(file, true)) {
    is_added.assign(static_cast<std::size_t>(file.bytes.end()), false);
    for (const AddedToken& token : file.added)
      is_added[static_cast<std::size_t>(token.id)] = true;
  }

  TokenizerFile file;
  BytePairEncoder encoder;
  ByteTrie added_first;   // tried on the text,
  ByteTrie added_second;  // tried on what is left between those: the order of the official program
  std::vector<bool> is_added;  // by id
};

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}

Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(
    const std::filesystem::path& tokenizer_json) {
  TRY(const std::string json, read_file(tokenizer_json));
  return parse(json, tokenizer_json.string());
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json,
                                                          std::string_view name_for_errors) {
  TRY(TokenizerFile file, parse_tokenizer_file(json, name_for_errors));
  return std::shared_ptr<const Tokenizer>(
      new Tokenizer(std::make_unique<const Tables>(std::move(file))));
}

void Tokenizer::encode(std::string_view text, std::vector<TokenId>& out) const {
  tables_->encoder.encode(text, out);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  encode(text, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_parsed(std::string_view text) const {
  std::vector<TokenId> ids;
  const auto push = [&](TokenId id) { ids.push_back(id); };
  const auto plain = [&](std::string_view stretch) { encode(stretch, ids); };
  const auto second = [&](std::string_view stretch) {
    split_at_added(tables_->added_second, stretch, plain, push, tables_->file.bytes);
  };
  split_at_added(tables_->added_first, text, second, push, tables_->file.bytes);
  return ids;
}

std::string_view Tokenizer::bytes(TokenId id) const {
  return tables_->file.bytes.of(id);
}

bool Tokenizer::contains(TokenId id) const {
  return tables_->file.bytes.contains(id);
}

std::optional<TokenId> Tokenizer::added_id(std::string_view spelling) const {
  for (const ByteTrie* trie : {&tables_->added_first, &tables_->added_second}) {
    const std::uint32_t found = trie->longest(spelling);
    if (found != ByteTrie::kNone && bytes(static_cast<TokenId>(found)) == spelling)
      return static_cast<TokenId>(found);
  }
  return std::nullopt;
}

std::optional<std::string_view> Tokenizer::added_spelling(TokenId id) const {
  if (!contains(id) || !tables_->is_added[static_cast<std::size_t>(id)])
    return std::nullopt;
  return bytes(id);
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return tables_->file.added;
}

TokenId Tokenizer::vocabulary_size() const {
  return tables_->file.bytes.end();
}

std::string decode_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string bytes;
  for (const TokenId id : ids)
    bytes.append(tokenizer.bytes(id));
  return bytes;
}

}  // namespace shoal
