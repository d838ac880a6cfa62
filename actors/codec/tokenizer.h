// Text to token ids and back, as one model's tokenizer.json says.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/tokenizer_utf8.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

// A token outside the merges with a spelling of its own: control tokens, tags, placeholders.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;
};

// Immutable after load: any number of threads may share one. Byte-level BPE with DeepSeek's
// pre-tokenizer; a file of another kind is refused. The time to encode is linear in the text.
class Tokenizer {
 public:
  // Errors are kMisconfigured, name the file and say what does not fit.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& tokenizer_json);
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json,
                                                        std::string_view name_for_errors);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Plain text, valid UTF-8: spellings of added tokens are text like any other. The first form
  // appends.
  void encode(std::string_view text, std::vector<TokenId>& out) const;
  std::vector<TokenId> encode(std::string_view text) const;

  // Spellings of added tokens become their single id. Only for text that the operator or the
  // template wrote.
  std::vector<TokenId> encode_parsed(std::string_view text) const;

  // Raw bytes of a token, not always whole characters; an added token gives its spelling, an
  // unknown id nothing.
  std::string_view bytes(TokenId id) const;
  bool contains(TokenId id) const;

  std::optional<TokenId> added_id(std::string_view spelling) const;
  std::optional<std::string_view> added_spelling(TokenId id) const;
  const std::vector<AddedToken>& added_tokens() const;

  // Largest id + 1; ids below may be unused, see contains().
  TokenId vocabulary_size() const;

 private:
  struct Tables;
  explicit Tokenizer(std::unique_ptr<const Tables> tables);

  std::unique_ptr<const Tables> tables_;
};

// The joined raw bytes; ids outside the vocabulary give nothing.
std::string decode_bytes(const Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace shoal
