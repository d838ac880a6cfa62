// Blocks are noted when they are asked to be stored: a process that is killed may have stored them
// without hearing of it.
#include "tests/sim/kv_truth.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "actors/kv_names.h"
#include "kernels/sim/sim_backend.h"
#include "schemas/checksum.h"

namespace shoal::sim {
namespace {

using transport::BlockInfo;

// The clocks of two processes differ by less, but for faults.
constexpr WallMillis kExpirySlack = 60'000;
// Others see a block, and forget it again, within two rounds of their stores.
constexpr Nanos kSeen = std::chrono::seconds(6);

using Rows = std::array<std::uint64_t, kBlockTokens>;

Rows rows_of(std::span<const std::byte> payload) {
  Rows rows{};
  std::memcpy(rows.data(), payload.data(), std::min(sizeof rows, payload.size()));
  return rows;
}

std::uint64_t whole_run(std::uint64_t before, const KvBlock& block) {
  kernels::SimHistory history(before);
  for (const TokenId token : block.tokens) {
    history.add(token);
  }
  return history.hash();
}

bool is_chained(const KvBlock& block, const Rows& rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    kernels::SimHistory history(rows[i - 1]);
    history.add(block.tokens[i]);
    if (history.hash() != rows[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

class KvTruth::Witness final : public transport::BlockStore {
 public:
  Witness(KvTruth& truth, Watched watched) : truth_(truth), watched_(std::move(watched)) {}

  std::string_view durable() const override { return watched_.store->durable(); }

  std::optional<BlockInfo> find(const BlockKey& key) const override {
    return watched_.store->find(key);
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    std::vector<BlockKey> keys;
    for (const auto& record : records) {
      const KvBlock block = read_kv_header(record).value();
      truth_.store(block, std::span(record).subspan(kKvHeaderBytes, block.payload_bytes), watched_);
      keys.push_back(block.key);
    }
    watched_.store->put(
        std::move(records),
        [this, keys = std::move(keys), done = std::move(done)](std::vector<Result<void>> results) {
          for (std::size_t i = 0; i < keys.size(); ++i) {
            Known& known = truth_.known_.at(keys[i]);
            known.is_kept = known.is_kept || results[i].has_value();
          }
          tell_stored(results);
          done(std::move(results));
        });
  }

  void get(std::vector<KvWanted> wanted, Instant deadline, Got done) override {
    truth_.note_get(wanted);
    auto asked = wanted;
    watched_.store->get(std::move(wanted),
                        deadline,
                        [this, asked = std::move(asked), done = std::move(done)](
                            std::vector<transport::Loaded> loaded) {
                          tell_loaded(loaded, truth_.load(asked, loaded, watched_));
                          done(std::move(loaded));
                        });
  }

  void refresh() override { watched_.store->refresh(); }

  void touch(const BlockKey& leaf, std::uint32_t turn) override {
    if (watched_.store->find(leaf)) {
      truth_.use(leaf, watched_);
    }
    watched_.store->touch(leaf, turn);
  }

  // Held blocks do not expire, but what has expired is not there to be held.
  void hold(const BlockKey& leaf, Nanos time) override {
    const auto known = truth_.known_.find(leaf);
    if (known != truth_.known_.end() && !truth_.has_expired(known->second, watched_)) {
      truth_.use(leaf, watched_);
    }
    watched_.store->hold(leaf, time);
  }

  void release(const BlockKey& leaf) override {
    truth_.use(leaf, watched_);
    watched_.store->release(leaf);
  }

  bool drop(const BlockKey& key) override {
    if (const auto known = truth_.known_.find(key); known != truth_.known_.end()) {
      known->second.is_kept = false;
    }
    return watched_.store->drop(key);
  }

  void stop() override { watched_.store->stop(); }

  Use use() const override { return watched_.store->use(); }

 private:
  void tell_stored(const std::vector<Result<void>>& results) {
    for (const auto& result : results) {
      if (!result) {
        return tell_failed("blocks.not_stored", result.error());
      }
    }
    tell_done("blocks.stored count=" + std::to_string(results.size()));
  }

  void tell_loaded(const std::vector<transport::Loaded>& loaded, const std::string& what) {
    for (const auto& block : loaded) {
      if (!block) {
        return tell_failed("blocks.not_loaded", block.error());
      }
    }
    tell_done("blocks.loaded count=" + std::to_string(loaded.size()) + what);
  }

  // The end of a process fails what it had asked for; nobody hears of it.
  void tell_failed(const std::string& event, const Error& error) {
    if (!watched_.port->is_dead()) {
      watched_.tell(event + " code=" + std::string(to_string(error.code)));
      is_broken_ = is_broken_ || error.code != Code::kNotFound;
    }
  }

  void tell_done(const std::string& event) {
    watched_.tell(event);
    if (std::exchange(is_broken_, false)) {
      watched_.tell("blocks.back");
    }
  }

  KvTruth& truth_;
  const Watched watched_;
  bool is_broken_ = false;
};

std::unique_ptr<transport::BlockStore> KvTruth::watch(Watched watched) {
  return std::make_unique<Witness>(*this, std::move(watched));
}

const KvTruth::Loaded* KvTruth::loaded(std::uint64_t lineage) const {
  const auto found = loaded_.find(lineage);
  return found == loaded_.end() ? nullptr : &found->second;
}

std::vector<BlockKey> KvTruth::kept() const {
  std::vector<BlockKey> keys;
  for (const auto& [key, known] : known_) {
    if (known.is_kept && !may_forget_) {
      keys.push_back(key);
    }
  }
  return keys;
}

bool KvTruth::add_loaded(std::vector<testing::BasisFrom>& bases) const {
  for (testing::BasisFrom& one : bases) {
    const Loaded* hit = one.basis.hit > 0 ? loaded(one.basis.lineage) : nullptr;
    if (one.basis.hit > 0 && hit == nullptr) {
      return false;
    }
    if (hit != nullptr && are_hashes_) {
      one.loaded = hit->last_row;
    } else if (hit != nullptr) {
      one.blocks = hit->blocks;
    }
  }
  return true;
}

void KvTruth::note_get(const std::vector<KvWanted>& wanted) {
  std::int64_t bytes = 0;
  for (const KvWanted& block : wanted) {
    const auto known = known_.find(block.key);
    bytes += known == known_.end() ? 0 : known->second.record.value;
  }
  largest_get_ = std::max(largest_get_, Bytes(bytes));
}

void KvTruth::store(const KvBlock& block, std::span<const std::byte> payload, const Watched& by) {
  const auto [at, is_new] = known_.try_emplace(block.key);
  Known& known = at->second;
  if (is_new) {
    known.parent = block.parent;
    known.ttl = block.ttl;
    known.power = powers_lost_;
  }
  if (are_hashes_) {
    check_rows(block, payload, known);
  }
  known.records[crc32c(payload)] = block.provenance;
  known.record = std::max(known.record, Bytes(kv_record_bytes(payload.size())));
  use(block.key, by);
}

// A bounded block may follow from a parent that was not stored, where one as good was there.
void KvTruth::check_rows(const KvBlock& block, std::span<const std::byte> payload, Known& known) {
  const Rows rows = rows_of(payload);
  const auto parent = known_.find(block.parent);
  if (block.number == 0) {
    known.whole = whole_run(0, block);
  } else if (parent != known_.end() && parent->second.whole) {
    known.whole = whole_run(*parent->second.whole, block);
  }
  const bool is_exact = block.provenance == Provenance::kExact;
  if (!is_chained(block, rows) || (is_exact && known.whole && rows.back() != *known.whole)) {
    violate("a block was stored that does not follow from its tokens");
  }
}

// With all blocks before it.
void KvTruth::use(const BlockKey& leaf, const Watched& by) {
  for (auto at = known_.find(leaf); at != known_.end(); at = known_.find(at->second.parent)) {
    at->second.last_use = std::max(at->second.last_use, by.clock->wall());
    at->second.touched = timeline_.now();
  }
}

// What there is to say of it.
std::string KvTruth::load(const std::vector<KvWanted>& wanted,
                          const std::vector<transport::Loaded>& loaded,
                          const Watched& by) {
  Loaded hit;
  std::uint64_t lineage = 0;
  bool survived = false;
  for (std::size_t b = 0; b < wanted.size(); ++b) {
    const auto info = loaded[b] ? check_block(wanted[b], **loaded[b], by) : std::nullopt;
    if (!info) {
      return {};
    }
    hit.keys.push_back(wanted[b].key);
    hit.is_exact = hit.is_exact && info->provenance == Provenance::kExact;
    if (are_hashes_) {
      hit.last_row = rows_of(**loaded[b]).back();
    } else {
      hit.blocks.push_back(*loaded[b]);
    }
    lineage = next_lineage(lineage, wanted[b].key, info->provenance, info->crc);
    loaded_[lineage] = hit;  // what is behind may be left out
    survived = survived || known_.at(wanted[b].key).power < powers_lost_;
  }
  const std::string exact = hit.is_exact ? " exact=1" : " exact=0";
  return exact + (survived ? " survived=1" : "");
}

// Long enough ago for the sweep to have seen it.
bool KvTruth::has_expired(const Known& known, const Watched& by) const {
  const std::int64_t hours = by.limits.hours.at(static_cast<std::size_t>(known.ttl));
  const WallMillis age = by.clock->wall() - known.last_use;
  return age > hours * 3'600'000 + kExpirySlack && by.port->is_settled() &&
         timeline_.now() - known.touched > kSeen;
}

// Nothing: it is not true.
std::optional<BlockInfo> KvTruth::check_block(const KvWanted& wanted,
                                              std::span<const std::byte> payload,
                                              const Watched& by) {
  const auto at = known_.find(wanted.key);
  const std::uint32_t crc = crc32c(payload);
  if (at == known_.end() || !at->second.records.contains(crc)) {
    violate("a block was loaded that was never stored under its name");
    return std::nullopt;
  }
  const Known& known = at->second;
  if (has_expired(known, by)) {
    violate("a block was loaded that had expired");
  }
  return BlockInfo{crc, known.records.at(crc), known.ttl, known.last_use};
}

void KvTruth::violate(const std::string& what) {
  const bool is_known = std::any_of(violations_.begin(),
                                    violations_.end(),
                                    [&what](const Violation& seen) { return seen.what == what; });
  if (!is_known) {
    violations_.push_back({"blocks_are_true", what, {}});
  }
}

}  // namespace shoal::sim
