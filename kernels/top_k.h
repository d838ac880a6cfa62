// Which entries a row attends to: the best scores, and the blocks of positions that may compete
// (model spec 3.8).
//
// One tie rule everywhere: higher score first, then the lower position. A score of -inf (or NaN) is
// never selected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace shoal::kernels {

// At most k positions, ascending; scores[i] belongs to position i.
std::vector<std::int64_t> select_top(std::span<const float> scores, std::int64_t k);

// The same where scores belong to the positions of `ranges` (ascending, disjoint), one after the
// other, as index_scores writes.
std::vector<std::int64_t> select_top(std::span<const float> scores,
                                     std::span<const EntryRange> ranges,
                                     std::int64_t k);

// Level one of the two-level top-k: at most `keep` blocks of `block` positions, ascending, by their
// best score among the first `visible` positions. The block of the newest visible position is
// always kept. scores holds at least `visible` values.
std::vector<std::int64_t> candidate_blocks(std::span<const float> scores,
                                           std::int64_t visible,
                                           std::int64_t keep,
                                           std::int64_t block);

// The positions of candidate blocks that are visible, as ranges for index_scores. Neighbouring
// blocks become one range.
std::vector<EntryRange> candidate_ranges(std::span<const std::int64_t> blocks,
                                         std::int64_t visible,
                                         std::int64_t block);

}  // namespace shoal::kernels
