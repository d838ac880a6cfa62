// Bounded: where the basis of a first attempt says; else as far back as windows reach.
#include "actors/policy/kv_reuse.h"

#include <algorithm>

#include "schemas/check.h"
#include "schemas/units.h"

namespace shoal {
namespace {

Position whole_blocks(Position tokens) {
  return tokens / kBlockTokens * kBlockTokens;
}

Position tail_start(Position prompt, Position window) {
  return std::max<Position>(0, prompt - window);
}

// The first attempt of a bounded request, or one that begins anew.
KvReuse plan_replay(Position prompt, Position available, Position window) {
  const Position hit = whole_blocks(std::min(available, prompt - 1));
  const Position start = std::max<Position>(0, hit - window);
  const Position tail = tail_start(prompt, window);
  return start == 0 ? KvReuse{0, 0, 0, tail, tail} : KvReuse{hit, start, start, tail, tail};
}

// Of a sequence whose windows begin at `low` and `tail`.
KvReuse plan_reach(Position total, Position hit, Position low, Position tail, const Reach& reach) {
  const Position encoder = reach.encoder_layers * reach.window;
  const Position decoder = reach.decoder_layers * reach.window;
  KvReuse reuse;
  reuse.hit = hit;
  reuse.start = std::max(low, std::min(total - encoder - decoder, hit - encoder));
  reuse.encoder_whole = reuse.start + (reuse.start > low ? reach.window : 0);
  reuse.decoder_start = std::max(tail, total - decoder);
  reuse.decoder_whole = reuse.decoder_start + (reuse.decoder_start > tail ? reach.window : 0);
  return reuse;
}

}  // namespace

KvReuse plan_reuse(const ReuseAsk& ask, Position available, const Reach& reach) {
  CHECK(ask.prompt > 0 && ask.total >= ask.prompt);
  CHECK(reach.window > 0 && reach.encoder_layers > 0 && reach.decoder_layers > 0);
  const Position hit = whole_blocks(std::min(available, ask.total - 1));
  if (ask.mode == BasisMode::kExact) {
    return plan_reach(ask.total, hit, 0, 0, reach);
  }
  if (!ask.basis || hit < ask.basis->hit) {
    return plan_replay(ask.prompt, ask.basis ? 0 : available, reach.window);
  }
  const Basis& basis = *ask.basis;
  const KvReuse reuse = plan_reach(ask.total, hit, basis.replay_floor, basis.tail_start, reach);
  const bool saves = reuse.start > basis.replay_floor || basis.hit > 0;
  return saves ? reuse : plan_reach(ask.total, 0, basis.replay_floor, basis.tail_start, reach);
}

Basis first_basis(
    BasisMode mode, Position prompt, Position window, const KvReuse& reuse, std::uint64_t lineage) {
  Basis basis;
  basis.mode = mode;
  basis.hit = reuse.hit;
  basis.lineage = lineage;
  if (mode == BasisMode::kBounded) {
    basis.replay_floor = reuse.start;
    basis.tail_start = tail_start(prompt, window);
  }
  return basis;
}

}  // namespace shoal
