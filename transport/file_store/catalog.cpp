// Counts follow the index: a block is counted in its segment exactly while it is visible.
#include "transport/file_store/catalog.h"

#include <algorithm>

namespace shoal::transport {
namespace {

// A round's share; all of ten million in under a minute.
constexpr std::int64_t kExpiryLooks = 200'000;

bool is_same(const BlockPlace& a, const BlockPlace& b) {
  return a.segment == b.segment && a.page == b.page;
}

}  // namespace

std::optional<Catalog::Found> Catalog::find(const BlockKey& key) const {
  const auto found = index_.find(key);
  return found ? std::optional(named(*found)) : std::nullopt;
}

std::optional<Catalog::Found> Catalog::find_live(const BlockKey& key) const {
  const auto found = index_.find_live(key, params_.limits.hours, params_.wall());
  return found ? std::optional(named(*found)) : std::nullopt;
}

Catalog::Found Catalog::named(const BlockIndex::Found& found) const {
  return {found.info, found.place, segments_[found.place.segment].name};
}

std::uint32_t Catalog::segment(const SegmentName& name) {
  const auto [at, is_new] = ids_.try_emplace(name, static_cast<std::uint32_t>(segments_.size()));
  if (is_new) {
    segments_.emplace_back().name = name;
    segments_.back().is_own = name.writer == params_.writer;
  }
  return at->second;
}

void Catalog::apply(std::uint32_t id, std::span<const IndexEntry> entries) {
  for (const IndexEntry& entry : entries) {
    note(id, entry);
    if (entry.kind == EntryKind::kDrop) {
      drop(entry);
    }
  }
  // A block may have come in the group that dropped the one before it.
  for (const IndexEntry& entry : entries) {
    if (entry.kind == EntryKind::kBlock) {
      add(entry, id);
    } else if (entry.kind == EntryKind::kTouch) {
      touches_.push_back(entry);
    }
  }
}

void Catalog::drop(const IndexEntry& entry) {
  if (const std::uint32_t there = segment(entry.dropped); !at(there).is_gone) {
    dropped_.emplace(there, entry.page);
    forget_at(entry.key, {there, entry.page, 0});
  }
}

void Catalog::note(std::uint32_t id, const IndexEntry& entry) {
  if (entry.kind == EntryKind::kTouch) {
    at(id).last_touch = std::max(at(id).last_touch, entry.time);
  } else if (entry.kind == EntryKind::kDrop) {
    const std::uint32_t there = segment(entry.dropped);
    if (there != id) {
      at(id).drops.insert(there);
    }
  }
}

void Catalog::settle() {
  std::sort(touches_.begin(), touches_.end(), [](const IndexEntry& a, const IndexEntry& b) {
    return a.time < b.time;
  });
  for (const IndexEntry& touch : touches_) {
    index_.touch(touch.key, touch.turn, touch.time);
  }
  touches_.clear();
}

std::optional<BlockPlace> Catalog::add(const IndexEntry& entry, std::uint32_t id) {
  const BlockPlace place{id, entry.page, entry.pages};
  const BlockInfo info{entry.crc, entry.provenance, at(id).name.ttl, 0};
  if (dropped_.contains({id, entry.page}) || at(id).is_gone) {
    return std::nullopt;
  }
  const auto old = index_.find(entry.key);
  if (!old) {
    if (index_.insert({entry.key, entry.parent, entry.number, info, place, entry.turn},
                      entry.time)) {
      count(place, 1);
    }
    return std::nullopt;
  }
  index_.renew(entry.key, entry.time);
  const bool is_better =
      old->info.provenance == Provenance::kBounded && entry.provenance == Provenance::kExact;
  if (is_better || is_copy(*old, info)) {
    index_.replace(entry.key, info, place);
    count(old->place, -1);
    count(place, 1);
  }
  return is_better ? std::optional(old->place) : std::nullopt;
}

// Who copies a record removes the one that was there first, when it was read here long ago. This
// process knows itself what it copied.
bool Catalog::is_copy(const BlockIndex::Found& old, const BlockInfo& info) const {
  return !segments_[old.place.segment].is_own && old.info.crc == info.crc &&
         old.info.provenance == info.provenance;
}

bool Catalog::move(const BlockKey& key, const BlockPlace& from, const BlockPlace& to) {
  const auto old = index_.find(key);
  if (!old || !is_same(old->place, from)) {
    return false;
  }
  index_.replace(key, old->info, to);
  count(old->place, -1);
  count(to, 1);
  return true;
}

std::optional<BlockPlace> Catalog::forget(const BlockKey& key) {
  const auto place = index_.erase(key);
  if (place) {
    count(*place, -1);
  }
  return place;
}

bool Catalog::forget_expired(const BlockKey& key) {
  return index_.find(key) && !find_live(key) && forget(key);
}

bool Catalog::forget_at(const BlockKey& key, const BlockPlace& place) {
  const auto found = index_.find(key);
  return found && is_same(found->place, place) && forget(key).has_value();
}

void Catalog::set_gone(std::uint32_t id) {
  Segment& segment = at(id);
  if (segment.blocks > 0) {
    index_.drop_segment(id);
  }
  blocks_ -= segment.blocks;
  pages_ -= segment.pages;
  segment.blocks = segment.pages = 0;
  segment.progress = {};
  segment.is_open = false;
  segment.is_gone = true;
  dropped_.erase(dropped_.lower_bound({id, 0}), dropped_.lower_bound({id + 1, 0}));
}

std::int64_t Catalog::expire(WallMillis now) {
  const auto places = index_.expire(params_.limits.hours, kExpiryLooks, now);
  for (const BlockPlace& place : places) {
    count(place, -1);
  }
  return static_cast<std::int64_t>(places.size());
}

std::int64_t Catalog::evict(WallMillis now, Bytes bytes, std::int64_t blocks) {
  std::int64_t evicted = 0;
  while (blocks_ > 0 && (this->bytes() > bytes || blocks_ > blocks)) {
    const std::int64_t mean = this->bytes().value / blocks_;
    const std::int64_t over = (this->bytes().value - bytes.value + mean - 1) / mean;
    const auto places = index_.evict(std::max({over, blocks_ - blocks, std::int64_t{1}}), now);
    for (const BlockPlace& place : places) {
      count(place, -1);
    }
    evicted += static_cast<std::int64_t>(places.size());
    if (places.empty()) {
      break;
    }
  }
  return evicted;
}

Bytes Catalog::medium() const {
  Bytes sum;
  for (const Segment& segment : segments_) {
    sum = sum + Bytes(static_cast<std::int64_t>(segment.progress.bytes));
  }
  return sum;
}

void Catalog::count(const BlockPlace& place, std::int64_t sign) {
  Segment& segment = at(place.segment);
  segment.blocks += sign;
  segment.pages += sign * place.pages;
  blocks_ += sign;
  pages_ += sign * place.pages;
}

}  // namespace shoal::transport
