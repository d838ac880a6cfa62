// Looks every leading block up once; bisects for their end, compares tokens for tails.
#include "actors/kv_search.h"

#include <algorithm>
#include <utility>

#include "actors/placement.h"

namespace shoal {
namespace {

// A damaged block is left alone for so long, unless it is stored anew and seen here before.
constexpr Nanos kSuspectPause = std::chrono::seconds(10);
constexpr std::size_t kSuspects = 1024;

KvHit hit_behind(std::span<const transport::BlockInfo> infos, const KvReuse& reuse) {
  const auto blocks = infos.first(static_cast<std::size_t>(reuse.hit / kBlockTokens));
  KvHit hit;
  hit.found.reuse = reuse;
  hit.blocks.assign(blocks.begin(), blocks.end());
  return hit;
}

}  // namespace

KvHit KvSearch::find(const Submission& submission, const KvNames& names, Instant now) {
  std::erase_if(suspects_, [now](const auto& suspect) { return suspect.second.until <= now; });
  auto infos = visible(names.keys);
  const Position stored = std::ssize(infos) * kBlockTokens;
  auto hit = find_tail(submission, names, leading(names.keys, infos));
  if (!hit) {
    return behind(submission, names, std::move(infos));
  }
  hit->found.key = {submission.request, submission.attempt};
  hit->found.why = KvReason::kTail;
  hit->found.stored = stored;
  return *std::move(hit);
}

KvHit KvSearch::behind(const Submission& submission,
                       const KvNames& names,
                       std::vector<transport::BlockInfo> infos) const {
  const Leading there = leading(names.keys, std::move(infos));
  KvHit hit = find_blocks(submission, there).value_or(KvHit{find_nothing(submission, reach_)});
  hit.found.key = {submission.request, submission.attempt};
  hit.found.why = hit.blocks.empty() ? why_none(submission, names, there) : KvReason::kBlocks;
  hit.found.stored = std::ssize(there.infos) * kBlockTokens;
  return hit;
}

KvReason KvSearch::why_none(const Submission& submission,
                            const KvNames& names,
                            const Leading& there) const {
  const ReuseAsk ask = reuse_ask(submission);
  if (ask.total <= kBlockTokens) {
    return KvReason::kNoWholeBlock;
  }
  if (there.infos.empty()) {
    return suspects_.contains(names.keys.front()) ? KvReason::kDamaged : KvReason::kNothingStored;
  }
  if (ask.mode == BasisMode::kBounded && ask.basis && ask.basis->hit > 0) {
    return KvReason::kBasisGone;
  }
  const bool exact_only = ask.mode == BasisMode::kExact || ask.basis;
  return exact_only && there.exact == 0 ? KvReason::kBoundedOnly : KvReason::kWindowOnly;
}

// Blocks that are sound say that the tail is at fault. One that was not there may just not have
// been seen there yet.
void KvSearch::avoid(const Placement& placement, Position sound, Code code, Instant now) {
  if (sound >= placement.span.reuse.hit) {
    if (placement.tail) {
      tails_.drop(*placement.tail);
    }
  } else if (code == Code::kCorrupt && suspects_.size() < kSuspects) {
    const BlockKey& key = placement.kv->keys.at(static_cast<std::size_t>(sound / kBlockTokens));
    if (const auto info = store_.find(key)) {
      suspects_[key] = {now + kSuspectPause, *info};
    }
  }
}

bool KvSearch::is_suspect(const BlockKey& key, const transport::BlockInfo& info) const {
  const auto suspect = suspects_.find(key);
  return suspect != suspects_.end() && suspect->second.info.crc == info.crc &&
         suspect->second.info.last_use == info.last_use;
}

// From the first one on. A block whose parent was forgotten, or is damaged, ends them.
std::vector<transport::BlockInfo> KvSearch::visible(std::span<const BlockKey> keys) const {
  std::vector<transport::BlockInfo> there;
  for (const BlockKey& key : keys.first(transport::longest_hit(store_, keys, false))) {
    const auto info = store_.find(key);
    if (!info || is_suspect(key, *info)) {
      break;
    }
    there.push_back(*info);
  }
  return there;
}

KvSearch::Leading KvSearch::leading(std::span<const BlockKey> keys,
                                    std::vector<transport::BlockInfo> infos) {
  Leading there{std::move(infos), {}, 0};
  there.lineages = lineages_of(keys.first(there.infos.size()), there.infos);
  while (there.exact < there.infos.size() &&
         there.infos[there.exact].provenance == Provenance::kExact) {
    ++there.exact;
  }
  return there;
}

// A first attempt takes what its mode allows. A later one needs the very blocks of its basis;
// beyond them, and where its basis has none, blocks that any run would have computed.
std::optional<KvHit> KvSearch::find_blocks(const Submission& submission,
                                           const Leading& there) const {
  const ReuseAsk ask = reuse_ask(submission);
  const Position below = ask.basis && ask.mode == BasisMode::kBounded ? ask.basis->hit : 0;
  const bool exact_only = ask.mode == BasisMode::kExact || (ask.basis && below == 0);
  const std::size_t blocks = exact_only ? there.exact : there.infos.size();
  const Position available = static_cast<Position>(blocks) * kBlockTokens;
  const auto lineage = [&there](Position tokens) {
    return there.lineages[static_cast<std::size_t>(tokens / kBlockTokens)];
  };
  if (below > available || (below > 0 && lineage(below) != ask.basis->lineage)) {
    return std::nullopt;
  }
  const KvReuse reuse = plan_reuse(ask, below > 0 ? below : available, reach_);
  if (reuse.hit == 0) {
    return std::nullopt;
  }
  KvHit hit = hit_behind(there.infos, reuse);
  hit.found.lineage = lineage(reuse.hit);
  hit.found.basis = basis_behind(ask, reuse, hit.found.lineage, reach_);
  return hit;
}

// Its numbers are those of the session before, so its blocks must be too: any run would have
// computed them, or they are the very ones that the session took and computed.
std::optional<KvHit> KvSearch::find_tail(const Submission& submission,
                                         const KvNames& names,
                                         const Leading& there) const {
  const ReuseAsk ask = reuse_ask(submission);
  const auto has_blocks = [&there](const SessionTail& tail) {
    const auto blocks = static_cast<std::size_t>(tail.end / kBlockTokens);
    const bool is_exact = tail.basis.mode == BasisMode::kExact || tail.basis.hit == 0;
    return is_exact ? blocks <= there.exact
                    : blocks < there.lineages.size() && there.lineages[blocks] == tail.lineage;
  };
  const auto tail = tails_.find(
      ask,
      names.root,
      std::span(names.keys).first(there.infos.size()),
      [&submission](Position p) { return token_at(submission, p); },
      has_blocks);
  if (!tail) {
    return std::nullopt;
  }
  KvHit hit = hit_behind(there.infos, plan_tail(ask, *tail, reach_));
  hit.found.basis = ask.basis ? *ask.basis : tail_basis(ask, *tail, reach_);
  hit.found.lineage = there.lineages[hit.blocks.size()];
  hit.found.tail = tail->place;
  return hit;
}

}  // namespace shoal
