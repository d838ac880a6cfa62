// What a request takes from blocks that an earlier one computed, and where it starts behind them.
// The windows of a hit are not stored: they are made anew from rows before its end.
//
// bounded: the last window of the hit runs again through the encoder half, as if nothing were
// before it (spec/model.md 6: bounded replay). exact: each layer's window reaches one window
// further back, so layers x window rows run again, and everything behind the hit has the bits of a
// run without it.
#pragma once

#include "schemas/basis.h"
#include "schemas/ids.h"

namespace shoal {

struct KvReuse {
  Position hit = 0;    // H: leading tokens whose KV is loaded; whole blocks
  Position start = 0;  // first row that runs; rows below the hit write windows only

  friend bool operator==(const KvReuse&, const KvReuse&) = default;
};

// Of `available` leading tokens (whole blocks) of a prompt. Nothing, where reuse saves no row; at
// least the last token of the prompt is left, whose logits are wanted.
KvReuse plan_reuse(
    BasisMode mode, Position prompt, Position available, Position window, int layers);

// Fixed with the first placement. `lineage`: of the blocks below the hit.
Basis first_basis(BasisMode mode,
                  Position prompt,
                  Position window,
                  const KvReuse& reuse = {},
                  std::uint64_t lineage = 0);

}  // namespace shoal
