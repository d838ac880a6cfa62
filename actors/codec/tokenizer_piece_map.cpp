// Fills the open-addressed table of whole pieces, at most half full.
#include "actors/codec/tokenizer_piece_map.h"

#include "schemas/check.h"

namespace shoal {

PieceMap::PieceMap(const std::vector<std::pair<std::string_view, TokenId>>& pieces) {
  slots_.resize(std::bit_ceil(2 * pieces.size() + 2));
  shift_ = 64 - static_cast<std::uint32_t>(std::countr_zero(slots_.size()));
  for (const auto& [piece, token] : pieces) {
    CHECK(!piece.empty() && piece.size() <= kLongest);
    const Key key = key_of(piece, piece.data() + piece.size());
    std::size_t slot = hash_of(key) >> shift_;
    while (slots_[slot].token != kNone)
      slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {key, token};
  }
}

}  // namespace shoal
