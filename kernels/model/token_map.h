// Which tokens count as the same word for Engram: canonical text and compressed ids (model
// spec 3.10).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/result.h"

namespace shoal::kernels {

// Canonical form of one token's text, which must be valid UTF-8; empty if nothing is left.
std::string canonical_text(std::string_view utf8);

// Token id -> compressed id, from DIR/tokenizer.json; `compressed` is the number of distinct ids.
struct TokenMap {
  std::vector<std::int32_t> ids;
  std::int64_t compressed = 0;
};

Result<TokenMap> read_token_map(const std::filesystem::path& directory);
// The same from the text of a tokenizer.json.
Result<TokenMap> parse_token_map(std::string_view json, std::string_view name_for_errors);

}  // namespace shoal::kernels
