// Encodes plain text with one model's vocabulary: looks whole pieces up and merges the others.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "actors/codec/tokenizer_backtrack.h"
#include "actors/codec/tokenizer_file.h"
#include "actors/codec/tokenizer_merges.h"
#include "actors/codec/tokenizer_piece_map.h"
#include "schemas/ids.h"

namespace shoal {

// The vocabulary in the numbering of the merge engines.
struct SymbolVocabulary {
  std::vector<TokenId> tokens;  // by symbol
  std::vector<Merge> merges;    // by rank
};

SymbolVocabulary number_symbols(const TokenizerFile& file);

// Immutable; keeps nothing between calls, so neither time nor memory depends on what others sent
// before.
class BytePairEncoder {
 public:
  explicit BytePairEncoder(const TokenizerFile& file);
  BytePairEncoder(const BytePairEncoder&) = delete;
  BytePairEncoder& operator=(const BytePairEncoder&) = delete;

  // Appends to `out`.
  void encode(std::string_view text, std::vector<TokenId>& out) const;

  // False when the merge list breaks a condition of the linear engine, so that pieces are merged
  // rank by rank.
  bool is_linear() const { return backtrack_.has_value(); }

 private:
  class Merger;
  BytePairEncoder(const TokenizerFile& file, SymbolVocabulary vocabulary);

  std::vector<TokenId> tokens_;  // by symbol
  MergeTable table_;
  std::optional<PieceMap> whole_;  // the short tokens that their own bytes encode to
  std::optional<BacktrackEncoder> backtrack_;
};

}  // namespace shoal
