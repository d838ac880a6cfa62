// Numbers the vocabulary for the merge engines and picks the engine that is exact for it.
#include "actors/codec/tokenizer_bpe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "actors/codec/tokenizer_pieces.h"

namespace shoal {
namespace {

constexpr Symbol kUnnumbered = ~0u;

// Of each symbol, whether its bytes encode to it alone.
std::vector<bool> find_reachable(const MergeTable& table,
                                 const std::vector<std::string_view>& symbol_bytes) {
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

// Remembers what short pieces were merged to, within one text: names and rare words repeat.
// Direct-mapped, 64 KB.
class MergeCache {
 public:
  struct Entry {
    PieceMap::Key piece;  // all zeros: free
    std::array<TokenId, 3> tokens{};
    std::uint32_t count = 0;
  };

  Entry& place_of(const PieceMap::Probe& probe) { return entries_[probe.slot & (kEntries - 1)]; }

 private:
  static constexpr std::size_t kEntries = 2048;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

// Shorter texts would pay more for the empty cache than it saves.
constexpr std::size_t kCachedText = 16 * 1024;

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
  for (const TokenId id : file.byte_tokens)
    symbol_of(id);
  for (const FileMerge& merge : file.merges)
    symbol_of(merge.product);
  for (const FileMerge& merge : file.merges) {
    vocabulary.merges.push_back(
        {symbol_of(merge.left), symbol_of(merge.right), symbol_of(merge.product)});
  }
  return vocabulary;
}

// What one call of encode() works with.
class BytePairEncoder::Merger {
 public:
  Merger(const BytePairEncoder& encoder, std::size_t text_size, std::vector<TokenId>& out)
      : encoder_(encoder),
        by_rank_(encoder.table_),
        out_(out) {
    if (text_size >= kCachedText)
      cache_.emplace();
  }

  void merge(std::string_view piece) {
    symbols_.clear();
    if (encoder_.backtrack_) {
      encoder_.backtrack_->encode(piece, scratch_, symbols_);
    } else {
      by_rank_.encode(piece, symbols_);
    }
    for (const Symbol symbol : symbols_)
      out_.push_back(encoder_.tokens_[symbol]);
  }

  void merge_short(std::string_view piece, const PieceMap::Probe& probe) {
    if (!cache_)
      return merge(piece);
    MergeCache::Entry& entry = cache_->place_of(probe);
    if (entry.piece == probe.key) {
      out_.insert(out_.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
      return;
    }
    const std::size_t before = out_.size();
    merge(piece);
    const std::size_t count = out_.size() - before;
    if (count > entry.tokens.size())
      return;
    entry.piece = probe.key;
    entry.count = static_cast<std::uint32_t>(count);
    std::copy_n(out_.end() - static_cast<std::ptrdiff_t>(count), count, entry.tokens.begin());
  }

 private:
  const BytePairEncoder& encoder_;
  BacktrackEncoder::Scratch scratch_;
  RankEncoder by_rank_;
  std::vector<Symbol> symbols_;
  std::optional<MergeCache> cache_;
  std::vector<TokenId>& out_;
};

BytePairEncoder::BytePairEncoder(const TokenizerFile& file)
    : BytePairEncoder(file, number_symbols(file)) {}

BytePairEncoder::BytePairEncoder(const TokenizerFile& file, SymbolVocabulary vocabulary)
    : tokens_(std::move(vocabulary.tokens)),
      table_(std::move(vocabulary.merges)) {
  std::vector<std::string_view> symbol_bytes;
  symbol_bytes.reserve(tokens_.size());
  for (const TokenId token : tokens_)
    symbol_bytes.push_back(file.bytes.of(token));
  const std::vector<bool> reachable = find_reachable(table_, symbol_bytes);
  std::vector<std::pair<std::string_view, TokenId>> pieces;
  for (std::size_t symbol = 0; symbol < tokens_.size(); ++symbol) {
    const std::string_view bytes = symbol_bytes[symbol];
    if (reachable[symbol] && bytes.size() <= PieceMap::kLongest)
      pieces.emplace_back(bytes, tokens_[symbol]);
  }
  whole_.emplace(pieces);
  const bool all_reachable =
      std::all_of(reachable.begin(), reachable.end(), [](bool yes) { return yes; });
  if (all_reachable && BacktrackEncoder::fits(table_))
    backtrack_.emplace(table_, symbol_bytes);
}

// Pieces are taken in batches so that their look-ups wait for memory together.
void BytePairEncoder::encode(std::string_view text, std::vector<TokenId>& out) const {
  struct Piece {
    std::string_view text;
    PieceMap::Probe probe;
  };

  constexpr std::size_t kBatch = 16;
  std::array<Piece, kBatch> batch;
  Merger merger(*this, text.size(), out);
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    std::size_t count = 0;
    for (; count < kBatch && at != end; ++count) {
      const char* const next = piece_end(at, end);
      Piece& piece = batch[count];
      piece.text = {at, static_cast<std::size_t>(next - at)};
      if (piece.text.size() <= PieceMap::kLongest)
        piece.probe = whole_->start(piece.text, end);
      at = next;
    }
    for (const Piece& piece : std::span(batch).first(count)) {
      if (piece.text.size() > PieceMap::kLongest) {
        merger.merge(piece.text);
      } else if (const TokenId token = whole_->finish(piece.probe); token != PieceMap::kNone) {
        out.push_back(token);
      } else {
        merger.merge_short(piece.text, piece.probe);
      }
    }
  }
}

}  // namespace shoal
