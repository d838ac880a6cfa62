// Counts follow the index: a block is counted in its segment exactly while it is visible.
#include "transport/file_store/catalog.h"

#include <algorithm>

namespace shoal::transport {
namespace {

// Of a segment of the largest size, whose last group was a record of the largest size.
constexpr std::uint32_t kSegmentPagesMost = 1U << 18;

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
  return {found.info, found.place, segments_.at(found.place.segment).name};
}

std::uint32_t Catalog::segment(const SegmentName& name) {
  const auto [at, is_new] = ids_.try_emplace(name, next_);
  if (is_new) {
    Segment& segment = segments_[next_++];
    segment.name = name;
    segment.is_own = name.writer == params_.writer;
  }
  return at->second;
}

bool Catalog::is_gone(std::uint32_t id) const {
  const auto found = segments_.find(id);
  return found == segments_.end() || found->second.is_gone;
}

bool Catalog::is_gone(const SegmentName& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() || is_gone(found->second);
}

void Catalog::forget_gone(const std::function<bool(std::uint32_t)>& is_busy) {
  std::erase_if(segments_, [&](const auto& entry) {
    const bool goes = entry.second.is_gone && !is_busy(entry.first);
    if (goes) {
      ids_.erase(entry.second.name);
    }
    return goes;
  });
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
  if (const auto there = dropped_from(entry); there && !is_gone(*there)) {
    set_dropped(at(*there), entry.page);
    forget_at(entry.key, {*there, entry.page, 0});
  }
}

// Another's segment may be read after the drop. An own one that is not known is gone.
std::optional<std::uint32_t> Catalog::dropped_from(const IndexEntry& entry) {
  const bool is_own = entry.dropped.writer == params_.writer;
  return is_own && is_gone(entry.dropped) ? std::nullopt : std::optional(segment(entry.dropped));
}

void Catalog::set_dropped(Segment& segment, std::uint32_t page) {
  if (page >= kSegmentPagesMost) {
    return;  // no record begins there
  }
  if (segment.dropped.size() <= page) {
    segment.dropped.resize(page + 1);
  }
  segment.dropped[page] = true;
}

void Catalog::note(std::uint32_t id, const IndexEntry& entry) {
  if (entry.kind == EntryKind::kTouch) {
    at(id).last_touch = std::max(at(id).last_touch, entry.time);
  } else if (entry.kind == EntryKind::kDrop) {
    if (const auto there = dropped_from(entry); there && *there != id) {
      at(id).drops.insert(*there);
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
  const std::vector<bool>& dropped = at(id).dropped;
  if ((entry.page < dropped.size() && dropped[entry.page]) || at(id).is_gone) {
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
  return !segments_.at(old.place.segment).is_own && old.info.crc == info.crc &&
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
  segment.dropped = {};
}

std::int64_t Catalog::expire(WallMillis now) {
  const auto places = index_.expire(params_.limits.hours, kExpiryLooks, now);
  for (const BlockPlace& place : places) {
    count(place, -1);
  }
  return static_cast<std::int64_t>(places.size());
}

std::vector<Forgotten> Catalog::evict(WallMillis now, Bytes bytes, std::int64_t blocks) {
  std::vector<Forgotten> evicted;
  while (blocks_ > 0 && (this->bytes() > bytes || blocks_ > blocks)) {
    const std::int64_t mean = this->bytes().value / blocks_;
    const std::int64_t over = (this->bytes().value - bytes.value + mean - 1) / mean;
    const auto places = index_.evict(std::max({over, blocks_ - blocks, std::int64_t{1}}), now);
    for (const BlockPlace& place : places) {
      count(place, -1);
    }
    evicted.insert(evicted.end(), places.begin(), places.end());
    if (places.empty()) {
      break;
    }
  }
  return evicted;
}

Bytes Catalog::medium() const {
  Bytes sum;
  for (const auto& [id, segment] : segments_) {
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
