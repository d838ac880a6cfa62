// Records how long steps of many shapes take on a device: for the cost model, which must predict
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/policy/cost_model.h"
#include "kernels/backend.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::tools {

// `runs` equal runs: `rows` rows after `start` tokens each, the last `deep` of them through the
// decoder half, too. Of decode: a row each, which runs every layer.
struct StepShape {
  bool decode = false;
  std::int64_t runs = 1;
  std::int64_t rows = 1;
  Position start = 0;
  std::int64_t deep = 0;

  // As the group of its stage tells it to its fit.
  StepWork work() const;
};

// Medians, by two clocks: other programs make the second longer, not the first. 0: there was no
// time for it.
struct RecordedStep {
  StepShape shape;
  Nanos took{0};  // by the calling thread (the device must run on it)
  Nanos wall{0};
};

struct Record {
  std::vector<RecordedStep> steps;  // of step_shapes(), in their order
  int times = 0;                    // that each ran, at least
};

// Prefill of up to 1,024 rows behind up to 7,168 tokens, in one run and in several; decode of up to
// 16 answers of up to 7,168 tokens.
std::vector<StepShape> step_shapes();

// What a device needs to record them.
inline constexpr std::int64_t kRecorderBlocks = 2'048;
inline constexpr std::int64_t kRecorderSequences = 64;

// Each shape `repeats` times, in turn with all others: what slows the machine down for a while
// slows down one time of many shapes, not all times of one. No further shape is begun after `most`;
// shapes come in a shuffled order, so that what is left out is of all kinds.
Result<Record> record_steps(kernels::Backend& backend, int repeats, Nanos most);

}  // namespace shoal::tools
