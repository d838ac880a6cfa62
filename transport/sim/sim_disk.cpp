// Each file is its content and what of it is durable.
#include "transport/sim/sim_disk.h"

#include <algorithm>
#include <utility>

#include "transport/file_store/file_store.h"

namespace shoal::transport {
namespace {

// What a disk writes as a whole.
constexpr std::size_t kSector = 512;

struct Content {
  std::vector<std::byte> bytes;
  std::vector<std::byte> durable;
  WallMillis modified = 0;
};

using ContentPtr = std::shared_ptr<Content>;

class SimFile final : public FileIo::File {
 public:
  explicit SimFile(ContentPtr content) : content(std::move(content)) {}

  const ContentPtr content;
};

ContentPtr content_of(const FileIo::File& file) {
  return static_cast<const SimFile&>(file).content;
}

tl::unexpected<Error> no_file(const std::string& name) {
  return fail(Code::kNotFound, "simulated disk: no file " + name);
}

// The content as it is after power was lost. Disks lose single sectors, caches whole runs; and the
// file's new size may be there without what was written to it.
std::vector<std::byte> torn(const Content& content, const SimDisk::Random& random) {
  const std::size_t unit = kSector << (3 * random(3));
  const std::size_t most = content.bytes.size();
  std::vector<std::byte> left = content.durable;
  if (most <= left.size()) {
    left.resize(most);
  } else {
    const std::size_t units = (most - left.size() + unit - 1) / unit;
    left.resize(random(2) == 0 ? most : std::min(most, left.size() + random(units) * unit));
  }
  for (std::size_t at = 0; at < left.size(); at += unit) {
    const auto size = static_cast<std::ptrdiff_t>(std::min(unit, left.size() - at));
    const auto written = content.bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto kept = left.begin() + static_cast<std::ptrdiff_t>(at);
    if (!std::equal(written, written + size, kept) && random(2) == 0) {
      std::copy(written, written + size, kept);
    }
  }
  return left;
}

}  // namespace

struct SimDisk::State {
  WallClock now;
  Verdict verdict;
  mutable std::mutex mutex;
  std::map<std::string, ContentPtr> files;

  ContentPtr find(const std::string& name) const {
    const auto found = files.find(name);
    return found == files.end() ? nullptr : found->second;
  }
};

namespace {

class View final : public FileIo {
 public:
  explicit View(std::shared_ptr<SimDisk::State> state) : state_(std::move(state)) {}

  void sever() { is_severed_ = true; }

  int depth() const override { return 4; }

  Result<std::vector<std::string>> list() override {
    TRY_VOID(ask(DiskCall::kOpen));
    const std::lock_guard lock(state_->mutex);
    std::vector<std::string> names;
    for (const auto& [name, content] : state_->files) {
      names.push_back(name);
    }
    return names;
  }

  Result<Facts> facts(const std::string& name) override {
    TRY(const ContentPtr content, find(name, DiskCall::kOpen));
    return Facts{content->bytes.size(), content->modified};
  }

  Result<FilePtr> open(const std::string& name) override {
    TRY(ContentPtr content, find(name, DiskCall::kOpen));
    return std::make_shared<SimFile>(std::move(content));
  }

  Result<FilePtr> create(const std::string& name) override {
    TRY_VOID(ask(DiskCall::kWrite));
    const std::lock_guard lock(state_->mutex);
    const auto [at, is_new] = state_->files.try_emplace(name, std::make_shared<Content>());
    if (!is_new) {
      return fail(Code::kUnavailable, "simulated disk: there is a file " + name);
    }
    at->second->modified = state_->now();
    return std::make_shared<SimFile>(at->second);
  }

  Result<void> remove(const std::string& name) override {
    TRY_VOID(ask(DiskCall::kRemove));
    const std::lock_guard lock(state_->mutex);
    return state_->files.erase(name) == 1 ? Result<void>() : no_file(name);
  }

  void read(std::span<Read> reads) override {
    for (Read& read : reads) {
      read.result = read_one(read);
    }
  }

  Result<void> write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) override {
    TRY_VOID(ask(DiskCall::kWrite));
    const std::lock_guard lock(state_->mutex);
    Content& content = *content_of(file);
    content.bytes.resize(std::max<std::size_t>(content.bytes.size(), offset + bytes.size()));
    std::copy(
        bytes.begin(), bytes.end(), content.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    content.modified = state_->now();
    return {};
  }

  Result<void> truncate(File& file, std::uint64_t bytes) override {
    TRY_VOID(ask(DiskCall::kWrite));
    const std::lock_guard lock(state_->mutex);
    content_of(file)->bytes.resize(bytes);
    return {};
  }

  Result<void> sync(File& file) override {
    TRY_VOID(ask(DiskCall::kSync));
    const std::lock_guard lock(state_->mutex);
    Content& content = *content_of(file);
    content.durable = content.bytes;
    return {};
  }

  Result<std::string> content(const std::string& name) override {
    TRY(const ContentPtr found, find(name, DiskCall::kRead));
    const std::lock_guard lock(state_->mutex);
    std::string text;
    for (const std::byte byte : found->bytes) {
      text += static_cast<char>(byte);
    }
    return text;
  }

  Result<void> replace(const std::string& name, std::string_view text) override {
    TRY_VOID(ask(DiskCall::kWrite));
    const auto bytes = std::as_bytes(std::span(text));
    auto content = std::make_shared<Content>();
    content->bytes.assign(bytes.begin(), bytes.end());
    content->durable = content->bytes;
    const std::lock_guard lock(state_->mutex);
    content->modified = state_->now();
    state_->files[name] = std::move(content);
    return {};
  }

 private:
  Result<void> ask(DiskCall call) const {
    if (is_severed_) {
      return fail(Code::kUnavailable, "simulated disk: the process is gone");
    }
    if (state_->verdict) {
      if (auto refused = state_->verdict(call)) {
        return tl::unexpected(*std::move(refused));
      }
    }
    return {};
  }

  Result<ContentPtr> find(const std::string& name, DiskCall call) const {
    TRY_VOID(ask(call));
    const std::lock_guard lock(state_->mutex);
    ContentPtr found = state_->find(name);
    if (found == nullptr) {
      return no_file(name);
    }
    return found;
  }

  Result<void> read_one(Read& read) const {
    TRY_VOID(ask(DiskCall::kRead));
    const std::lock_guard lock(state_->mutex);
    const Content& content = *content_of(*read.file);
    if (read.offset + read.bytes.size() > content.bytes.size()) {
      return fail(Code::kCorrupt, "simulated disk: a file ends before what was asked for");
    }
    std::copy_n(content.bytes.begin() + static_cast<std::ptrdiff_t>(read.offset),
                read.bytes.size(),
                read.bytes.begin());
    return {};
  }

  const std::shared_ptr<SimDisk::State> state_;
  bool is_severed_ = false;
};

}  // namespace

SimDisk::SimDisk(WallClock now, Verdict verdict) : state_(std::make_shared<State>()) {
  state_->now = std::move(now);
  state_->verdict = std::move(verdict);
}

SimDisk::~SimDisk() = default;

std::shared_ptr<FileIo> SimDisk::open() {
  return std::make_shared<View>(state_);
}

void SimDisk::sever(FileIo& view) {
  static_cast<View&>(view).sever();
}

void SimDisk::lose_power(const Random& random) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, content] : state_->files) {
    content->bytes = torn(*content, random);
    content->durable = content->bytes;
  }
}

std::vector<std::string> SimDisk::files() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, content] : state_->files) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::byte>& SimDisk::content(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->files.at(name)->bytes;
}

std::unique_ptr<BlockStore> make_sim_blocks(SimBlocksParts parts) {
  RunInLane lanes = [scheduler = parts.scheduler, delay = std::move(parts.delay)](
                        Lane lane, std::function<void()> job) {
    scheduler.defer(delay ? delay(lane) : Nanos(0), std::move(job));
  };
  return make_file_store(
      std::move(parts.params), std::move(parts.disk), parts.scheduler, std::move(lanes));
}

}  // namespace shoal::transport
