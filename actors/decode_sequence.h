// An answer in the batch of a decode rank, as it is known behind the last step that was read: one
// or two more may be on the device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "actors/interfaces.h"
#include "kernels/launch_queue.h"

namespace shoal {

struct DecodeSequence {
  Handover at;
  std::shared_ptr<const kernels::SampleRules> rules;
  bool runs_on = false;                 // the device had a step of it, and knows how it goes on
  DraftedRequest drafted{.drafts = 0};  // by the last step, as the head says
  // Drafts of it here.
  std::int64_t verified = 0;
  std::int64_t accepted = 0;
};

DecodeSequence decode_sequence(Handover handover);

// Its rows in the next step.
kernels::RowRun decode_run(const DecodeSequence& sequence, const DecodeStep& step);

// The block that one of its next `steps` steps may complete, if it is to be stored.
std::optional<kernels::BlockSave> block_to_save(const DecodeSequence& sequence,
                                                std::size_t run,
                                                Position rows);

// Adds what a step says of it, the tokens and the work.
void add_to(StepTally& tally, DecodeSequence& sequence, const kernels::RunResult& result);

// The chain goes on over the rows that stay. The block that they complete, with its bytes.
std::optional<SavedBlock> extend_over(DecodeSequence& sequence,
                                      const kernels::RunResult& result,
                                      const kernels::BlockBytes& saved);

}  // namespace shoal
