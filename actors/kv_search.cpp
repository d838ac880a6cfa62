// Bisects for blocks, compares tokens for tails.
#include "actors/kv_search.h"

#include <algorithm>
#include <utility>

#include "actors/placement.h"

namespace shoal {
namespace {

// A hit that could not be loaded is left alone for so long: by then its blocks are stored anew and
// seen here.
constexpr Nanos kSuspectPause = std::chrono::seconds(10);
constexpr std::size_t kSuspects = 1024;

}  // namespace

std::optional<KvHit> KvSearch::find(const Submission& submission,
                                    const KvNames& names,
                                    Instant now) {
  std::erase_if(suspects_, [now](const auto& suspect) { return suspect.second <= now; });
  auto hit = find_tail(submission, names);
  if (!hit) {
    hit = find_blocks(submission, names);
  }
  if (hit) {
    hit->found.key = {submission.request, submission.attempt};
  }
  return hit;
}

// A tail first: whether its blocks are at fault, the next attempt shows.
void KvSearch::avoid(const Placement& placement, Instant now) {
  if (placement.tail) {
    tails_.drop(*placement.tail);
  } else if (placement.span.reuse.hit > 0 && suspects_.size() < kSuspects) {
    const auto blocks = static_cast<std::size_t>(placement.span.reuse.hit / kBlockTokens);
    suspects_[placement.kv->keys.at(blocks - 1)] = now + kSuspectPause;
  }
}

bool KvSearch::is_suspect(std::span<const BlockKey> keys) const {
  return !keys.empty() && suspects_.contains(keys.back());
}

// Of the blocks from the first one on. A block whose parent was forgotten ends them.
std::vector<transport::BlockInfo> KvSearch::leading(std::span<const BlockKey> keys,
                                                    bool exact_only) const {
  std::vector<transport::BlockInfo> there;
  for (const BlockKey& key : keys.first(transport::longest_hit(store_, keys, exact_only))) {
    const auto info = store_.find(key);
    if (!info || (exact_only && info->provenance != Provenance::kExact)) {
      break;
    }
    there.push_back(*info);
  }
  return there;
}

// A first attempt takes what its mode allows. A later one needs the very blocks of its basis;
// beyond them, and where its basis has none, blocks that any run would have computed.
std::optional<KvHit> KvSearch::find_blocks(const Submission& submission,
                                           const KvNames& names) const {
  const ReuseAsk ask = reuse_ask(submission);
  const Position below = ask.basis && ask.mode == BasisMode::kBounded ? ask.basis->hit : 0;
  const bool exact_only = ask.mode == BasisMode::kExact || (ask.basis && below == 0);
  auto infos = leading(names.keys, exact_only);
  const Position there = std::ssize(infos) * kBlockTokens;
  const auto lineage = [&names, &infos](Position tokens) {
    const auto blocks = static_cast<std::size_t>(tokens / kBlockTokens);
    return lineage_of(std::span(names.keys).first(blocks), std::span(infos).first(blocks));
  };
  if (below > there || (below > 0 && lineage(below) != ask.basis->lineage)) {
    return std::nullopt;
  }
  KvHit hit;
  hit.found.reuse = plan_reuse(ask, below > 0 ? below : there, reach_);
  const auto blocks = static_cast<std::size_t>(hit.found.reuse.hit / kBlockTokens);
  if (blocks == 0 || is_suspect(std::span(names.keys).first(blocks))) {
    return std::nullopt;
  }
  hit.found.lineage = lineage(hit.found.reuse.hit);
  hit.found.basis = basis_behind(ask, hit.found.reuse, hit.found.lineage, reach_);
  infos.resize(blocks);
  hit.blocks = std::move(infos);
  return hit;
}

// Of a session that looked back less far than others: what it took, and then what it computed.
bool KvSearch::is_of_session(const TailHit& tail,
                             std::span<const BlockKey> keys,
                             std::span<const transport::BlockInfo> infos) {
  const auto below = static_cast<std::size_t>(tail.basis.hit / kBlockTokens);
  const auto own = infos.subspan(below);
  return lineage_of(keys.first(below), infos.first(below)) == tail.basis.lineage &&
         std::all_of(own.begin(), own.end(), [](const transport::BlockInfo& info) {
           return info.provenance == Provenance::kBounded;
         });
}

// Its numbers are those of the session before, so its blocks must be too: any run would have
// computed them, or that session did.
std::optional<KvHit> KvSearch::find_tail(const Submission& submission, const KvNames& names) const {
  const ReuseAsk ask = reuse_ask(submission);
  const auto tail = tails_.find(
      ask, names.root, names.keys, [&submission](Position p) { return token_at(submission, p); });
  if (!tail) {
    return std::nullopt;
  }
  KvHit hit;
  hit.found.reuse = plan_tail(ask, *tail, reach_);
  const auto blocks = static_cast<std::size_t>(hit.found.reuse.hit / kBlockTokens);
  const bool is_exact = tail->basis.mode == BasisMode::kExact || tail->basis.hit == 0;
  const auto keys = std::span(names.keys).first(blocks);
  hit.blocks = leading(keys, is_exact);
  if (hit.blocks.size() < blocks || is_suspect(keys) ||
      (!is_exact && !is_of_session(*tail, keys, hit.blocks))) {
    return std::nullopt;
  }
  hit.found.basis = ask.basis ? *ask.basis : tail_basis(ask, *tail, reach_);
  hit.found.lineage = lineage_of(keys, hit.blocks);
  hit.found.tail = tail->place;
  return hit;
}

}  // namespace shoal
