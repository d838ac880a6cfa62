// An operation waits for room, is split over the reading lanes, and is called back when the last
// part is back or its deadline comes.
#include "transport/file_store/gets.h"

#include <algorithm>
#include <tuple>

#include "transport/file_store/store_core.h"

namespace shoal::transport {
namespace {

Loaded not_found() {
  return fail(Code::kNotFound, "KV store: no such block");
}

std::int64_t bytes_of(const BlockPlace& place) {
  return std::int64_t{place.pages} * kKvRecordAlign;
}

Loaded verified(std::span<const std::byte> record, const KvWanted& wanted) {
  TRY(const KvRecord read, read_kv_record(record, wanted));
  return std::make_shared<const std::vector<std::byte>>(read.payload.begin(), read.payload.end());
}

// Whole, and of that key: then a reader asked for it as what it is not.
bool is_intact(std::span<const std::byte> record, const BlockKey& key) {
  const auto block = read_kv_header(record);
  return block && block->key == key &&
         read_kv_record(record, {block->key, block->parent, block->layout}).has_value();
}

}  // namespace

Gets::Gets(StoreCore& core) : core_(core), files_(*core.io) {}

void Gets::add(std::vector<KvWanted> wanted, Instant deadline, BlockStore::Got done) {
  const std::uint64_t id = ++last_;
  core_.counts.gets += static_cast<std::int64_t>(wanted.size());
  Operation operation{std::move(wanted), {}, 0, std::move(done)};
  operation.loaded.assign(operation.wanted.size(),
                          fail(Code::kDeadline, "KV store: it did not answer by the deadline"));
  operations_.emplace(id, std::move(operation));
  waiting_.push_back(id);
  core_.post([](StoreCore& core) { core.gets.pump(); });
  core_.post([id](StoreCore& core) { core.gets.expire(id); }, deadline - core_.scheduler.now());
}

void Gets::resume() {
  {
    const std::lock_guard lock(core_.mutex);
    waiting_.insert(waiting_.begin(), for_look_.begin(), for_look_.end());
    for_look_.clear();
  }
  pump();
}

void Gets::pump() {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    while (!waiting_.empty()) {
      const std::uint64_t id = waiting_.front();
      const auto found = operations_.find(id);
      if (found != operations_.end() && !begin(id, found->second)) {
        break;
      }
      waiting_.pop_front();
      if (found != operations_.end() && found->second.jobs == 0 &&
          (for_look_.empty() || for_look_.back() != id)) {
        calls.push_back(finish(id));
      }
    }
  }
  make(calls);
}

// What another process wrote may be durable, and not be read here yet.
bool Gets::waits_for_look(Operation& operation) const {
  if (operation.look == 0) {
    operation.look = core_.tidying.ask_for_look();
  }
  return core_.is_opening || core_.tidying.looks() < operation.look;
}

// False: there is no room for it yet.
bool Gets::begin(std::uint64_t id, Operation& operation) {
  std::vector<Piece> pieces;
  std::int64_t bytes = 0;
  for (std::size_t slot = 0; slot < operation.wanted.size(); ++slot) {
    const auto found = core_.catalog.find_live(operation.wanted[slot].key);
    if (found) {
      pieces.push_back({slot, operation.wanted[slot], found->place, found->segment});
      bytes += bytes_of(found->place);
    } else if (waits_for_look(operation)) {
      for_look_.push_back(id);
      return true;
    }
  }
  if (loading_ > 0 && loading_ + bytes > core_.params.limits.loading.value) {
    return false;
  }
  core_.counts.misses += static_cast<std::int64_t>(operation.wanted.size() - pieces.size());
  operation.loaded.assign(operation.wanted.size(), not_found());
  for (const Piece& piece : pieces) {
    operation.loaded[piece.slot] =
        fail(Code::kDeadline, "KV store: the medium did not answer by the deadline");
  }
  loading_ += bytes;
  // In the order of the medium, one share a reader.
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.place.segment, a.place.page) < std::tie(b.place.segment, b.place.page);
  });
  const auto readers = static_cast<std::size_t>(std::max(core_.params.readers, 1));
  const auto share = std::max((pieces.size() + readers - 1) / readers,
                              static_cast<std::size_t>(core_.io->depth()));
  for (std::size_t at = 0; at < pieces.size(); at += share) {
    const auto end = std::min(pieces.size(), at + share);
    ++operation.jobs;
    read_in_lanes(id,
                  {pieces.begin() + static_cast<std::ptrdiff_t>(at),
                   pieces.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  return true;
}

void Gets::read_in_lanes(std::uint64_t id, std::vector<Piece> pieces) {
  core_.run(Lane::kRead, [id, pieces = std::move(pieces)](StoreCore& core) {
    core.post([id, reads = core.gets.read(pieces)](StoreCore& again) mutable {
      again.gets.complete(id, std::move(reads));
    });
  });
}

// In a lane. Where records are read one after the other each is verified while the processor's
// cache still has it.
std::vector<Gets::Read> Gets::read(const std::vector<Piece>& pieces) {
  const std::size_t at_once = core_.io->depth() == 1 ? 1 : pieces.size();
  AlignedBuffer buffer = take_buffer();
  std::vector<Read> results;
  for (std::span<const Piece> left = pieces; !left.empty();) {
    const auto some = left.first(std::min(at_once, left.size()));
    read(some, buffer, results);
    left = left.subspan(some.size());
  }
  give_buffer(std::move(buffer));
  return results;
}

void Gets::read(std::span<const Piece> pieces, AlignedBuffer& buffer, std::vector<Read>& results) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) {
    bytes += static_cast<std::size_t>(bytes_of(piece.place));
  }
  std::span<std::byte> room = buffer.at_least(bytes);
  std::vector<FileIo::Read> reads;
  std::vector<std::size_t> read_of;  // of each result that has one
  for (const Piece& piece : pieces) {
    results.push_back({piece, not_found()});
    auto file = files_.open(piece.segment);
    if (!file) {
      results.back().loaded = tl::unexpected(file.error());
      continue;
    }
    const auto size = static_cast<std::size_t>(bytes_of(piece.place));
    read_of.push_back(results.size() - 1);
    reads.push_back(
        {*std::move(file), std::uint64_t{piece.place.page} * kPageBytes, room.first(size), {}});
    room = room.subspan(size);
  }
  core_.io->read(reads);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    Read& read = results[read_of[i]];
    read.loaded = reads[i].result ? verified(reads[i].bytes, read.piece.wanted)
                                  : Loaded(tl::unexpected(reads[i].result.error()));
    read.is_damaged = !read.loaded && read.loaded.error().code == Code::kCorrupt &&
                      !(reads[i].result && is_intact(reads[i].bytes, read.piece.wanted.key));
  }
}

Result<std::vector<std::byte>> Gets::read_record(const SegmentName& segment,
                                                 const IndexEntry& entry) {
  TRY(FileIo::FilePtr file, files_.open(segment));
  AlignedBuffer buffer(std::size_t{entry.pages} * kPageBytes);
  FileIo::Read read{std::move(file), std::uint64_t{entry.page} * kPageBytes, buffer.span(), {}};
  core_.io->read({&read, 1});
  TRY_VOID(read.result);
  TRY(const KvBlock block, read_kv_header(read.bytes));
  TRY_VOID(read_kv_record(read.bytes, {entry.key, entry.parent, block.layout}));
  return std::vector<std::byte>(read.bytes.begin(), read.bytes.end());
}

void Gets::complete(std::uint64_t id, std::vector<Read> reads) {
  Calls calls;
  bool has_damage = false;
  {
    const std::lock_guard lock(core_.mutex);
    const auto found = operations_.find(id);
    for (Read& read : reads) {
      loading_ -= bytes_of(read.piece.place);
      judge(read);
      has_damage |= read.is_damaged;
      if (found != operations_.end()) {
        found->second.loaded[read.piece.slot] = std::move(read.loaded);
      }
    }
    if (found != operations_.end() && --found->second.jobs == 0) {
      calls.push_back(finish(id));
    }
  }
  make(calls);
  pump();
  if (has_damage) {
    core_.puts.flush();
  }
}

// What a read says about the block and the medium. A damaged one is dropped for all processes, so
// that the next put of its key, whoever's, writes it again.
void Gets::judge(const Read& read) {
  const Piece& piece = read.piece;
  if (read.loaded) {
    return core_.read_ended(true);
  }
  switch (read.loaded.error().code) {
    case Code::kCorrupt:
      core_.counts.corrupt += 1;
      if (core_.catalog.forget_at(piece.wanted.key, piece.place) && read.is_damaged) {
        core_.puts.note_drop(piece.segment.ttl, piece.wanted.key, piece.segment, piece.place.page);
      }
      break;
    case Code::kNotFound:  // its writer or a cleaner took it away
      core_.counts.misses += 1;
      core_.catalog.forget_at(piece.wanted.key, piece.place);
      files_.close(piece.segment);
      break;
    default:
      core_.read_ended(false);
      break;
  }
}

void Gets::expire(std::uint64_t id) {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    if (operations_.contains(id)) {
      calls.push_back(finish(id));
    }
  }
  make(calls);
}

std::function<void()> Gets::finish(std::uint64_t id) {
  auto taken = operations_.extract(id);
  return [done = std::move(taken.mapped().done),
          loaded = std::move(taken.mapped().loaded)]() mutable { done(std::move(loaded)); };
}

void Gets::fail_all() {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    while (!operations_.empty()) {
      Operation& operation = operations_.begin()->second;
      operation.loaded.assign(operation.wanted.size(),
                              fail(Code::kUnavailable, "KV store: it was stopped"));
      calls.push_back(finish(operations_.begin()->first));
    }
  }
  make(calls);
}

AlignedBuffer Gets::take_buffer() {
  const std::lock_guard lock(buffers_mutex_);
  if (buffers_.empty()) {
    return {};
  }
  AlignedBuffer buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void Gets::give_buffer(AlignedBuffer buffer) {
  const std::lock_guard lock(buffers_mutex_);
  buffers_.push_back(std::move(buffer));
}

}  // namespace shoal::transport
