// A tree of runs for every copy of the recording; a run with none behind it is a leaf, and only
// leaves go.
#include "tests/sim/fleet/fleet_store.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "actors/policy/rendezvous.h"
#include "schemas/kv_record.h"

namespace shoal::sim {
namespace {

// Any day will do.
constexpr WallMillis kBegin = 1'700'000'000'000;

// As the index of a store does: so many leaves are looked at, and this part of them may go.
constexpr std::size_t kLooks = 1'024;
constexpr std::size_t kPart = 16;
// Room is made for this part of it at once.
constexpr std::int64_t kSlack = 256;
constexpr std::uint16_t kMostUses = 31;

// A larger store learns from one of many of its blocks, as one that has that part of its room.
constexpr std::int64_t kMostLearned = std::int64_t{1} << 20;

WallMillis wall(Nanos now) {
  return kBegin + to_millis(now);
}

std::uint64_t name_of(std::uint64_t copy, std::int64_t block) {
  return rendezvous_weight(copy, static_cast<std::uint64_t>(block));
}

}  // namespace

FleetStore::FleetStore(const fleet::Store& options,
                       const CostModel& cost,
                       const PromptRuns& prompts)
    : runs_(prompts.runs()),
      block_bytes_(kv_record_bytes(options.token_bytes() * kBlockTokens)),
      pages_(static_cast<std::uint32_t>(block_bytes_ / kKvRecordAlign)),
      most_blocks_(options.bytes() / block_bytes_),
      draw_(1) {
  ttl_[static_cast<std::size_t>(TtlClass::kAgent)] = options.agent_ttl_s() * 1'000;
  ttl_[static_cast<std::size_t>(TtlClass::kChat)] = options.chat_ttl_s() * 1'000;
  ttl_[static_cast<std::size_t>(TtlClass::kPinned)] = std::numeric_limits<WallMillis>::max();
  if (options.eviction() == "ours") {
    const std::int64_t room = std::max<std::int64_t>(1, most_blocks_);
    every_ = std::bit_ceil(static_cast<std::uint64_t>(room + kMostLearned - 1) / kMostLearned);
    worth_.emplace(
        cost,
        StoreRoom{.blocks = std::max<std::int64_t>(1, room / static_cast<std::int64_t>(every_))});
  }
}

FleetStore::Copy& FleetStore::copy_of(std::uint64_t copy) {
  Copy& found = copies_[copy];
  if (found.entries.empty()) {
    found.entries.resize(runs_.size());
  }
  return found;
}

bool FleetStore::is_expired(const Entry& entry, WallMillis now) const {
  return entry.kept > 0 && entry.children == 0 &&
         now - entry.last_use > ttl_[static_cast<std::size_t>(entry.ttl)];
}

// Of the runs of a sequence the first ones are there, so the last one that is there says it all.
std::uint32_t FleetStore::last_there(const StoredPrompt& prompt, WallMillis now) {
  const auto copy = copies_.find(prompt.copy);
  if (copy == copies_.end()) {
    return kNoRun;
  }
  const std::vector<Entry>& entries = copy->second.entries;
  std::uint32_t run = prompt.last;
  while (run != kNoRun && (entries[run].kept == 0 || is_expired(entries[run], now))) {
    run = runs_[run].parent;
  }
  return run;
}

BlockUse FleetStore::use_of(const Entry& entry, std::int64_t number) const {
  return {.ttl = entry.ttl,
          .number = static_cast<std::uint32_t>(number),
          .pages = pages_,
          .uses = entry.uses,
          .turn = entry.turn,
          .last_use = entry.last_use,
          .idle_before = entry.idle_before};
}

// The run remembers what is known of its last block.
void FleetStore::report(const Leaf& leaf, Entry& entry, std::int64_t from, bool is_written) {
  if (!worth_) {
    return;
  }
  const PromptRun& run = runs_[leaf.run];
  for (std::int64_t i = from; i < entry.kept; ++i) {
    const std::uint64_t name = name_of(leaf.copy, run.first + i);
    if (name % every_ != 0) {
      continue;
    }
    const BlockUse known = worth_->seen(name / every_, use_of(entry, run.before + i), is_written);
    entry.uses = static_cast<std::uint16_t>(std::min<std::uint32_t>(known.uses, kMostUses));
    entry.idle_before = known.idle_before;
  }
}

std::int64_t FleetStore::use(const StoredPrompt& prompt, Nanos now) {
  const std::uint32_t last = last_there(prompt, wall(now));
  if (last == kNoRun) {
    return 0;
  }
  const PromptRun& end = runs_[prompt.last];
  const std::int64_t hit = runs_[last].before + entry_of({prompt.copy, last}).kept;
  touch(prompt, last, static_cast<std::uint32_t>(end.before + end.count - hit), wall(now));
  return hit;
}

void FleetStore::touch(const StoredPrompt& prompt,
                       std::uint32_t from,
                       std::uint32_t turn,
                       WallMillis now) {
  std::vector<Entry>& entries = copies_.at(prompt.copy).entries;
  for (std::uint32_t run = from; run != kNoRun; run = runs_[run].parent) {
    Entry& entry = entries[run];
    if (entry.last_use > now) {
      return;  // so were all before it
    }
    entry.uses = std::min<std::uint16_t>(entry.uses + 1, kMostUses);
    entry.idle_before = entry.last_use < now ? now - entry.last_use : entry.idle_before;
    entry.turn = turn;
    entry.last_use = now;
    entry.is_fresh = false;
    report({prompt.copy, run}, entry, 0, false);
  }
}

void FleetStore::write(const StoredPrompt& prompt, TtlClass ttl, Nanos now) {
  if (prompt.last == kNoRun) {
    return;
  }
  std::uint32_t known = last_there(prompt, wall(now));
  if (known != kNoRun && entry_of({prompt.copy, known}).kept < runs_[known].count) {
    known = runs_[known].parent;
  }
  std::vector<std::uint32_t> missing;
  std::int64_t turn = 0;
  for (std::uint32_t run = prompt.last; run != known; run = runs_[run].parent) {
    missing.push_back(run);
    turn += runs_[run].count;
  }
  for (auto run = missing.rbegin(); run != missing.rend(); ++run) {
    insert({prompt.copy, *run}, ttl, static_cast<std::uint32_t>(turn), wall(now));
  }
  evict(wall(now));
}

// What is written behind a run goes on with its pauses.
void FleetStore::insert(const Leaf& leaf, TtlClass ttl, std::uint32_t turn, WallMillis now) {
  if (is_expired(copy_of(leaf.copy).entries[leaf.run], now)) {
    expired_ += forget(leaf, runs_[leaf.run].count);
  }
  Copy& copy = copy_of(leaf.copy);
  Entry& entry = copy.entries[leaf.run];
  const std::int64_t kept = entry.kept;
  const std::int64_t count = runs_[leaf.run].count;
  if (kept == 0) {
    entry = {.last_use = now, .turn = turn, .ttl = ttl, .is_fresh = true};
    join_parent(copy, leaf);
    ++copy.there;
    add_leaf(leaf);
  }
  entry.kept = count;
  blocks_ += count - kept;
  report(leaf, entry, kept, true);
}

void FleetStore::join_parent(Copy& copy, const Leaf& leaf) {
  const std::uint32_t parent = runs_[leaf.run].parent;
  if (parent == kNoRun) {
    return;
  }
  Entry& before = copy.entries[parent];
  if (before.children++ == 0) {
    remove_leaf({leaf.copy, parent});
  }
  copy.entries[leaf.run].uses = before.is_fresh ? before.uses : 0;
  copy.entries[leaf.run].idle_before = before.idle_before;
}

void FleetStore::add_leaf(const Leaf& leaf) {
  entry_of(leaf).leaf = static_cast<std::uint32_t>(leaves_.size());
  leaves_.push_back(leaf);
}

void FleetStore::remove_leaf(const Leaf& leaf) {
  const std::uint32_t place = entry_of(leaf).leaf;
  leaves_[place] = leaves_.back();
  entry_of(leaves_[place]).leaf = place;
  leaves_.pop_back();
}

std::int64_t FleetStore::forget(Leaf leaf, std::int64_t most) {
  Copy& copy = copies_.at(leaf.copy);
  Entry& entry = copy.entries[leaf.run];
  const std::int64_t count = std::min(most, entry.kept);
  blocks_ -= count;
  entry.kept -= count;
  if (entry.kept > 0) {
    return count;
  }
  remove_leaf(leaf);
  const WallMillis last_use = entry.last_use;
  entry = {};
  const std::uint32_t parent = runs_[leaf.run].parent;
  if (parent != kNoRun) {
    Entry& before = copy.entries[parent];
    before.last_use = std::max(before.last_use, last_use);
    if (--before.children == 0) {
      add_leaf({leaf.copy, parent});
    }
  }
  if (--copy.there == 0) {
    copies_.erase(leaf.copy);
  }
  return count;
}

std::int64_t FleetStore::worth(const Leaf& leaf, WallMillis now) {
  const Entry& entry = entry_of(leaf);
  const PromptRun& run = runs_[leaf.run];
  return worth_ ? worth_->worth(use_of(entry, run.before + entry.kept - 1), now) : entry.last_use;
}

void FleetStore::evict(WallMillis now) {
  const std::int64_t target =
      blocks_ > most_blocks_ ? most_blocks_ - most_blocks_ / kSlack : most_blocks_;
  while (blocks_ > target && !leaves_.empty()) {
    std::vector<std::uint32_t> looked_at;
    if (leaves_.size() <= kLooks) {
      for (std::uint32_t i = 0; i < leaves_.size(); ++i) {
        looked_at.push_back(i);
      }
    }
    for (std::size_t i = 0; leaves_.size() > kLooks && i < kLooks; ++i) {
      looked_at.push_back(static_cast<std::uint32_t>(draw_.below(leaves_.size())));
    }
    std::vector<std::tuple<std::int64_t, std::uint64_t, std::uint32_t>> candidates;
    for (const std::uint32_t place : looked_at) {
      const Leaf& leaf = leaves_[place];
      candidates.emplace_back(worth(leaf, now), leaf.copy, leaf.run);
    }
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    candidates.resize(std::max<std::size_t>(1, candidates.size() / kPart));
    for (const auto& [least, copy, run] : candidates) {
      if (blocks_ <= target) {
        return;
      }
      evicted_ += forget({copy, run}, blocks_ - target);
    }
  }
}

void FleetStore::expire(Nanos now) {
  for (std::size_t i = 0; i < leaves_.size();) {
    const Leaf leaf = leaves_[i];
    if (is_expired(entry_of(leaf), wall(now))) {
      expired_ += forget(leaf, runs_[leaf.run].count);
    } else {
      ++i;
    }
  }
}

}  // namespace shoal::sim
