// Opens the parts and puts the interface over them.
#include "transport/file_store/file_store.h"

#include <algorithm>
#include <future>
#include <sys/stat.h>
#include <utility>

#include "transport/file_store/posix_io.h"
#include "transport/file_store/store_core.h"
#include "transport/file_store/uring_io.h"
#include "transport/thread_scheduler.h"

namespace shoal::transport {
namespace {

constexpr char kVersion[] = "shoal KV store, format 1\n";
constexpr std::string_view kVersionBegin = "shoal KV store, format ";
constexpr std::chrono::seconds kOpenPatience(10);
constexpr std::int64_t kSegmentLeast = std::int64_t{128} << 10;
constexpr std::int64_t kSegmentMost = std::int64_t{256} << 20;
// Segments that a writer may add before it removes some: one between two looks, the groups that are
// under way by then, and what the last of them is longer.
constexpr std::int64_t kBeyond = 5;

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
    const auto found = core_->catalog.find_live(key);
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
    if (const auto found = core_->catalog.find_live(leaf); found && !core_->is_stopped()) {
      const WallMillis now = core_->params.wall();
      core_->catalog.touch(leaf, turn, now);
      core_->puts.note_touch(found->info.ttl, leaf, turn, now);
    }
  }

  void hold(const BlockKey& leaf, Nanos time) override {
    const std::lock_guard lock(core_->mutex);
    const WallMillis now = core_->params.wall();
    if (core_->catalog.find_live(leaf)) {
      core_->catalog.hold(leaf, now + to_millis(time), now);
    }
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

namespace fs = std::filesystem;

// 0: nothing of the path can be seen. Of a path that is not there: where it would be made.
std::uint64_t file_system_of(fs::path path) {
  struct stat facts {};

  while (::stat(path.c_str(), &facts) != 0) {
    if (!path.has_relative_path()) {
      return 0;
    }
    path = path.parent_path();
  }
  return facts.st_dev;
}

// Where there is no store, one may be made there.
Result<void> check_file_system(const BlockStoreParams& params) {
  const std::uint64_t before = params.made_on == nullptr ? 0 : params.made_on->load();
  std::error_code ignored;
  if (before == 0 || fs::exists(params.directory / kVersionFile, ignored) ||
      file_system_of(fs::absolute(params.directory, ignored)) == before) {
    return {};
  }
  return fail(
      Code::kUnavailable,
      params.directory.string() + " is not where it was, on another file system; mount that again");
}

Result<void> make_directory(const fs::path& directory) {
  std::error_code error;
  if (fs::create_directories(directory, error)) {
    std::error_code ignored;  // what it does not allow is said by the first file
    fs::permissions(directory, fs::perms::owner_all, ignored);
  }
  if (error == std::errc::not_a_directory) {
    return fail(Code::kMisconfigured,
                directory.string() +
                    " cannot be a directory: a part of that path is a file; give a directory, or a "
                    "name that is free: it is made");
  }
  if (error) {
    return fail(Code::kUnavailable,
                "cannot make " + directory.string() + ": " + error.message() +
                    "; make it for this user, or give another");
  }
  return {};
}

// An empty directory becomes a store.
Result<void> prepare(FileIo& io, const BlockStoreParams& params, const std::string& where) {
  if (!params.directory.empty()) {
    TRY_VOID(check_file_system(params));
    TRY_VOID(make_directory(params.directory));
  }
  auto there = io.content(kVersionFile);
  if (!there && there.error().code == Code::kNotFound) {
    if (const auto written = io.replace(kVersionFile, kVersion); !written) {
      const bool is_full = written.error().code == Code::kNoCapacity;
      return fail(
          written.error().code,
          written.error().message +
              (is_full ? "; make room there" : "; give " + where + " to this user to write"));
    }
  }
  TRY_VOID(check_version(io, where));
  if (params.made_on != nullptr) {
    *params.made_on = file_system_of(params.directory);
  }
  return {};
}

std::unique_ptr<BlockStore> make(BlockStoreParams params,
                                 std::shared_ptr<FileIo> io,
                                 std::unique_ptr<LaneThreads> lanes,
                                 const std::string& where) {
  auto loop = std::make_unique<ThreadScheduler>(params.now);
  auto core =
      std::make_shared<StoreCore>(std::move(params), std::move(io), loop->port(), lanes->port());
  core->where = where;
  return std::make_unique<FileStore>(std::move(core), std::move(loop), std::move(lanes));
}

}  // namespace

Bytes full_segment(const BlockStoreLimits& limits) {
  return Bytes(std::clamp(limits.bytes.value / 64, kSegmentLeast, kSegmentMost));
}

Bytes removal_mark(const BlockStoreLimits& limits) {
  const std::int64_t full = full_segment(limits).value;
  return Bytes(std::max(limits.bytes.value - kBeyond * full, full));
}

Bytes most_files(const BlockStoreLimits& limits, std::int64_t writers) {
  return removal_mark(limits) + Bytes(writers * kBeyond * full_segment(limits).value);
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

namespace {

// Some format's line, whole.
bool is_version(std::string_view text) {
  return text.starts_with(kVersionBegin) && text.ends_with('\n') &&
         text.size() > kVersionBegin.size() + 1 &&
         text.find_first_not_of("0123456789", kVersionBegin.size()) == text.size() - 1;
}

tl::unexpected<Error> not_ours(std::string_view version, const std::string& where) {
  const std::string ours(kVersion, sizeof kVersion - 2);
  if (is_version(version)) {
    return fail(Code::kMisconfigured,
                where + " holds a KV store of another version, this program's is '" + ours +
                    "'; give another directory, or remove it with everything in it");
  }
  return fail(Code::kMisconfigured,
              "the file " + std::string(kVersionFile) + " of " + where +
                  " is damaged: its line should be '" + ours +
                  "'; remove that file alone and start a server: it is made again, and the blocks "
                  "are there");
}

}  // namespace

Result<void> check_version(FileIo& io, const std::string& where) {
  const auto version = io.content(kVersionFile);
  if (version && *version == kVersion) {
    return {};
  }
  if (version) {
    return not_ours(*version, where);
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
  lanes->port()(Lane::kTidy,
                [checked, io, params, where] { checked->set_value(prepare(*io, params, where)); });
  auto answer = checked->get_future();
  if (answer.wait_for(kOpenPatience) != std::future_status::ready) {
    return fail(Code::kUnavailable, where + " does not answer; is its file system mounted?");
  }
  TRY_VOID(answer.get());
  return make(std::move(params), std::move(io), std::move(lanes), where);
}

std::unique_ptr<BlockStore> make_file_store(BlockStoreParams params, std::shared_ptr<FileIo> io) {
  auto lanes = std::make_unique<LaneThreads>(params.readers);
  return make(std::move(params), std::move(io), std::move(lanes), "");
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
