// What a request takes from blocks that were computed before, and which rows it runs behind them.
// Windows are not stored: they are made anew from rows before the place where the request goes on.
//
// bounded, first attempt: the last window of the hit runs again through the encoder half, as if
// nothing were before it (spec/model.md 6: bounded replay).
// Else, the reach rule (design 5): what a row sees reaches one window back in every layer, so rows
// that far back run again with truncated windows, and everything from the place on has the bits of
// a run that never stopped. E encoder layers, D decoder layers, L both, W the window, e the first
// position to sample, p the end of the loaded KV: encoder rows from min(e - L W, p - E W), decoder
// rows from e - D W. This also holds for the prompt of an exact request without a hit: its decoder
// half runs for the last D W rows alone.
#pragma once

#include <optional>

#include "schemas/basis.h"
#include "schemas/ids.h"

namespace shoal {

// How far a row looks back.
struct Reach {
  Position window = 0;
  int encoder_layers = 0;
  int decoder_layers = 0;
};

// Where the rows of a prefill begin. Rows before the `whole` places see nothing before the first
// row of their half, and what is cut off in them does not reach the place that counts.
struct KvReuse {
  Position hit = 0;            // leading tokens whose KV is loaded, whole blocks; rows below it
                               // write windows only
  Position start = 0;          // first row that runs
  Position encoder_whole = 0;  // from here on windows of the encoder half are those of the basis
  Position decoder_start = 0;  // first row of the decoder half
  Position decoder_whole = 0;

  friend bool operator==(const KvReuse&, const KvReuse&) = default;
};

struct ReuseAsk {
  BasisMode mode = BasisMode::kBounded;
  Position prompt = 0;
  Position total = 0;            // with the tokens that the client already has
  std::optional<Basis> basis{};  // of the attempts before
};

// Behind `available` leading tokens (whole blocks). At least the last token is left, whose logits
// are wanted. A bounded request keeps its basis with at least the hit that it began with, and else
// is computed as if it were new.
KvReuse plan_reuse(const ReuseAsk& ask, Position available, const Reach& reach);

// Of a first attempt. `lineage`: of the blocks below the hit.
Basis first_basis(BasisMode mode,
                  Position prompt,
                  Position window,
                  const KvReuse& reuse = {},
                  std::uint64_t lineage = 0);

}  // namespace shoal
