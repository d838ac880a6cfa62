// Records are looked at before they are read and after: an exact one takes a bounded one's place,
// and this process may see that before or after the one that planned the hit.
#include "actors/kv_load.h"

#include <algorithm>
#include <span>
#include <utility>

#include "schemas/checksum.h"

namespace shoal {
namespace {

bool is_record(const transport::BlockInfo& info, const transport::BlockInfo& other) {
  return info.crc == other.crc && info.provenance == other.provenance;
}

Error others_came() {
  return {Code::kPeerLost, "other blocks took the place of those that were found"};
}

}  // namespace

KvLoad::KvLoad(PlacementPtr placement, std::uint64_t layout, Instant due)
    : placement_(std::move(placement)),
      due_(due) {
  const KvNames& names = *placement_->kv;
  const auto blocks = static_cast<std::size_t>(placement_->span.reuse.hit / kBlockTokens);
  for (std::size_t b = 0; b < blocks; ++b) {
    wanted_.push_back({names.keys.at(b), b == 0 ? names.root : names.keys[b - 1], layout});
  }
  if (wanted_.empty()) {
    blocks_.emplace();
  }
}

void KvLoad::asked(const transport::BlockStore& store) {
  if (++awaited_ > 1) {
    return;  // what they were at first is what the last look is compared with
  }
  for (const KvWanted& block : wanted_) {
    seen_.push_back(store.find(block.key));
  }
}

std::optional<Error> KvLoad::take(std::vector<transport::Loaded> blocks,
                                  const transport::BlockStore& store) {
  --awaited_;
  const bool has_gap = std::any_of(
      blocks.begin(), blocks.end(), [](const transport::Loaded& block) { return !block; });
  if (has_blocks() || (has_gap && awaited_ > 0)) {
    return std::nullopt;
  }
  keep(std::move(blocks), store);
  return gap_;
}

// Leading blocks whose bytes are those of the record that is there.
void KvLoad::keep(std::vector<transport::Loaded> blocks, const transport::BlockStore& store) {
  blocks_.emplace();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!blocks[b]) {
      gap_ = blocks[b].error();
      return;
    }
    const auto info = store.find(wanted_[b].key);
    // One that was not known yet may have been another when it was read.
    const bool is_same =
        info && (seen_[b] ? is_record(*seen_[b], *info) : crc32c(**blocks[b]) == info->crc);
    if (!is_same) {
      gap_ = others_came();
      return;
    }
    infos_.push_back(*info);
    blocks_->push_back(*std::move(blocks[b]));
  }
}

bool KvLoad::is_as_planned() const {
  const auto keys = std::span(placement_->kv->keys).first(infos_.size());
  return !gap_ && !no_tail_ && lineage_of(keys, infos_) == placement_->lineage;
}

KvLoaded KvLoad::result(const KvSearch& search) && {
  KvLoaded loaded{placement_->key(), {*std::move(blocks_), std::move(tail_)}, {}};
  if (is_as_planned()) {
    return loaded;
  }
  KvShortened instead;
  instead.sound = std::ssize(infos_) * kBlockTokens;
  instead.cause = gap_ ? *gap_ : no_tail_.value_or(others_came());
  instead.found = search.behind(*placement_->submission, *placement_->kv, std::move(infos_)).found;
  instead.found.names = nullptr;
  loaded.bytes.tail = nullptr;
  loaded.bytes.blocks.resize(static_cast<std::size_t>(instead.found.reuse.hit / kBlockTokens));
  loaded.instead = std::move(instead);
  return loaded;
}

}  // namespace shoal
