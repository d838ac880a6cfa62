// What must be true of blocks in the KV store: a witness between every process and its store. It
// takes nothing from an index; it knows what was stored under which name, and what came back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schemas/kv_record.h"
#include "tests/sim/node_clients.h"
#include "tests/sim/node_store.h"
#include "tests/sim/timeline.h"
#include "tests/sim/violation.h"
#include "transport/block_store.h"

namespace shoal::sim {

class KvTruth {
 public:
  // The blocks of a hit, as they were loaded.
  struct Loaded {
    std::vector<BlockKey> keys;
    bool is_exact = true;        // all of them
    std::uint64_t last_row = 0;  // of hashes: what the next row follows from
    // Of a model.
    std::vector<std::shared_ptr<const std::vector<std::byte>>> blocks;
  };

  struct Watched {
    std::unique_ptr<transport::BlockStore> store;
    const NodeStore* port = nullptr;
    const NodeClock* clock = nullptr;
    transport::BlockStoreLimits limits;
    std::function<void(const std::string& event)> tell;
  };

  // `are_hashes`: the devices' rows can be told from the tokens.
  KvTruth(Timeline& timeline, bool are_hashes) : timeline_(timeline), are_hashes_(are_hashes) {}

  // Forwards everything. The truth outlives it.
  std::unique_ptr<transport::BlockStore> watch(Watched watched);

  // What came from the store under that lineage; null: nothing ever did.
  const Loaded* loaded(std::uint64_t lineage) const;

  // Adds the rows or blocks that were loaded. False: a basis names blocks that never came from the
  // store.
  bool add_loaded(std::vector<testing::BasisFrom>& bases) const;

  // Blocks that a process was told are durable, and that nobody gave up since.
  std::vector<BlockKey> kept() const;

  // From now on any block may be forgotten: files were damaged, it expired, its room was needed.
  void allow_forgetting() { may_forget_ = true; }

  void power_lost() { ++powers_lost_; }

  // Of all that were asked for: a store may load one that is larger than its ceiling.
  Bytes largest_get() const { return largest_get_; }

  // The first of each kind.
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  class Witness;

  // All that is known of one name.
  struct Known {
    BlockKey parent;
    TtlClass ttl = TtlClass::kChat;
    std::map<std::uint32_t, Provenance> records;  // by checksum of the payload
    std::optional<std::uint64_t> whole;           // last row of a whole run
    WallMillis last_use = 0;                      // the latest on any process's clock
    Instant touched{};
    Bytes record{0};       // the largest
    bool is_kept = false;  // somebody was told that it is durable
    int power = 0;         // how often power was lost before it was stored first
  };

  void note_get(const std::vector<KvWanted>& wanted);
  void store(const KvBlock& block, std::span<const std::byte> payload, const Watched& by);
  void check_rows(const KvBlock& block, std::span<const std::byte> payload, Known& known);
  void use(const BlockKey& leaf, const Watched& by);
  bool has_expired(const Known& known, const Watched& by) const;
  std::string load(const std::vector<KvWanted>& wanted,
                   const std::vector<transport::Loaded>& loaded,
                   const Watched& by);
  std::optional<transport::BlockInfo> check_block(const KvWanted& wanted,
                                                  std::span<const std::byte> payload,
                                                  const Watched& by);
  void violate(const std::string& what);

  Timeline& timeline_;
  const bool are_hashes_;
  int powers_lost_ = 0;
  Bytes largest_get_{0};
  bool may_forget_ = false;
  std::map<BlockKey, Known> known_;
  std::map<std::uint64_t, Loaded> loaded_;
  std::vector<Violation> violations_;
};

}  // namespace shoal::sim
