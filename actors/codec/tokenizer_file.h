// Reads a tokenizer.json and refuses whatever the encoder here would not follow exactly.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/tokenizer.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

// Ids stay below this: a pair of pieces and a rank share 64 bits (tokenizer_merges.h).
// DeepSeek-V4.1 has 129,280.
inline constexpr TokenId kTokenIdsMax = (TokenId{1} << 21) - 2;

// The bytes of every token, in one block of memory.
class TokenBytes {
 public:
  bool contains(TokenId id) const {
    return id >= 0 && id < end() && spans_[static_cast<std::size_t>(id)].size != 0;
  }

  std::string_view of(TokenId id) const;
  void set(TokenId id, std::string_view bytes);  // not empty; the first one set for an id stays

  TokenId end() const { return static_cast<TokenId>(spans_.size()); }

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };

  std::string joined_;
  std::vector<Span> spans_;
};

struct FileMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId product = 0;
};

struct TokenizerFile {
  TokenBytes bytes;  // of pieces and added tokens
  std::array<TokenId, 256> byte_tokens{};
  std::vector<FileMerge>
      merges;  // by rank; a pair occurs once, the product's bytes are those of left and right
  std::vector<AddedToken> added;
  std::vector<bool> added_normalized;  // by place in `added`: these are looked for after the others
};

// `name` stands in front of error messages.
Result<TokenizerFile> parse_tokenizer_file(std::string_view json, std::string_view name);

}  // namespace shoal
