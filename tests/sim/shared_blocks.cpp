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
    const auto found = shared_.infos_.find(key);
    return found == shared_.infos_.end() ? std::nullopt : std::optional(found->second);
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    std::vector<Result<void>> results;
    for (auto& record : records) {
      results.push_back(shared_.store(std::move(record)));
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

  void touch(const BlockKey&) override {}

  bool drop(const BlockKey& key) override {
    shared_.records_.erase(key);
    return shared_.infos_.erase(key) == 1;
  }

  void stop() override { *alive_ = false; }

  Use use() const override { return {}; }

 private:
  void answer(std::function<void()> call) {
    shared_.timeline_.after(std::chrono::microseconds(200),
                            [alive = alive_, call = std::move(call)] {
                              if (*alive) {
                                call();
                              }
                            });
  }

  SharedBlocks& shared_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<transport::BlockStore> SharedBlocks::open() {
  return std::make_unique<Port>(*this);
}

void SharedBlocks::damage() {
  for (auto& [key, record] : records_) {
    record.back() ^= std::byte{1};
    record[kKvHeaderBytes] ^= std::byte{1};
  }
}

Loaded SharedBlocks::load(const KvWanted& wanted) {
  if (away_) {
    return fail(Code::kUnavailable, "the store is away");
  }
  const auto found = records_.find(wanted.key);
  if (found == records_.end()) {
    return fail(Code::kNotFound, "no such block");
  }
  TRY(const KvRecord read, read_kv_record(found->second, wanted));
  return std::make_shared<const std::vector<std::byte>>(read.payload.begin(), read.payload.end());
}

Result<void> SharedBlocks::store(std::vector<std::byte> record) {
  if (away_) {
    return fail(Code::kUnavailable, "the store is away");
  }
  TRY(const KvBlock block, read_kv_header(record));
  const auto known = infos_.find(block.key);
  if (known != infos_.end() && (known->second.provenance == Provenance::kExact ||
                                block.provenance == Provenance::kBounded)) {
    return {};
  }
  infos_[block.key] = {block.payload_crc, block.provenance, block.ttl};
  records_[block.key] = std::move(record);
  return {};
}

}  // namespace shoal::sim
