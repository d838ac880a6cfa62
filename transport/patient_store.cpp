// A thread that opens, looks whether the store is still there, and opens it again.
#include "transport/patient_store.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace shoal::transport {
namespace {

using StorePtr = std::shared_ptr<BlockStore>;

// For a thread that opens; what hangs longer is left behind.
constexpr std::chrono::seconds kStopPatience(2);

void add_counts(BlockStore::Use& sum, const BlockStore::Use& more) {
  sum.puts += more.puts;
  sum.gets += more.gets;
  sum.misses += more.misses;
  sum.corrupt += more.corrupt;
  sum.broken += more.broken;
  sum.expired += more.expired;
  sum.evicted += more.evicted;
  sum.failed += more.failed;
}

// Of the object and its thread, which may outlive it.
class Opening {
 public:
  Opening(PatientParams params, Result<std::unique_ptr<BlockStore>> first)
      : params_(std::move(params)) {
    if (first) {
      store_ = *std::move(first);
    } else {
      went(first.error().message);
    }
  }

  // Null: away.
  StorePtr store() const {
    const std::lock_guard lock(mutex_);
    return store_;
  }

  tl::unexpected<Error> refusal() const {
    const std::lock_guard lock(mutex_);
    return fail(Code::kUnavailable,
                is_stopped_ ? "KV store: it was stopped" : "KV store: it is away: " + why_);
  }

  BlockStore::Use use() const {
    const std::lock_guard lock(mutex_);
    BlockStore::Use use;
    if (store_ != nullptr) {
      use = store_->use();
    } else {
      use.writable = false;
      use.away = why_;
    }
    add_counts(use, past_);
    return use;
  }

  void loop() {
    Nanos pause = params_.first_pause;
    while (!is_stopped()) {
      if (const StorePtr open = store()) {
        wait(params_.look);
        look_at(open);
        pause = Nanos(0);  // a directory that was removed can be made again at once
      } else {
        wait(pause);
        try_again();
        pause = std::clamp(2 * pause, params_.first_pause, params_.longest_pause);
      }
    }
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

  // The store that was open. False: the thread still hangs.
  bool stop() {
    std::unique_lock lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
    const StorePtr last = std::exchange(store_, nullptr);
    const bool ended = changed_.wait_for(lock, kStopPatience, [this] { return has_ended_; });
    lock.unlock();
    if (last != nullptr) {
      last->stop();
    }
    return ended;
  }

 private:
  bool is_stopped() const {
    const std::lock_guard lock(mutex_);
    return is_stopped_;
  }

  void wait(Nanos time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return is_stopped_; });
  }

  void went(const std::string& why) {
    params_.told(why);
    const std::lock_guard lock(mutex_);
    why_ = why;
  }

  void look_at(const StorePtr& open) {
    const BlockStore::Use use = open->use();
    if (use.away.empty() || is_stopped()) {
      return;
    }
    went(use.away);
    {
      const std::lock_guard lock(mutex_);
      store_ = nullptr;
      add_counts(past_, use);
    }
    open->stop();
  }

  void try_again() {
    if (is_stopped()) {
      return;
    }
    auto opened = params_.open();
    if (opened) {
      params_.told("");
    }
    const std::lock_guard lock(mutex_);
    if (!opened) {
      why_ = opened.error().message;
    } else if (!is_stopped_) {
      store_ = *std::move(opened);
    }
  }

  const PatientParams params_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StorePtr store_;
  std::string why_;
  BlockStore::Use past_;  // counts of stores before
  bool is_stopped_ = false;
  bool has_ended_ = false;
};

class PatientStore final : public BlockStore {
 public:
  explicit PatientStore(std::shared_ptr<Opening> opening)
      : opening_(std::move(opening)),
        thread_([opening = opening_] { opening->loop(); }) {}

  ~PatientStore() override { PatientStore::stop(); }

  std::string_view durable() const override {
    const StorePtr store = opening_->store();
    return store != nullptr ? store->durable() : "nothing: the store is away";
  }

  std::optional<BlockInfo> find(const BlockKey& key) const override {
    const StorePtr store = opening_->store();
    return store != nullptr ? store->find(key) : std::nullopt;
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    if (const StorePtr store = opening_->store()) {
      return store->put(std::move(records), std::move(done));
    }
    done(std::vector<Result<void>>(records.size(), opening_->refusal()));
  }

  void get(std::vector<KvWanted> wanted, Instant deadline, Got done) override {
    if (const StorePtr store = opening_->store()) {
      return store->get(std::move(wanted), deadline, std::move(done));
    }
    done(std::vector<Loaded>(wanted.size(), opening_->refusal()));
  }

  void refresh() override {
    if (const StorePtr store = opening_->store()) {
      store->refresh();
    }
  }

  void touch(const BlockKey& leaf, std::uint32_t turn) override {
    if (const StorePtr store = opening_->store()) {
      store->touch(leaf, turn);
    }
  }

  void hold(const BlockKey& leaf, Nanos time) override {
    if (const StorePtr store = opening_->store()) {
      store->hold(leaf, time);
    }
  }

  void release(const BlockKey& leaf) override {
    if (const StorePtr store = opening_->store()) {
      store->release(leaf);
    }
  }

  bool drop(const BlockKey& key) override {
    const StorePtr store = opening_->store();
    return store != nullptr && store->drop(key);
  }

  void stop() override {
    if (!thread_.joinable()) {
      return;
    }
    if (opening_->stop()) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  Use use() const override { return opening_->use(); }

 private:
  const std::shared_ptr<Opening> opening_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<BlockStore>> open_patient_store(PatientParams params) {
  auto first = params.open();
  if (!first && first.error().code == Code::kMisconfigured) {
    return first;
  }
  return std::make_unique<PatientStore>(
      std::make_shared<Opening>(std::move(params), std::move(first)));
}

}  // namespace shoal::transport
