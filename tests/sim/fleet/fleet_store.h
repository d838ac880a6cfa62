// The KV store of a fleet: which blocks of a prompt are there. What is shipped decides what goes
// when it is full (policy/kv_worth.h), from every block that is written or used; what goes are
// last blocks of runs (fleet_prompts.h) behind which nothing is. Recordings that run beside
// each other share nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/policy/cost_model.h"
#include "actors/policy/draw.h"
#include "actors/policy/kv_worth.h"
#include "schemas/fleet.pb.h"
#include "schemas/units.h"
#include "tests/sim/fleet/fleet_prompts.h"

namespace shoal::sim {

// Whose prompt it is, up to and with a run.
struct StoredPrompt {
  std::uint64_t copy = 0;  // of the recording
  std::uint32_t last = kNoRun;
};

class FleetStore {
 public:
  // `cost`: of computing what is not there. The prompts outlive the store.
  FleetStore(const fleet::Store& options, const CostModel& cost, const PromptRuns& prompts);

  // Leading blocks of the prompt that are there: they are used.
  std::int64_t use(const StoredPrompt& prompt, Nanos now);
  // All blocks of the prompt are there from now on.
  void write(const StoredPrompt& prompt, TtlClass ttl, Nanos now);
  // Forgets what was not used for as long as its class allows.
  void expire(Nanos now);

  std::int64_t blocks() const { return blocks_; }

  std::int64_t bytes() const { return blocks_ * block_bytes_; }

  std::int64_t evicted_blocks() const { return evicted_; }

  std::int64_t expired_blocks() const { return expired_; }

 private:
  struct Entry {
    std::int64_t last_use = 0;  // ms
    std::int64_t idle_before = 0;
    std::uint32_t leaf = 0;      // its place among them
    std::uint32_t children = 0;  // that are there
    std::uint32_t turn = 0;
    std::uint16_t uses = 0;
    TtlClass ttl = TtlClass::kChat;
    bool is_fresh = false;  // not used since it was written
    std::int64_t kept = 0;  // leading blocks that are there; fewer than all only of a leaf
  };

  // Of one copy of the recording, by run.
  struct Copy {
    std::vector<Entry> entries;
    std::int64_t there = 0;  // runs
  };

  struct Leaf {
    std::uint64_t copy = 0;
    std::uint32_t run = 0;
  };

  Entry& entry_of(const Leaf& leaf) { return copies_.at(leaf.copy).entries[leaf.run]; }

  Copy& copy_of(std::uint64_t copy);
  std::uint32_t last_there(const StoredPrompt& prompt, WallMillis now);
  bool is_expired(const Entry& entry, WallMillis now) const;
  BlockUse use_of(const Entry& entry, std::int64_t number) const;
  void report(const Leaf& leaf, Entry& entry, std::int64_t from, bool is_written);
  void touch(const StoredPrompt& prompt, std::uint32_t from, std::uint32_t turn, WallMillis now);
  void insert(const Leaf& leaf, TtlClass ttl, std::uint32_t turn, WallMillis now);
  void join_parent(Copy& copy, const Leaf& leaf);
  void add_leaf(const Leaf& leaf);
  void remove_leaf(const Leaf& leaf);
  // At most so many of its blocks, the last ones. Returns how many.
  std::int64_t forget(Leaf leaf, std::int64_t most);
  void evict(WallMillis now);
  std::int64_t worth(const Leaf& leaf, WallMillis now);

  std::span<const PromptRun> runs_;
  std::int64_t block_bytes_;
  std::uint32_t pages_;
  std::int64_t most_blocks_;
  std::array<WallMillis, kTtlClasses> ttl_{};
  std::optional<KvWorth> worth_;  // none: what was used longest ago goes first
  std::uint64_t every_ = 1;       // block is told to it
  std::unordered_map<std::uint64_t, Copy> copies_;
  std::vector<Leaf> leaves_;
  Draw draw_;
  std::int64_t blocks_ = 0;
  std::int64_t evicted_ = 0;
  std::int64_t expired_ = 0;
};

}  // namespace shoal::sim
