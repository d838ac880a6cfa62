// Operations happen at once and are called back by the timeline.
#include "tests/sim/shared_blocks.h"

#include <chrono>
#include <utility>

namespace shoal::sim {

using transport::BlockInfo;
using transport::Loaded;

class SharedBlocks::Port final : public transport::BlockStore {
 public:
  explicit Port(SharedBlocks& shared) : shared_(shared) {}

  ~Port() override { Port::stop(); }

  std::string_view durable() const override { return "the processes of its world"; }

  std::optional<BlockInfo> find(const BlockKey& key) const override {
    const auto found = shared_.blocks_.find(key);
    if (found == shared_.blocks_.end()) {
      return std::nullopt;
    }
    const auto dropped = dropped_.find(key);
    const bool is_dropped = dropped != dropped_.end() && dropped->second == found->second.put;
    return is_dropped ? std::nullopt : std::optional(found->second.info);
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    std::vector<Result<void>> results;
    for (auto& record : records) {
      results.push_back(put(std::move(record)));
    }
    answer([done = std::move(done), results = std::move(results)] { done(results); });
  }

  void get(std::vector<KvWanted> wanted, Instant, Got done) override {
    std::vector<Loaded> loaded;
    for (const KvWanted& block : wanted) {
      loaded.push_back(shared_.load(block));
    }
    answer([done = std::move(done), loaded = std::move(loaded)] { done(loaded); });
  }

  void touch(const BlockKey&, std::uint32_t) override {}

  void hold(const BlockKey&, Nanos) override {}

  void release(const BlockKey&) override {}

  bool drop(const BlockKey& key) override {
    const bool was_there = find(key).has_value();
    if (was_there) {
      dropped_[key] = shared_.blocks_.at(key).put;
    }
    return was_there;
  }

  void stop() override { *alive_ = false; }

  Use use() const override { return {}; }

 private:
  Result<void> put(std::vector<std::byte> record) {
    if (shared_.away_) {
      return fail(Code::kUnavailable, "the store is away");
    }
    TRY(const KvBlock block, read_kv_header(record));
    const auto known = find(block.key);
    if (!known ||
        (known->provenance == Provenance::kBounded && block.provenance == Provenance::kExact)) {
      shared_.store(std::move(record), block);
    }
    return {};
  }

  void answer(std::function<void()> call) {
    shared_.timeline_.after(std::chrono::microseconds(200),
                            [alive = alive_, call = std::move(call)] {
                              if (*alive) {
                                call();
                              }
                            });
  }

  SharedBlocks& shared_;
  std::map<BlockKey, std::uint64_t> dropped_;  // which put brought it
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<transport::BlockStore> SharedBlocks::open() {
  return std::make_unique<Port>(*this);
}

void SharedBlocks::damage() {
  for (auto& [key, block] : blocks_) {
    block.record[kKvHeaderBytes] ^= std::byte{1};
  }
}

Loaded SharedBlocks::load(const KvWanted& wanted) {
  if (away_) {
    return fail(Code::kUnavailable, "the store is away");
  }
  const auto found = blocks_.find(wanted.key);
  if (found == blocks_.end()) {
    return fail(Code::kNotFound, "no such block");
  }
  TRY(const KvRecord read, read_kv_record(found->second.record, wanted));
  return std::make_shared<const std::vector<std::byte>>(read.payload.begin(), read.payload.end());
}

void SharedBlocks::store(std::vector<std::byte> record, const KvBlock& block) {
  blocks_[block.key] = {
      std::move(record), {block.payload_crc, block.provenance, block.ttl}, ++puts_};
}

}  // namespace shoal::sim
