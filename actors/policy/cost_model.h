// Predicts how long a step takes, and how many rows fit a time: T = step + row * c + pair * (c * s
// + c^2 / 2) for c rows after s tokens. Every scheduler spends this one unit (ns). Integers in,
// integers out: the same decision on every machine.
#pragma once

#include <cstdint>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct CostCoefficients {
  Nanos step{0};            // t0: fixed time of a step
  std::int64_t row_ps = 1;  // alpha: one row, picoseconds
  std::int64_t pair_fs =
      0;  // beta: one row looking at one earlier token, femtoseconds; at most 1e6
};

class CostModel {
 public:
  explicit CostModel(const CostCoefficients& coefficients) : k_(coefficients) {}

  // A step of one chunk: `rows` rows after `start` tokens.
  Nanos chunk(std::int64_t rows, Position start) const { return k_.step + rows_only(rows, start); }

  // The same without the fixed time of the step: what one more chunk adds to a step. Over all of a
  // prompt: its work.
  Nanos rows_only(std::int64_t rows, Position start) const;
  // A decode step of `rows` sequences which hold `kv_tokens` tokens together.
  Nanos decode_step(std::int64_t rows, std::int64_t kv_tokens) const;

  // Most rows after `start` whose rows_only() stays within `budget`, ending on a block border: a
  // multiple of the block, at least up to the next border, at most `remaining` (the last chunk is
  // the exact rest).
  std::int64_t fit_chunk(Nanos budget, Position start, std::int64_t remaining) const;

 private:
  CostCoefficients k_;
};

}  // namespace shoal
