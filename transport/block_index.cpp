// Entries in chunks that never move, linked to their parents; leaves in a list of their own.
#include "transport/block_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "schemas/check.h"

namespace shoal::transport {
namespace {

constexpr WallMillis kTick = 125;
constexpr WallMillis kBefore = WallMillis{8} * 365 * 24 * 3'600 * 1'000;
constexpr std::uint32_t kMostUses = 31;
constexpr std::uint32_t kMostNumber = 0x3FFFFF;  // half a billion tokens
constexpr std::uint32_t kMostTurnOctave = 31;

// Of a sample this part goes before the next one is drawn.
constexpr std::size_t kSamplePart = 8;

std::uint32_t octave_of(std::uint32_t value) {
  return static_cast<std::uint32_t>(std::bit_width(value));
}

std::uint32_t begin_of(std::uint32_t octave) {
  return octave == 0 ? 0 : std::uint32_t{1} << (octave - 1);
}

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t draw(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

BlockIndex::BlockIndex(BlockPolicy policy, WallMillis now)
    : policy_(std::move(policy)),
      clock_(now - kBefore) {
  CHECK(policy_.worth != nullptr);
}

std::uint32_t BlockIndex::tag_of(const std::byte* key) {
  std::uint32_t tag = 0;
  std::memcpy(&tag, key, sizeof tag);
  return tag;
}

std::uint32_t BlockIndex::entry_of(const BlockKey& key) const {
  const std::uint32_t tag = tag_of(key.bytes.data());
  for (std::size_t s = slots_.home(tag); slots_.is_used(s); s = slots_.next(s)) {
    if (slots_.tag(s) == tag &&
        std::memcmp(at(slots_.entry(s)).key.data(), key.bytes.data(), kKeyKept) == 0) {
      return slots_.entry(s);
    }
  }
  return kNone;
}

std::uint32_t BlockIndex::add(const BlockKey& key) {
  std::uint32_t entry = free_;
  if (entry != kNone) {
    free_ = at(entry).link;
  } else {
    if (entries_ == chunks_.size() * kChunk) {
      chunks_.push_back(std::make_unique<Entry[]>(kChunk));
    }
    entry = entries_++;
  }
  Entry& e = at(entry);
  e = {};
  std::memcpy(e.key.data(), key.bytes.data(), kKeyKept);
  slots_.insert(tag_of(e.key.data()), entry);
  return entry;
}

void BlockIndex::add_leaf(std::uint32_t entry) {
  if (leaves_.size() == leaves_.capacity()) {
    leaves_.reserve(leaves_.size() + leaves_.size() / 8 + 64);
  }
  at(entry).is_leaf = 1;
  at(entry).link = static_cast<std::uint32_t>(leaves_.size());
  leaves_.push_back(entry);
}

void BlockIndex::remove_leaf(std::uint32_t entry) {
  Entry& e = at(entry);
  at(leaves_.back()).link = e.link;
  leaves_[e.link] = leaves_.back();
  leaves_.pop_back();
  e.is_leaf = 0;
  e.link = 0;
}

std::uint32_t BlockIndex::ticks(WallMillis time) const {
  return static_cast<std::uint32_t>(std::clamp<WallMillis>(
      (time - clock_) / kTick, 0, std::numeric_limits<std::uint32_t>::max()));
}

WallMillis BlockIndex::time_of(std::uint32_t ticks) const {
  return clock_ + WallMillis{ticks} * kTick;
}

BlockUse BlockIndex::use_of(const Entry& entry) const {
  return {.ttl = static_cast<TtlClass>(entry.ttl),
          .number = entry.number,
          .pages = entry.pages,
          .uses = entry.uses,
          .turn = begin_of(entry.turn),
          .last_use = time_of(entry.last_use),
          .idle_before = WallMillis{begin_of(entry.idle)} * kTick};
}

void BlockIndex::report(Entry& entry, bool is_written) {
  if (!policy_.seen) {
    return;
  }
  std::uint64_t name = 0;
  std::memcpy(&name, entry.key.data() + kKeyKept - sizeof name, sizeof name);
  const BlockUse known = policy_.seen(name, use_of(entry), is_written);
  entry.uses = std::min(known.uses, kMostUses);
  entry.idle = octave_of(static_cast<std::uint32_t>(
      std::min<WallMillis>(known.idle_before / kTick, std::numeric_limits<std::uint32_t>::max())));
}

std::optional<BlockIndex::Found> BlockIndex::find(const BlockKey& key) const {
  const std::uint32_t entry = entry_of(key);
  return entry == kNone || at(entry).is_visible == 0 ? std::nullopt
                                                     : std::optional(found_of(at(entry)));
}

std::optional<BlockIndex::Found> BlockIndex::find_live(
    const BlockKey& key, const std::array<std::int64_t, kTtlClasses>& hours, WallMillis now) const {
  const std::uint32_t entry = entry_of(key);
  if (entry == kNone || at(entry).is_visible == 0 ||
      (has_expired(at(entry), hours, now) && !is_leased(entry, now))) {
    return std::nullopt;
  }
  return found_of(at(entry));
}

BlockIndex::Found BlockIndex::found_of(const Entry& entry) const {
  return {.info = {.crc = entry.crc,
                   .provenance = static_cast<Provenance>(entry.provenance),
                   .ttl = static_cast<TtlClass>(entry.ttl),
                   .last_use = time_of(entry.last_use)},
          .place = {.segment = entry.segment, .page = entry.page, .pages = entry.pages}};
}

std::optional<BlockUse> BlockIndex::use(const BlockKey& key) const {
  const std::uint32_t entry = entry_of(key);
  return entry == kNone || at(entry).is_visible == 0 ? std::nullopt
                                                     : std::optional(use_of(at(entry)));
}

void BlockIndex::set_record(Entry& entry, const BlockInfo& info, const BlockPlace& place) {
  entry.crc = info.crc;
  entry.provenance = static_cast<std::uint32_t>(info.provenance) & 1U;
  entry.ttl = static_cast<std::uint32_t>(info.ttl) & 3U;
  entry.segment = place.segment;
  entry.page = place.page;
  entry.pages = place.pages & 0xFFFFFU;
  CHECK(entry.pages == place.pages);
}

// Numbers grow along a sequence, whatever records say, so no entry comes before itself.
void BlockIndex::link_parent(std::uint32_t entry, const BlockKey& parent, std::uint32_t number) {
  std::uint32_t p = entry_of(parent);
  if (p == kNone) {
    p = add(parent);
    at(p).number = number & kMostNumber;
  }
  if (p == entry || at(p).number != number) {
    return;
  }
  if (at(p).is_leaf != 0) {
    remove_leaf(p);
  }
  ++at(p).link;
  at(entry).parent = p;
}

bool BlockIndex::insert(const Written& block, WallMillis now) {
  if (block.number > kMostNumber) {
    return false;
  }
  std::uint32_t entry = entry_of(block.key);
  const bool is_new = entry == kNone;
  if (is_new) {
    entry = add(block.key);
  } else if (at(entry).is_visible != 0 || at(entry).number != block.number) {
    return false;
  }
  Entry& e = at(entry);
  set_record(e, block.info, block.place);
  e.number = block.number & kMostNumber;
  e.is_visible = 1;
  ++visible_;
  if (block.number > 0 && e.parent == kNone) {
    link_parent(entry, block.parent, block.number - 1);
  }
  if (e.link == 0) {
    add_leaf(entry);
  }
  begin_use(e, block.turn, ticks(now));
  raise(e.parent, e.last_use);
  return true;
}

// A block was used no earlier than the blocks behind it: whoever uses those uses it.
void BlockIndex::raise(std::uint32_t entry, std::uint32_t last_use) {
  for (; entry != kNone && at(entry).last_use < last_use; entry = at(entry).parent) {
    at(entry).last_use = last_use;
  }
}

// What is written behind a block goes on with its pauses, and, when that block came back itself,
// comes back with it.
void BlockIndex::begin_use(Entry& entry, std::uint32_t turn, std::uint32_t now) {
  entry.last_use = std::max(entry.last_use, now);
  entry.is_fresh = 1;
  entry.turn = std::min(octave_of(turn), kMostTurnOctave);
  if (entry.parent != kNone) {
    const Entry& parent = at(entry.parent);
    entry.uses = parent.is_fresh != 0 ? parent.uses : 0;
    entry.idle = parent.idle;
    entry.turn = turn == 0 ? parent.turn : entry.turn;
  }
  report(entry, true);
}

bool BlockIndex::replace(const BlockKey& key, const BlockInfo& info, const BlockPlace& place) {
  const std::uint32_t entry = entry_of(key);
  if (entry == kNone || at(entry).is_visible == 0) {
    return false;
  }
  set_record(at(entry), info, place);
  return true;
}

void BlockIndex::renew(const BlockKey& key, WallMillis when) {
  raise(entry_of(key), ticks(when));
}

void BlockIndex::touch(const BlockKey& leaf, std::uint32_t turn, WallMillis now) {
  const std::uint32_t t = ticks(now);
  for (std::uint32_t entry = entry_of(leaf); entry != kNone; entry = at(entry).parent) {
    Entry& e = at(entry);
    if (e.last_use > t) {
      break;  // so were all before it
    }
    e.uses = std::min(e.uses + 1U, kMostUses);
    e.idle = e.last_use < t ? octave_of(t - e.last_use) : e.idle;
    e.turn = std::min(octave_of(turn), kMostTurnOctave);
    e.last_use = t;
    e.is_fresh = 0;
    if (e.is_visible != 0) {
      report(e, false);
    }
  }
}

BlockPlace BlockIndex::hide(Entry& entry) {
  entry.is_visible = 0;
  --visible_;
  return {.segment = entry.segment, .page = entry.page, .pages = entry.pages};
}

// Takes out a hidden entry with nothing behind it, and those before it that are left so. Returns
// the leaf that this makes, if any.
std::uint32_t BlockIndex::free(std::uint32_t entry) {
  while (true) {
    Entry& e = at(entry);
    const std::uint32_t parent = e.parent;
    const std::uint32_t last_use = e.last_use;
    slots_.erase(tag_of(e.key.data()), entry);
    held_.erase(entry);
    e.link = std::exchange(free_, entry);
    if (parent == kNone) {
      return kNone;
    }
    Entry& p = at(parent);
    p.last_use = std::max(p.last_use, last_use);
    if (--p.link > 0) {
      return kNone;
    }
    if (p.is_visible != 0) {
      add_leaf(parent);
      return parent;
    }
    entry = parent;
  }
}

std::uint32_t BlockIndex::forget(std::uint32_t leaf, std::vector<Forgotten>& forgotten) {
  remove_leaf(leaf);
  Forgotten& last = forgotten.emplace_back();
  std::memcpy(last.key.bytes.data(), at(leaf).key.data(), kKeyKept);
  static_cast<BlockPlace&>(last) = hide(at(leaf));
  return free(leaf);
}

std::optional<BlockPlace> BlockIndex::erase(const BlockKey& key) {
  const std::uint32_t entry = entry_of(key);
  if (entry == kNone || at(entry).is_visible == 0) {
    return std::nullopt;
  }
  if (at(entry).is_leaf == 0) {
    return hide(at(entry));
  }
  std::vector<Forgotten> forgotten;
  forget(entry, forgotten);
  return forgotten.front();
}

void BlockIndex::hold(const BlockKey& leaf, WallMillis until, WallMillis now) {
  std::erase_if(held_, [now](const auto& hold) { return hold.second.until <= now; });
  const std::uint32_t entry = entry_of(leaf);
  if (entry != kNone && at(entry).is_visible != 0) {
    Hold& hold = held_[entry];
    ++hold.count;
    hold.until = std::max(hold.until, until);
  }
}

void BlockIndex::release(const BlockKey& leaf) {
  const auto hold = held_.find(entry_of(leaf));
  if (hold != held_.end() && --hold->second.count == 0) {
    held_.erase(hold);
  }
}

bool BlockIndex::is_held(std::uint32_t entry, WallMillis now) const {
  const auto hold = held_.find(entry);
  return hold != held_.end() && hold->second.until > now;
}

// By a lease on itself or on what is behind it. Looks at all leases.
bool BlockIndex::is_leased(std::uint32_t entry, WallMillis now) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& hold) {
    std::uint32_t e = hold.second.until > now ? hold.first : kNone;
    while (e != kNone && at(e).number > at(entry).number) {
      e = at(e).parent;
    }
    return e == entry;
  });
}

bool BlockIndex::has_expired(const Entry& entry,
                             const std::array<std::int64_t, kTtlClasses>& hours,
                             WallMillis now) const {
  return now - time_of(entry.last_use) > hours.at(entry.ttl) * 3'600 * 1'000;
}

std::size_t BlockIndex::longest_hit(std::span<const BlockKey> keys, bool exact_only) const {
  return transport::longest_hit(keys.size(), [&](std::size_t i) {
    const std::uint32_t entry = entry_of(keys[i]);
    return entry != kNone && at(entry).is_visible != 0 &&
           (!exact_only || at(entry).provenance == 0);
  });
}

bool BlockIndex::goes_later(const Candidate& a, const Candidate& b) {
  if (a.worth != b.worth) {
    return a.worth > b.worth;
  }
  if (a.last_use != b.last_use) {
    return a.last_use > b.last_use;
  }
  return a.number != b.number ? a.number < b.number : a.entry > b.entry;
}

BlockIndex::Candidate BlockIndex::candidate(std::uint32_t leaf, WallMillis now) const {
  const Entry& e = at(leaf);
  const bool held = is_held(leaf, now);
  return {.worth = held ? std::numeric_limits<std::int64_t>::max() : policy_.worth(use_of(e), now),
          .last_use = e.last_use,
          .number = e.number,
          .entry = leaf};
}

std::vector<BlockIndex::Candidate> BlockIndex::candidates(WallMillis now) {
  std::vector<std::uint32_t> looked_at = leaves_;
  if (leaves_.size() > kLooks) {
    looked_at.clear();
    for (std::size_t i = 0; i < kLooks; ++i) {
      looked_at.push_back(leaves_[draw(++sampled_) % leaves_.size()]);
    }
    std::sort(looked_at.begin(), looked_at.end());
    looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  }
  std::vector<Candidate> candidates;
  candidates.reserve(looked_at.size());
  for (const std::uint32_t leaf : looked_at) {
    candidates.push_back(candidate(leaf, now));
  }
  std::make_heap(candidates.begin(), candidates.end(), goes_later);
  return candidates;
}

// Up to `count` forgotten.
void BlockIndex::evict_some(std::size_t count, WallMillis now, std::vector<Forgotten>& forgotten) {
  const bool sees_all = leaves_.size() <= kLooks;
  std::vector<Candidate> heap = candidates(now);
  std::size_t left = sees_all ? count : std::min(count, heap.size() / kSamplePart);
  for (; left > 0 && !heap.empty(); --left) {
    std::pop_heap(heap.begin(), heap.end(), goes_later);
    const std::uint32_t leaf = forget(heap.back().entry, forgotten);
    heap.pop_back();
    if (leaf != kNone) {
      heap.push_back(candidate(leaf, now));
      std::push_heap(heap.begin(), heap.end(), goes_later);
    }
  }
}

std::vector<Forgotten> BlockIndex::evict(std::int64_t count, WallMillis now) {
  std::vector<Forgotten> forgotten;
  const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, visible_));
  while (forgotten.size() < most && !leaves_.empty()) {
    evict_some(most - forgotten.size(), now, forgotten);
  }
  return forgotten;
}

std::vector<Forgotten> BlockIndex::expire(const std::array<std::int64_t, kTtlClasses>& hours,
                                          std::int64_t looks,
                                          WallMillis now) {
  std::vector<Forgotten> forgotten;
  for (; looks > 0 && !leaves_.empty(); ++cursor_) {
    cursor_ = cursor_ < leaves_.size() ? cursor_ : 0;
    std::uint32_t leaf = leaves_[cursor_];
    for (--looks; leaf != kNone && has_expired(at(leaf), hours, now) && !is_held(leaf, now);
         --looks) {
      leaf = forget(leaf, forgotten);
    }
  }
  return forgotten;
}

std::int64_t BlockIndex::drop_segment(std::uint32_t segment) {
  std::vector<Forgotten> forgotten;
  const std::int64_t before = visible_;
  for (std::uint32_t entry = 0; entry < entries_; ++entry) {
    Entry& e = at(entry);
    if (e.is_visible == 0 || e.segment != segment) {
      continue;
    }
    if (e.is_leaf != 0) {
      forget(entry, forgotten);
    } else {
      hide(e);
    }
  }
  return before - visible_;
}

Bytes BlockIndex::bytes() const {
  return Bytes{static_cast<std::int64_t>(chunks_.size() * kChunk * sizeof(Entry) +
                                         chunks_.capacity() * sizeof(chunks_[0]) + slots_.bytes() +
                                         leaves_.capacity() * sizeof(leaves_[0]))};
}

std::size_t longest_hit(std::size_t count, const std::function<bool(std::size_t)>& is_hit) {
  std::size_t hits = 0;
  while (hits < count) {
    const std::size_t middle = hits + (count - hits) / 2;
    if (is_hit(middle)) {
      hits = middle + 1;
    } else {
      count = middle;
    }
  }
  return hits;
}

}  // namespace shoal::transport
