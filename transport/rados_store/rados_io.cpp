// Parts of a call run at the same time, at most kDepth of them.
#include "transport/rados_store/rados_io.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <deque>
#include <optional>
#include <vector>

#include "transport/file_store/layout.h"

namespace shoal::transport {
namespace {

constexpr int kDepth = 16;
constexpr char kDirectory[] = "directory";
constexpr std::string_view kFile = "file ";
constexpr std::string_view kSegment = "segment ";
constexpr std::string_view kLeaving = "leaving ";
// Names that an OSD is asked for at once; its own limit is 1,024.
constexpr std::uint64_t kPage = 1'000;
// A segment that is still leaving after this was left by whoever removed it.
constexpr WallMillis kLeavingPatience = 60'000;
// What a writer that died may have written behind the length it told last: one group.
constexpr std::uint64_t kUntold = static_cast<std::uint64_t>(kKvPayloadMax + 2 * kGroupBytes);

using Call = RadosCluster::Call;

class RadosFile final : public FileIo::File {
 public:
  explicit RadosFile(std::string name) : name(std::move(name)) {}

  const std::string name;
  std::uint64_t end = 0;  // behind what was written through this one
};

RadosFile& of(FileIo::File& file) {
  return static_cast<RadosFile&>(file);
}

std::string stripe_of(const std::string& name, std::uint64_t number) {
  return name + "/" + std::to_string(number);
}

std::uint64_t stripes_of(std::uint64_t bytes) {
  return (bytes + RadosIo::kStripe - 1) / RadosIo::kStripe;
}

std::uint64_t bytes_of(std::string_view line) {
  std::uint64_t bytes = 0;
  const auto digits = line.substr(line.find(' ') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  return bytes;
}

const char* data(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

// A run of bytes inside one stripe.
struct Piece {
  std::uint64_t stripe = 0;
  std::uint64_t offset = 0;
  std::size_t at = 0;  // among the bytes of the call
  std::size_t size = 0;
};

std::vector<Piece> pieces_of(std::uint64_t offset, std::size_t size) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < size;) {
    const std::uint64_t begin = offset + at;
    const std::uint64_t inside = begin % RadosIo::kStripe;
    const auto room = static_cast<std::size_t>(RadosIo::kStripe - inside);
    pieces.push_back({begin / RadosIo::kStripe, inside, at, std::min(room, size - at)});
    at += pieces.back().size;
  }
  return pieces;
}

// Calls under way; the first error of them all.
class Calls {
 public:
  explicit Calls(RadosCluster& cluster) : cluster_(cluster) {}

  void write(const std::string& object, RadosWriteOp op) {
    make_room();
    calls_.push_back(std::make_unique<Call>(cluster_, object, std::move(op)));
  }

  // 0, or an errno. What is not there is no error where it is to be removed.
  int wait() {
    while (!calls_.empty()) {
      take();
    }
    return error_;
  }

 private:
  void make_room() {
    if (calls_.size() == kDepth) {
      take();
    }
  }

  void take() {
    const int error = calls_.front()->wait();
    calls_.pop_front();
    if (error_ == 0 && error != ENOENT) {
      error_ = error;
    }
  }

  RadosCluster& cluster_;
  std::deque<std::unique_ptr<Call>> calls_;
  int error_ = 0;
};

// A piece that is being read.
struct Reading {
  Reading(RadosCluster& cluster, const std::string& name, const Piece& piece, std::byte* to)
      : expected(piece.size),
        call(cluster, stripe_of(name, piece.stripe), make(piece, to)) {}

  // A read that timed out does not fill its memory later: it is copied there when the call ends.
  RadosReadOp make(const Piece& piece, std::byte* to) {
    auto op = make_read_op();
    rados_read_op_read(
        op.get(), piece.offset, piece.size, reinterpret_cast<char*>(to), &read, &error);
    return op;
  }

  // 0, or an errno; ENODATA: the stripe ends before.
  int wait() {
    const int failed = call.wait();
    return failed == 0 && read != expected ? ENODATA : failed;
  }

  std::size_t read = 0;
  int error = 0;
  const std::size_t expected;
  Call call;
};

}  // namespace

Result<void> RadosIo::make_directory() {
  auto op = make_write_op();
  rados_write_op_create(op.get(), LIBRADOS_CREATE_IDEMPOTENT, nullptr);
  // An erasure-coded pool says so here.
  rados_write_op_omap_set2(op.get(), nullptr, nullptr, nullptr, nullptr, 0);
  const int error = Call(*cluster_, kDirectory, std::move(op)).wait();
  return error == 0 ? Result<void>() : cluster_->refused("open", cluster_->name(), error);
}

std::string_view RadosIo::durable() const {
  return "processes and machines that use it, and the loss of OSDs as long as one copy of the "
         "pool's is left: Ceph acknowledges what every copy has";
}

int RadosIo::depth() const {
  return kDepth;
}

Result<std::vector<std::string>> RadosIo::list() {
  TRY(auto lines, this->lines());
  std::vector<std::string> names;
  std::vector<std::string> left;
  {
    const std::lock_guard lock(mutex_);
    Lines known;
    for (auto& [name, text] : lines) {
      const auto before = known_.find(name);
      const bool is_same = before != known_.end() && before->second.text == text;
      const Line line{std::move(text), is_same ? before->second.since : now()};
      if (!line.text.starts_with(kLeaving)) {
        names.push_back(name);
      } else if (line.since + kLeavingPatience < now()) {
        left.push_back(name);
      }
      known.emplace(name, line);
    }
    known_ = std::move(known);
  }
  for (const std::string& name : left) {
    static_cast<void>(remove(name));  // once more with the next
  }
  return names;
}

Result<std::map<std::string, std::string>> RadosIo::lines() {
  std::map<std::string, std::string> lines;
  unsigned char has_more = 1;
  while (has_more != 0) {
    rados_omap_iter_t iterator = nullptr;
    int error = 0;
    auto op = make_read_op();
    const std::string after = lines.empty() ? std::string() : lines.rbegin()->first;
    rados_read_op_omap_get_vals2(op.get(), after.c_str(), "", kPage, &iterator, &has_more, &error);
    if (const int failed = Call(*cluster_, kDirectory, std::move(op), true).wait(); failed != 0) {
      return cluster_->refused("list", cluster_->name(), failed);
    }
    const std::size_t before = lines.size();
    char* key = nullptr;
    char* value = nullptr;
    std::size_t key_size = 0;
    std::size_t size = 0;
    while (rados_omap_get_next2(iterator, &key, &value, &key_size, &size) == 0 && key != nullptr) {
      lines.emplace(std::string(key, key_size), std::string(value, size));
    }
    rados_omap_get_end(iterator);
    has_more = static_cast<unsigned char>(has_more != 0 && lines.size() > before);
  }
  return lines;
}

Result<std::string> RadosIo::line(const std::string& name) {
  rados_omap_iter_t iterator = nullptr;
  int error = 0;
  auto op = make_read_op();
  const char* key = name.c_str();
  const std::size_t key_size = name.size();
  rados_read_op_omap_get_vals_by_keys2(op.get(), &key, 1, &key_size, &iterator, &error);
  if (const int failed = Call(*cluster_, kDirectory, std::move(op)).wait(); failed != 0) {
    return cluster_->refused("look up", name, failed);
  }
  char* found = nullptr;
  char* value = nullptr;
  std::size_t found_size = 0;
  std::size_t size = 0;
  std::optional<std::string> text;
  if (rados_omap_get_next2(iterator, &found, &value, &found_size, &size) == 0 && found != nullptr) {
    text.emplace(value, size);
  }
  rados_omap_get_end(iterator);
  return text ? Result<std::string>(*std::move(text)) : cluster_->refused("look up", name, ENOENT);
}

Result<void> RadosIo::set_line(const std::string& name, const std::string& text) {
  auto op = make_write_op();
  const char* key = name.c_str();
  const char* value = text.data();
  const std::size_t key_size = name.size();
  const std::size_t size = text.size();
  rados_write_op_omap_set2(op.get(), &key, &value, &key_size, &size, 1);
  const int error = Call(*cluster_, kDirectory, std::move(op)).wait();
  return error == 0 ? Result<void>() : cluster_->refused("write", name, error);
}

// Only while it is a segment: what others removed does not come back.
Result<void> RadosIo::change_segment(const std::string& name, std::uint64_t bytes) {
  const std::string text = std::string(kSegment) + std::to_string(bytes);
  auto op = make_write_op();
  int compared = 0;
  const char* key = name.c_str();
  const char* value = text.data();
  const std::size_t key_size = name.size();
  const std::size_t size = text.size();
  rados_write_op_omap_cmp2(op.get(),
                           key,
                           LIBRADOS_CMPXATTR_OP_GT,
                           kSegment.data(),
                           key_size,
                           kSegment.size(),
                           &compared);
  rados_write_op_omap_set2(op.get(), &key, &value, &key_size, &size, 1);
  const int error = Call(*cluster_, kDirectory, std::move(op)).wait();
  if (error == ECANCELED) {
    return fail(Code::kUnavailable, name + " was removed by another process while it was written");
  }
  return error == 0 ? Result<void>() : cluster_->refused("sync", name, error);
}

Result<void> RadosIo::remove_line(const std::string& name) {
  auto op = make_write_op();
  const char* key = name.c_str();
  const std::size_t key_size = name.size();
  rados_write_op_omap_rm_keys2(op.get(), &key, &key_size, 1);
  const int error = Call(*cluster_, kDirectory, std::move(op)).wait();
  return error == 0 ? Result<void>() : cluster_->refused("remove", name, error);
}

// Of a segment of which `bytes` were told.
Result<void> RadosIo::remove_stripes(const std::string& name,
                                     std::uint64_t from,
                                     std::uint64_t bytes) {
  Calls calls(*cluster_);
  for (std::uint64_t stripe = from; stripe < stripes_of(bytes + kUntold); ++stripe) {
    auto op = make_write_op();
    rados_write_op_remove(op.get());
    calls.write(stripe_of(name, stripe), std::move(op));
  }
  const int error = calls.wait();
  return error == 0 ? Result<void>() : cluster_->refused("remove", name, error);
}

Result<FileIo::Facts> RadosIo::facts(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(name); found != known_.end()) {
      return facts_of(found->second);
    }
  }
  TRY(const std::string text, line(name));
  return facts_of({text, now()});
}

FileIo::Facts RadosIo::facts_of(const Line& line) const {
  const bool is_file = line.text.starts_with(kFile);
  return {is_file ? line.text.size() - kFile.size() : bytes_of(line.text), line.since};
}

Result<FileIo::FilePtr> RadosIo::open(const std::string& name) {
  return std::make_shared<RadosFile>(name);
}

Result<FileIo::FilePtr> RadosIo::create(const std::string& name) {
  const std::string text = std::string(kSegment) + "0";
  auto op = make_write_op();
  int compared = 0;
  const char* key = name.c_str();
  const char* value = text.data();
  const std::size_t key_size = name.size();
  const std::size_t size = text.size();
  rados_write_op_omap_cmp2(op.get(), key, LIBRADOS_CMPXATTR_OP_EQ, "", key_size, 0, &compared);
  rados_write_op_omap_set2(op.get(), &key, &value, &key_size, &size, 1);
  const int error = Call(*cluster_, kDirectory, std::move(op)).wait();
  if (error == ECANCELED) {
    return cluster_->refused("create", name, EEXIST);
  }
  if (error != 0) {
    return cluster_->refused("create", name, error);
  }
  return std::make_shared<RadosFile>(name);
}

// The line goes last: whoever finds it leaving can finish.
Result<void> RadosIo::remove(const std::string& name) {
  TRY(const std::string text, line(name));
  if (!text.starts_with(kFile)) {
    TRY_VOID(set_line(name, std::string(kLeaving) + std::to_string(bytes_of(text))));
    TRY_VOID(remove_stripes(name, 0, bytes_of(text)));
  }
  return remove_line(name);
}

void RadosIo::read(std::span<Read> reads) {
  std::deque<std::pair<Read*, std::unique_ptr<Reading>>> under_way;
  const auto take = [&] {
    auto& [read, reading] = under_way.front();
    const std::string& name = of(*read->file).name;
    if (const int error = reading->wait(); error == ENODATA) {
      read->result = fail(Code::kCorrupt, name + " ends before what was asked for");
    } else if (error != 0) {
      read->result = cluster_->refused("read", name, error);
    }
    under_way.pop_front();
  };
  for (Read& read : reads) {
    for (const Piece& piece : pieces_of(read.offset, read.bytes.size())) {
      if (under_way.size() == kDepth) {
        take();
      }
      under_way.emplace_back(
          &read,
          std::make_unique<Reading>(
              *cluster_, of(*read.file).name, piece, read.bytes.data() + piece.at));
    }
  }
  while (!under_way.empty()) {
    take();
  }
}

Result<void> RadosIo::write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  Calls calls(*cluster_);
  for (const Piece& piece : pieces_of(offset, bytes.size())) {
    auto op = make_write_op();
    rados_write_op_write(op.get(), data(bytes.subspan(piece.at)), piece.size, piece.offset);
    calls.write(stripe_of(of(file).name, piece.stripe), std::move(op));
  }
  if (const int error = calls.wait(); error != 0) {
    return cluster_->refused("write", of(file).name, error);
  }
  of(file).end = std::max(of(file).end, offset + bytes.size());
  return {};
}

Result<void> RadosIo::truncate(File& file, std::uint64_t bytes) {
  const std::string& name = of(file).name;
  TRY_VOID(change_segment(name, bytes));
  if (bytes % kStripe != 0) {
    auto op = make_write_op();
    rados_write_op_truncate(op.get(), bytes % kStripe);
    const int error = Call(*cluster_, stripe_of(name, bytes / kStripe), std::move(op)).wait();
    if (error != 0) {
      return cluster_->refused("truncate", name, error);
    }
  }
  return remove_stripes(name, stripes_of(bytes), of(file).end);
}

Result<void> RadosIo::sync(File& file) {
  return change_segment(of(file).name, of(file).end);
}

Result<std::string> RadosIo::content(const std::string& name) {
  TRY(const std::string text, line(name));
  if (!text.starts_with(kFile)) {
    return fail(Code::kCorrupt, name + " is not a small file");
  }
  return text.substr(kFile.size());
}

Result<void> RadosIo::replace(const std::string& name, std::string_view content) {
  const std::string text = std::string(kFile) + std::string(content);
  TRY_VOID(set_line(name, text));
  const std::lock_guard lock(mutex_);
  known_[name] = {text, now()};
  return {};
}

WallMillis RadosIo::now() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now_().time_since_epoch()).count();
}

}  // namespace shoal::transport
