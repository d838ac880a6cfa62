// A step of a sequence is known when it was read; what is launched before that, the device
// resolves.
#include "actors/decode_sequence.h"

#include <algorithm>
#include <span>
#include <utility>

#include "actors/kv_names.h"
#include "actors/step_results.h"
#include "schemas/checksum.h"

namespace shoal {
namespace {

DraftedRequest drafts_made(const std::vector<float>& confidence) {
  DraftedRequest made;
  made.drafts = static_cast<int>(std::min(confidence.size(), made.confidence.size()));
  std::copy_n(confidence.begin(), made.drafts, made.confidence.begin());
  return made;
}

}  // namespace

DecodeSequence decode_sequence(Handover handover) {
  auto rules = sample_rules(handover.placement, handover.position, handover.answered);
  return {.at = std::move(handover), .rules = std::move(rules)};
}

kernels::RowRun decode_run(const DecodeSequence& sequence, const DecodeStep& step) {
  const Handover& at = sequence.at;
  kernels::RowRun run;
  run.sequence = at.kv->sequence();
  run.encoder_floor = at.placement->basis.replay_floor;
  run.decoder_floor = at.placement->basis.tail_start;
  run.blocks = at.kv->blocks();
  run.sample = true;
  run.rules = sequence.rules;
  run.feeds_drafts = step.feeds_drafts;
  run.drafts = step.drafts;
  if (sequence.runs_on) {
    run.continues = true;
    run.verifies = step.verifies;
  } else {
    run.first = at.position;
    run.tokens = {at.token};
    run.sampling = sample_spec(*at.placement, at.answered, at.seen);
  }
  return run;
}

std::optional<kernels::BlockSave> block_to_save(const DecodeSequence& sequence,
                                                std::size_t run,
                                                Position rows) {
  const Position position = sequence.at.position;
  const auto block = static_cast<std::size_t>(position / kBlockTokens);
  const Position end = static_cast<Position>(block + 1) * kBlockTokens;
  if (sequence.at.placement->kv == nullptr || position + rows < end ||
      block >= sequence.at.kv->blocks().size()) {
    return std::nullopt;
  }
  return kernels::BlockSave{run, sequence.at.kv->blocks()[block], end};
}

void add_to(StepTally& tally, DecodeSequence& sequence, const kernels::RunResult& result) {
  tally.work.add(1, sequence.at.position);
  tally.rows += 1 + result.verified;
  tally.drawn += std::ssize(result.drawn);
  if (result.verified > 0) {
    const auto accepted = static_cast<int>(result.drawn.size()) - 1;
    tally.outcomes.push_back({sequence.drafted.confidence, result.verified, accepted});
    sequence.verified += result.verified;
    sequence.accepted += accepted;
  }
  sequence.drafted = drafts_made(result.confidence);
  if (sequence.drafted.drafts > 0) {
    ++tally.drafted;
    tally.made.push_back(sequence.drafted);
  }
}

std::optional<SavedBlock> extend_over(DecodeSequence& sequence,
                                      const kernels::RunResult& result,
                                      const kernels::BlockBytes& saved) {
  const Placement& placement = *sequence.at.placement;
  KvChain& chain = sequence.at.chain;
  std::optional<SavedBlock> complete;
  for (std::size_t row = 0; row < result.drawn.size(); ++row) {
    const TokenId token = row == 0 ? sequence.at.token : result.drawn[row - 1].token;
    auto block = extend(chain, token);
    if (block && saved != nullptr) {
      block->number = static_cast<std::uint32_t>(
          (sequence.at.position + static_cast<Position>(row)) / kBlockTokens);
      block->provenance = provenance_of(placement.basis);
      block->ttl = placement.submission->ttl;
      chain.lineage = next_lineage(chain.lineage, block->key, block->provenance, crc32c(*saved));
      complete = SavedBlock{placement.kv->root, *block, saved};
    }
  }
  return complete;
}

}  // namespace shoal
