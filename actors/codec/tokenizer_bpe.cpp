// Numbers the vocabulary for the merge engines and picks the engine that is exact for it.
#include "actors/codec/tokenizer_bpe.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "actors/codec/tokenizer_pieces.h"

namespace shoal {
namespace {

constexpr Symbol kUnnumbered = ~0u;

// Of each symbol, whether its bytes encode to it alone.
std::vector<bool> find_reachable(const MergeTable& table, const std::vector<std::string_view>& symbol_bytes) {
  std::vector<bool> reachable;
  reachable.reserve(symbol_bytes.size());
  RankEncoder encoder(table);
  std::vector<Symbol> encoded;
  for (Symbol symbol = 0; symbol < symbol_bytes.size(); ++symbol) {
    encoded.clear();
    encoder.encode(symbol_bytes[symbol], encoded);
    reachable.push_back(encoded.size() == 1 && encoded[0] == symbol);
  }
  return reachable;
}

}  // namespace

SymbolVocabulary number_symbols(const TokenizerFile& file) {
  SymbolVocabulary vocabulary;
  std::vector<Symbol> numbers(static_cast<std::size_t>(file.bytes.end()), kUnnumbered);
  const auto symbol_of = [&](TokenId id) {
    Symbol& symbol = numbers[static_cast<std::size_t>(id)];
    if (symbol == kUnnumbered) {
      symbol = static_cast<Symbol>(vocabulary.tokens.size());
      vocabulary.tokens.push_back(id);
    }
    return symbol;
  };
  for (const TokenId id : file.byte_tokens) symbol_of(id);
  for (const FileMerge& merge : file.merges) symbol_of(merge.product);
  for (const FileMerge& merge : file.merges) {
    vocabulary.merges.push_back({symbol_of(merge.left), symbol_of(merge.right), symbol_of(merge.product)});
  }
  return vocabulary;
}

BytePairEncoder::BytePairEncoder(const TokenizerFile& file) : BytePairEncoder(file, number_symbols(file)) {}

BytePairEncoder::BytePairEncoder(const TokenizerFile& file, SymbolVocabulary vocabulary)
    : tokens_(std::move(vocabulary.tokens)), table_(std::move(vocabulary.merges)) {
  std::vector<std::string_view> symbol_bytes;
  symbol_bytes.reserve(tokens_.size());
  for (const TokenId token : tokens_) symbol_bytes.push_back(file.bytes.of(token));
  const std::vector<bool> reachable = find_reachable(table_, symbol_bytes);
  std::vector<std::pair<std::string_view, TokenId>> pieces;
  for (std::size_t symbol = 0; symbol < tokens_.size(); ++symbol) {
    const std::string_view bytes = symbol_bytes[symbol];
    if (reachable[symbol] && bytes.size() <= PieceMap::kLongest) pieces.emplace_back(bytes, tokens_[symbol]);
  }
  whole_.emplace(pieces);
  const bool all_reachable = std::all_of(reachable.begin(), reachable.end(), [](bool yes) { return yes; });
  if (all_reachable && BacktrackEncoder::fits(table_)) backtrack_.emplace(table_, symbol_bytes);
}

void BytePairEncoder::encode(std::string_view text, std::vector<TokenId>& out) const {
  const char* const end = text.data() + text.size();
  BacktrackEncoder::Scratch scratch;
  RankEncoder by_rank(table_);
  std::vector<Symbol> symbols;
  for (const char* at = text.data(); at != end;) {
    const char* const next = piece_end(at, end);
    const std::string_view piece(at, static_cast<std::size_t>(next - at));
    at = next;
    if (piece.size() <= PieceMap::kLongest) {
      if (const TokenId token = whole_->find(piece, end); token != PieceMap::kNone) {
        out.push_back(token);
        continue;
      }
    }
    symbols.clear();
    if (backtrack_) {
      backtrack_->encode(piece, scratch, symbols);
    } else {
      by_rank.encode(piece, symbols);
    }
    for (const Symbol symbol : symbols) out.push_back(tokens_[symbol]);
  }
}

}  // namespace shoal
