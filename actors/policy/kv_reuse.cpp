// Rounds to blocks, keeps the last token, and asks whether anything is left to gain.
#include "actors/policy/kv_reuse.h"

#include <algorithm>

#include "schemas/check.h"
#include "schemas/units.h"

namespace shoal {

KvReuse plan_reuse(
    BasisMode mode, Position prompt, Position available, Position window, int layers) {
  CHECK(prompt > 0 && window > 0 && layers > 0);
  const Position hit = std::min(available, prompt - 1) / kBlockTokens * kBlockTokens;
  const Position reach = mode == BasisMode::kBounded ? window : layers * window;
  return hit > reach ? KvReuse{hit, hit - reach} : KvReuse{};
}

Basis first_basis(
    BasisMode mode, Position prompt, Position window, const KvReuse& reuse, std::uint64_t lineage) {
  Basis basis;
  basis.mode = mode;
  basis.hit = reuse.hit;
  basis.lineage = lineage;
  if (mode == BasisMode::kBounded) {
    basis.replay_floor = reuse.start;
    basis.tail_start = std::max<Position>(0, prompt - window);
  }
  return basis;
}

}  // namespace shoal
