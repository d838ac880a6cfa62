// Opens the parts and puts the interface over them.
#include "transport/file_store/file_store.h"

#include <algorithm>
#include <future>
#include <utility>

#include "transport/file_store/posix_io.h"
#include "transport/file_store/store_core.h"
#include "transport/file_store/uring_io.h"
#include "transport/thread_scheduler.h"

namespace shoal::transport {
namespace {

constexpr char kVersion[] = "shoal KV store, format 1\n";
constexpr std::chrono::seconds kOpenPatience(10);
constexpr std::int64_t kSegmentLeast = std::int64_t{1} << 20;
constexpr std::int64_t kSegmentMost = std::int64_t{256} << 20;

tl::unexpected<Error> stopped() {
  return fail(Code::kUnavailable, "KV store: it was stopped");
}

class FileStore final : public BlockStore {
 public:
  // Threads: none where a scheduler and lanes are somebody else's.
  FileStore(std::shared_ptr<StoreCore> core,
            std::unique_ptr<ThreadScheduler> loop,
            std::unique_ptr<LaneThreads> lanes)
      : loop_(std::move(loop)),
        lanes_(std::move(lanes)),
        core_(std::move(core)) {
    core_->tidying.start();
    core_->post([](StoreCore& core) { core.watch(); });
  }

  ~FileStore() override { FileStore::stop(); }

  std::string_view durable() const override { return core_->io->durable(); }

  std::optional<BlockInfo> find(const BlockKey& key) const override {
    const std::lock_guard lock(core_->mutex);
    const auto found = core_->catalog.find(key);
    return found ? std::optional(found->info) : std::nullopt;
  }

  void put(std::vector<std::vector<std::byte>> records, Stored done) override {
    std::unique_lock lock(core_->mutex);
    if (!core_->is_stopped()) {
      return core_->puts.add(std::move(records), std::move(done));
    }
    lock.unlock();
    done(std::vector<Result<void>>(records.size(), stopped()));
  }

  void get(std::vector<KvWanted> wanted, Instant deadline, Got done) override {
    std::unique_lock lock(core_->mutex);
    if (!core_->is_stopped()) {
      return core_->gets.add(std::move(wanted), deadline, std::move(done));
    }
    lock.unlock();
    done(std::vector<Loaded>(wanted.size(), stopped()));
  }

  void refresh() override {
    const std::lock_guard lock(core_->mutex);
    if (!core_->is_stopped()) {
      core_->tidying.ask_for_look();
    }
  }

  void touch(const BlockKey& leaf, std::uint32_t turn) override {
    const std::lock_guard lock(core_->mutex);
    if (const auto found = core_->catalog.find(leaf); found && !core_->is_stopped()) {
      const WallMillis now = core_->params.wall();
      core_->catalog.touch(leaf, turn, now);
      core_->puts.note_touch(found->info.ttl, leaf, turn, now);
    }
  }

  void hold(const BlockKey& leaf, Nanos time) override {
    const std::lock_guard lock(core_->mutex);
    const WallMillis now = core_->params.wall();
    core_->catalog.hold(leaf, now + to_millis(time), now);
  }

  void release(const BlockKey& leaf) override {
    const std::lock_guard lock(core_->mutex);
    core_->catalog.release(leaf);
  }

  bool drop(const BlockKey& key) override {
    const std::lock_guard lock(core_->mutex);
    const auto found = core_->catalog.find(key);
    if (!found || core_->is_stopped()) {
      return false;
    }
    core_->catalog.forget(key);
    core_->puts.note_drop(found->info.ttl, key, found->segment, found->place.page);
    return true;
  }

  void stop() override {
    if (core_->is_stopped()) {
      return;
    }
    core_->stop();
    if (loop_ != nullptr) {
      loop_->stop();
    }
    core_->fail_pending();
    if (lanes_ != nullptr) {
      lanes_->stop([core = core_] { core->tidying.retire(); });
    } else {
      core_->tidying.retire();
    }
  }

  Use use() const override {
    const std::lock_guard lock(core_->mutex);
    return core_->use();
  }

 private:
  const std::unique_ptr<ThreadScheduler> loop_;
  const std::unique_ptr<LaneThreads> lanes_;
  const std::shared_ptr<StoreCore> core_;
};

std::string unique_of(const BlockStoreParams& params) {
  return std::to_string(params.writer.value);
}

// An empty directory becomes a store.
Result<void> prepare(FileIo& io, const std::filesystem::path& directory, const std::string& where) {
  if (!directory.empty()) {
    std::error_code ignored;  // what is wrong is said by the first file
    if (std::filesystem::create_directories(directory, ignored)) {
      std::filesystem::permissions(directory, std::filesystem::perms::owner_all, ignored);
    }
  }
  const auto there = io.content(kVersionFile);
  if (there || there.error().code != Code::kNotFound) {
    return check_version(io, where);
  }
  if (const auto written = io.replace(kVersionFile, kVersion); !written) {
    return fail(Code::kMisconfigured,
                written.error().message + "; give " + where + " to this user to write");
  }
  return {};
}

std::unique_ptr<BlockStore> make(BlockStoreParams params,
                                 std::shared_ptr<FileIo> io,
                                 std::unique_ptr<LaneThreads> lanes) {
  auto loop = std::make_unique<ThreadScheduler>(params.now);
  auto core =
      std::make_shared<StoreCore>(std::move(params), std::move(io), loop->port(), lanes->port());
  return std::make_unique<FileStore>(std::move(core), std::move(loop), std::move(lanes));
}

}  // namespace

Bytes full_segment(const BlockStoreLimits& limits) {
  return Bytes(std::clamp(limits.bytes.value / 16, kSegmentLeast, kSegmentMost));
}

Result<std::shared_ptr<FileIo>> open_file_io(const BlockStoreParams& params) {
  if (params.way != FileWay::kThreads) {
    auto uring = open_uring_io(params.directory, unique_of(params), params.direct);
    if (uring || params.way == FileWay::kUring) {
      return uring;
    }
  }
  return std::make_shared<PosixIo>(params.directory, unique_of(params), params.direct);
}

Result<void> check_version(FileIo& io, const std::string& where) {
  const auto version = io.content(kVersionFile);
  if (version && *version == kVersion) {
    return {};
  }
  if (version) {
    return fail(Code::kMisconfigured,
                where + " holds a KV store of another version, this program's is '" +
                    std::string(kVersion, sizeof kVersion - 2) +
                    "'; give another directory, or remove it with everything in it");
  }
  if (version.error().code == Code::kNotFound) {
    return fail(Code::kMisconfigured,
                where + " holds no KV store; give the directory that a server was started with");
  }
  return tl::unexpected(version.error());
}

Result<std::unique_ptr<BlockStore>> open_file_store(BlockStoreParams params) {
  TRY(std::shared_ptr<FileIo> io, open_file_io(params));
  const std::string where = params.directory.string();
  return open_file_store(std::move(params), std::move(io), where);
}

Result<std::unique_ptr<BlockStore>> open_file_store(BlockStoreParams params,
                                                    std::shared_ptr<FileIo> io,
                                                    const std::string& where) {
  auto lanes = std::make_unique<LaneThreads>(params.readers);
  // In a lane, since a mount that hangs must not hold the caller.
  auto checked = std::make_shared<std::promise<Result<void>>>();
  lanes->port()(Lane::kTidy, [checked, io, directory = params.directory, where] {
    checked->set_value(prepare(*io, directory, where));
  });
  auto answer = checked->get_future();
  if (answer.wait_for(kOpenPatience) != std::future_status::ready) {
    return fail(Code::kUnavailable, where + " does not answer; is its file system mounted?");
  }
  TRY_VOID(answer.get());
  return make(std::move(params), std::move(io), std::move(lanes));
}

std::unique_ptr<BlockStore> make_file_store(BlockStoreParams params, std::shared_ptr<FileIo> io) {
  auto lanes = std::make_unique<LaneThreads>(params.readers);
  return make(std::move(params), std::move(io), std::move(lanes));
}

std::unique_ptr<BlockStore> make_file_store(BlockStoreParams params,
                                            std::shared_ptr<FileIo> io,
                                            Scheduler scheduler,
                                            RunInLane lanes) {
  auto core = std::make_shared<StoreCore>(
      std::move(params), std::move(io), std::move(scheduler), std::move(lanes));
  return std::make_unique<FileStore>(std::move(core), nullptr, nullptr);
}

}  // namespace shoal::transport
