// Predicts how long a step takes, and how many rows fit a time. For c rows after s tokens:
// T = step + row * c + near * N + pair * (c * s + c^2 / 2), where N is what the rows see close by:
// min(position, kNear) each. Rows that also run the decoder half cost that on top. Every scheduler
// spends this one unit (ns). Integers in, integers out: the same decision on every machine.
#pragma once

#include <cstdint>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

// What attention reads of a row's past grows with its position up to here: the window, and about as
// many entries that the index picks. Beyond, only the index itself looks further.
inline constexpr Position kNear = 2 * kBlockTokens;

// Each at least 0 and at most what CostModel bounds it to.
struct CostCoefficients {
  Nanos step{0};                 // t0: fixed time of a step
  std::int64_t row_ps = 1;       // alpha: one row through the encoder half, picoseconds; at least 1
  std::int64_t pair_fs = 0;      // beta: one row looking at one earlier token, femtoseconds
  std::int64_t near_fs = 0;      // one row reading one entry close by, of either half
  std::int64_t deep_row_ps = 0;  // one row through the decoder half
  std::int64_t deep_pair_fs = 0;  // one such row looking at one earlier token
};

// What a group says of its steps: what they cost, how much longer than predicted all but one in
// twenty took at most (millionths of the prediction), and how many that was learned from.
inline constexpr std::int64_t kMostLatePpm = 1'000'000'000;

struct CostReport {
  CostCoefficients coefficients;
  std::int64_t late_ppm = 0;
  std::int64_t steps = 0;
};

// What a step has to do, in the units of the coefficients.
struct StepWork {
  std::int64_t rows = 0;
  std::int64_t near = 0;  // of both halves
  std::int64_t pairs = 0;
  std::int64_t deep_rows = 0;
  std::int64_t deep_pairs = 0;

  // `rows` rows after `start` tokens; the last `deep` tokens of these run the decoder half, too
  // (more than `rows`: some that were kept before).
  void add(std::int64_t run_rows, Position start, std::int64_t deep = 0);
};

class CostModel {
 public:
  explicit CostModel(const CostCoefficients& coefficients);

  const CostCoefficients& coefficients() const { return k_; }

  Nanos step(const StepWork& work) const;

  // A step of one chunk: `rows` rows after `start` tokens.
  Nanos chunk(std::int64_t rows, Position start) const { return k_.step + rows_only(rows, start); }

  // The same without the fixed time of the step: what one more chunk adds to a step. Over all of a
  // prompt: its work.
  Nanos rows_only(std::int64_t rows, Position start, std::int64_t deep = 0) const;
  // A decode step of `rows` sequences which hold `kv_tokens` tokens together.
  Nanos decode_step(std::int64_t rows, std::int64_t kv_tokens) const;

  // Most rows after `start` whose rows_only() stays within `budget`, ending on a block border: a
  // multiple of the block, at least up to the next border, at most `remaining` (the last chunk is
  // the exact rest).
  std::int64_t fit_chunk(Nanos budget, Position start, std::int64_t remaining) const;

  // For rows of every layer: `row` and `pair` are those of both halves.
  CostModel every_layer() const;

 private:
  Nanos cost_of(const StepWork& work) const;

  CostCoefficients k_;
};

// Bounds within which no cost of a million tokens after a million overflows.
inline constexpr CostCoefficients kMostCost{.step = std::chrono::seconds(10),
                                            .row_ps = 1'000'000'000'000,
                                            .pair_fs = 100'000'000'000,
                                            .near_fs = 100'000'000'000,
                                            .deep_row_ps = 1'000'000'000'000,
                                            .deep_pair_fs = 100'000'000'000};

}  // namespace shoal
