// Operations are done inside the call and called back by a thread.
#include "transport/memory/memory_blocks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "transport/thread_scheduler.h"

namespace shoal::transport {
namespace {

tl::unexpected<Error> stopped() {
  return fail(Code::kUnavailable, "KV store: it was stopped");
}

class MemoryBlocks final : public BlockStore {
 public:
  explicit MemoryBlocks(BlockStoreParams params)
      : params_(std::move(params)),
        index_(params_.policy, params_.wall()),
        loop_(params_.now) {}

  ~MemoryBlocks() override { MemoryBlocks::stop(); }

  std::string_view durable() const override { return "nothing: it ends with its process"; }

  std::optional<BlockInfo> find(const BlockKey& key) const override {
    const std::lock_guard lock(mutex_);
    const auto found = find_live(key);
    return found ? std::optional(found->info) : std::nullopt;
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    std::vector<Result<void>> results(records.size(), stopped());
    std::unique_lock lock(mutex_);
    if (is_stopped_) {
      lock.unlock();
      return done(std::move(results));
    }
    counts_.puts += static_cast<std::int64_t>(records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      results[i] = store(std::move(records[i]), static_cast<std::uint32_t>(records.size()));
    }
    tidy();
    answer([done = std::move(done), results = std::move(results)] { done(results); });
  }

  void get(std::vector<KvWanted> wanted, Instant deadline, Got done) override {
    static_cast<void>(deadline);  // it is done at once
    std::vector<Loaded> loaded(wanted.size(), stopped());
    std::unique_lock lock(mutex_);
    if (is_stopped_) {
      lock.unlock();
      return done(std::move(loaded));
    }
    tidy();
    counts_.gets += static_cast<std::int64_t>(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      loaded[i] = load(wanted[i]);
    }
    answer([done = std::move(done), loaded = std::move(loaded)] { done(loaded); });
  }

  void refresh() override {}  // it has no others

  void touch(const BlockKey& leaf, std::uint32_t turn) override {
    const std::lock_guard lock(mutex_);
    if (find_live(leaf)) {
      index_.touch(leaf, turn, params_.wall());
    }
  }

  void hold(const BlockKey& leaf, Nanos time) override {
    const std::lock_guard lock(mutex_);
    const WallMillis now = params_.wall();
    if (find_live(leaf)) {
      index_.hold(leaf, now + to_millis(time), now);
    }
  }

  void release(const BlockKey& leaf) override {
    const std::lock_guard lock(mutex_);
    index_.release(leaf);
  }

  bool drop(const BlockKey& key) override {
    const std::lock_guard lock(mutex_);
    const auto place = index_.erase(key);
    return place && forget(*place);
  }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    loop_.stop();
    for (auto& [number, call] : std::exchange(answers_, {})) {
      call();
    }
  }

  Use use() const override {
    const std::lock_guard lock(mutex_);
    Use use = counts_;
    use.blocks = index_.size();
    use.bytes = Bytes(bytes_);
    use.index = index_.bytes();
    use.held = index_.held();
    return use;
  }

 private:
  std::optional<BlockIndex::Found> find_live(const BlockKey& key) const {
    return index_.find_live(key, params_.limits.hours, params_.wall());
  }

  Result<void> store(std::vector<std::byte> record, std::uint32_t turn) {
    TRY(const KvBlock block, read_kv_header(record));
    TRY_VOID(read_kv_record(record, {block.key, block.parent, block.layout}));
    if (index_.find(block.key) && !find_live(block.key)) {
      counts_.expired += forget(*index_.erase(block.key));
    }
    const auto there = index_.find(block.key);
    if (there && (there->info.provenance == Provenance::kExact ||
                  block.provenance == Provenance::kBounded)) {
      return {};
    }
    const auto bytes = static_cast<std::int64_t>(record.size());
    const BlockInfo info{block.payload_crc, block.provenance, block.ttl, 0};
    const BlockPlace place{last_record_, 0, static_cast<std::uint32_t>(bytes / kKvRecordAlign)};
    if (there) {
      index_.replace(block.key, info, place);
      forget(there->place);
    } else if (!index_.insert({block.key, block.parent, block.number, info, place, turn},
                              params_.wall())) {
      return fail(Code::kCorrupt, "KV store: the block's number is not that of its place");
    }
    bytes_ += bytes;
    records_.emplace(last_record_++, std::move(record));
    return {};
  }

  Loaded load(const KvWanted& wanted) {
    const auto found = find_live(wanted.key);
    if (!found) {
      counts_.misses += 1;
      return fail(Code::kNotFound, "KV store: no such block");
    }
    const auto read = read_kv_record(records_.at(found->place.segment), wanted);
    if (read) {
      return std::make_shared<const std::vector<std::byte>>(read->payload.begin(),
                                                            read->payload.end());
    }
    counts_.corrupt += 1;
    forget(*index_.erase(wanted.key));
    return tl::unexpected(read.error());
  }

  // Lifetimes and ceilings.
  void tidy() {
    const WallMillis now = params_.wall();
    for (const BlockPlace& place : index_.expire(params_.limits.hours, kExpiryLooks, now)) {
      counts_.expired += forget(place);
    }
    while (index_.size() > 0 &&
           (bytes_ > params_.limits.bytes.value || index_.size() > params_.limits.blocks)) {
      const std::int64_t most = std::max<std::int64_t>(index_.size() - params_.limits.blocks, 1);
      for (const BlockPlace& place : index_.evict(most, now)) {
        counts_.evicted += forget(place);
      }
    }
  }

  // Of one that has left the index.
  bool forget(const BlockPlace& place) {
    bytes_ -= std::int64_t{place.pages} * kKvRecordAlign;
    return records_.erase(place.segment) == 1;
  }

  void answer(std::function<void()> call) {
    const std::uint64_t number = last_answer_++;
    answers_.emplace(number, std::move(call));
    loop_.defer(Nanos(0), [this, number] {
      std::unique_lock lock(mutex_);
      auto taken = answers_.extract(number);
      lock.unlock();
      taken.mapped()();
    });
  }

  static constexpr std::int64_t kExpiryLooks = 64;  // of each put and get

  const BlockStoreParams params_;
  mutable std::mutex mutex_;
  bool is_stopped_ = false;
  BlockIndex index_;
  std::unordered_map<std::uint32_t, std::vector<std::byte>> records_;
  std::uint32_t last_record_ = 0;
  std::int64_t bytes_ = 0;
  Use counts_;
  std::map<std::uint64_t, std::function<void()>> answers_;  // not called yet
  std::uint64_t last_answer_ = 0;
  ThreadScheduler loop_;
};

}  // namespace

std::unique_ptr<BlockStore> make_memory_blocks(BlockStoreParams params) {
  return std::make_unique<MemoryBlocks>(std::move(params));
}

}  // namespace shoal::transport
