// The rounds: look at the directory, read what grew, then keep lifetimes and ceilings. A look that
// was asked for between them is the first two alone.
#include "transport/file_store/tidying.h"

#include <algorithm>

#include "transport/file_store/file_store.h"
#include "transport/file_store/store_core.h"

namespace shoal::transport {
namespace {

// Others' blocks are visible within two of these, whoever asks.
constexpr std::chrono::seconds kRound(1);
// Others' segments stay for so long after nothing of them is visible: what was misread may read
// right a moment later. What is damaged stays until there is no room for it.
constexpr std::chrono::seconds kGrace(60);
// Touches and drops are written every so many rounds.
constexpr std::int64_t kSlowRounds = 10;
// Of what files may have before some are removed, percent: from there on blocks are copied
// together.
constexpr std::int64_t kCompactPercent = 90;
// Likewise: more is not visible, under ceilings of a few segments.
constexpr std::int64_t kAlivePercent = 80;
// A segment with more alive than this is not worth copying.
constexpr std::int64_t kCopyPercent = 90;
// Of its own a process keeps these whatever others have: the newest of a class, and one that is
// about to go.
constexpr std::int64_t kOwnSegments = kTtlClasses + 1;
constexpr std::int64_t kCopyBytes = std::int64_t{64} << 20;  // a round

std::int64_t bytes_of(const Segment& segment) {
  return static_cast<std::int64_t>(segment.progress.bytes);
}

std::string megabytes(std::int64_t bytes) {
  return std::to_string(bytes / 1'000'000) + " MB";
}

}  // namespace

void Tidying::start() {
  core_.post([](StoreCore& core) { core.tidying.round(); });
}

// The heartbeat first: without one it would be taken for dead.
Result<void> Tidying::announce(std::int64_t bytes) {
  TRY_VOID(core_.io->replace(heartbeat_name(core_.params.writer),
                             std::to_string(core_.params.wall()) + "\n"));
  return bytes > 0 ? probe(bytes) : Result<void>();
}

// A file as long as what was refused, which goes again.
Result<void> Tidying::probe(std::int64_t bytes) {
  const std::string name = probe_name(core_.params.writer);
  static_cast<void>(core_.io->remove(name));  // one that could not be removed
  TRY(const FileIo::FilePtr file, core_.io->create(name));
  AlignedBuffer buffer(static_cast<std::size_t>(bytes) / kPageBytes * kPageBytes + kPageBytes);
  std::fill(buffer.span().begin(), buffer.span().end(), std::byte{0});
  const auto written = core_.io->write(*file, 0, buffer.span());
  const auto removed = core_.io->remove(name);
  return written ? removed : written;
}

void Tidying::retire() {
  {
    const std::lock_guard lock(core_.mutex);
    if (core_.puts.is_writing()) {
      return;  // its last group may not be whole: it looks like a writer that died
    }
  }
  static_cast<void>(core_.io->remove(heartbeat_name(core_.params.writer)));
}

std::uint32_t Tidying::appended(const SegmentWriter::Appended& group,
                                const std::vector<IndexEntry>& notes) {
  Catalog& catalog = core_.catalog;
  const std::uint32_t id = catalog.segment(group.segment);
  newest_.at(static_cast<std::size_t>(group.segment.ttl)) = id;
  for (const auto& [other, segment] : catalog.segments()) {
    if (segment.is_own && segment.name.ttl == group.segment.ttl) {
      catalog.at(other).is_open = false;
    }
  }
  for (const IndexEntry& note : notes) {
    catalog.note(id, note);
  }
  Segment& segment = catalog.at(id);
  segment.progress.bytes = segment.progress.end = group.bytes;
  segment.is_open = bytes_of(segment) < core_.full_segment();
  return id;
}

void Tidying::round() {
  {
    const std::lock_guard lock(core_.mutex);
    is_round_due_ = true;
  }
  begin_look();
}

bool Tidying::must_look() const {
  return added_ >= std::max(may_add_, core_.full_segment());
}

void Tidying::next_round() {
  if (++rounds_ % kSlowRounds == 1) {
    core_.puts.flush();
  }
  core_.post([](StoreCore& core) { core.tidying.round(); }, kRound);
}

void Tidying::tidy_up() {
  core_.counts.expired += core_.catalog.expire(core_.params.wall());
  keep_ceilings();
  remove_empty();
  compact();
}

void Tidying::keep_ceilings() {
  const BlockStoreLimits& limits = core_.params.limits;
  const Bytes visible(std::min(limits.bytes.value / 100 * kVisiblePercent,
                               removal_mark(limits).value / 100 * kAlivePercent));
  const auto evicted = core_.catalog.evict(core_.params.wall(), visible, limits.blocks);
  core_.counts.evicted += static_cast<std::int64_t>(evicted.size());
  for (const Forgotten& block : evicted) {
    note_evicted(block);
  }
}

// For all who read it later. What a living one wrote is that one's to evict, whose ceiling may be
// larger: it is forgotten here alone.
void Tidying::note_evicted(const Forgotten& block) {
  const Segment& segment = core_.catalog.at(block.segment);
  if (is_ours(segment) && !leaving_.contains(block.segment)) {
    core_.puts.note_drop(segment.name.ttl, block.key, segment.name, block.page);
  }
}

bool Tidying::is_ours(const Segment& segment) const {
  return segment.is_own || !alive_.contains(segment.name.writer);
}

bool Tidying::may_remove(std::uint32_t id) const {
  const Segment& segment = core_.catalog.at(id);
  if (segment.is_gone || segment.progress.bytes == 0 || leaving_.contains(id)) {
    return false;
  }
  return is_ours(segment) && !(segment.is_own && segment.is_open);
}

// Touches and drops that still make a difference. Drops, which cost no more than a block that is
// there again, are not kept at the price of room that a full medium needs.
bool Tidying::has_notes(std::uint32_t id) const {
  const Segment& segment = core_.catalog.at(id);
  const auto hours = core_.params.limits.hours.at(static_cast<std::size_t>(segment.name.ttl));
  return segment.last_touch + hours * 3'600'000 >= core_.params.wall() ||
         (core_.counts.writable &&
          std::any_of(segment.drops.begin(), segment.drops.end(), [this](std::uint32_t there) {
            return !core_.catalog.is_gone(there);
          }));
}

void Tidying::remove_empty() {
  for (const auto& entry : core_.catalog.segments()) {
    const std::uint32_t id = entry.first;
    Segment& segment = core_.catalog.at(id);
    if (segment.is_gone || segment.blocks > 0) {
      segment.empty_since.reset();
      continue;
    }
    if (segment.is_own && segment.is_open && !has_notes(id) && core_.puts.close(segment.name.ttl)) {
      segment.is_open = false;
    }
    const Instant now = core_.scheduler.now();
    const Instant since = segment.empty_since.value_or(now);
    segment.empty_since = since;
    const bool is_ripe = segment.is_own || (!segment.is_damaged && now - since >= kGrace);
    if (is_ripe && may_remove(id)) {
      begin_removing(id);
    }
  }
}

void Tidying::remove_rescued() {
  for (const auto& [id, leaving] : leaving_) {
    const TtlClass ttl = core_.catalog.at(id).name.ttl;
    if (!leaving.is_removing && leaving.ticket && core_.puts.is_durable(ttl, *leaving.ticket)) {
      remove(id);
    }
  }
}

void Tidying::begin_removing(std::uint32_t id) {
  leaving_[id] = {};
  if (!has_notes(id)) {
    return remove(id);
  }
  with_entries(id, [id](StoreCore& core, const Entries& entries) {
    core.tidying.rescue_notes(id, entries);
  });
}

// What still makes a difference elsewhere is written again before the segment goes.
void Tidying::rescue_notes(std::uint32_t id, const Entries& entries) {
  {
    const std::lock_guard lock(core_.mutex);
    const TtlClass ttl = core_.catalog.at(id).name.ttl;
    for (const IndexEntry& entry : entries) {
      if (entry.kind == EntryKind::kTouch && core_.catalog.find(entry.key)) {
        core_.puts.note_touch(ttl, entry.key, entry.turn, entry.time);
      } else if (entry.kind == EntryKind::kDrop && !core_.catalog.is_gone(entry.dropped)) {
        core_.puts.note_drop(ttl, entry.key, entry.dropped, entry.page);
      }
    }
    leaving_[id].ticket = core_.puts.ticket(ttl);
  }
  core_.puts.flush();
}

void Tidying::remove(std::uint32_t id) {
  leaving_[id].is_removing = true;
  core_.run(Lane::kTidy, [id, name = core_.catalog.at(id).name](StoreCore& core) {
    const auto removed = core.io->remove(to_string(name));
    core.post([id, name, removed](StoreCore& again) {
      const std::lock_guard lock(again.mutex);
      if (removed || removed.error().code == Code::kNotFound) {
        again.catalog.set_gone(id);
        again.gets.close(name);
        again.tidying.stuck_.erase(id);
      } else {
        again.counts.failed += 1;
        again.tidying.stuck_.insert(id);
      }
      again.tidying.leaving_.erase(id);
    });
  });
}

void Tidying::with_entries(std::uint32_t id, std::function<void(StoreCore&, const Entries&)> next) {
  const Segment& segment = core_.catalog.at(id);
  core_.run(Lane::kTidy,
            [name = segment.name, bytes = segment.progress.bytes, next](StoreCore& core) {
              const auto news = read_segment(*core.io, name, bytes, {});
              core.post([next, entries = news ? news->added : Entries{}](StoreCore& again) {
                next(again, entries);
              });
            });
}

void Tidying::relieve() {
  const std::lock_guard lock(core_.mutex);
  remove_rescued();
  std::int64_t over = over_ceiling();
  for (const std::uint32_t id : stuck_) {
    // Is tried once more, and nothing else goes in its place.
    over -= leaving_.contains(id) ? bytes_of(core_.catalog.at(id)) : 0;
  }
  while (over > 0) {
    const auto id = least_alive(100, false);
    if (!id) {
      return;
    }
    over -= bytes_of(core_.catalog.at(*id));
    core_.counts.evicted += core_.catalog.at(*id).blocks;
    begin_removing(*id);
  }
}

std::int64_t Tidying::over_ceiling() const {
  std::int64_t over = core_.catalog.medium().value - removal_mark(core_.params.limits).value;
  for (const auto& [id, leaving] : leaving_) {
    over -= will_go(id) ? bytes_of(core_.catalog.at(id)) : 0;
  }
  return over;
}

bool Tidying::will_go(std::uint32_t id) const {
  return leaving_.contains(id) && !stuck_.contains(id);
}

// Nothing is under way that knows a segment by its number alone.
void Tidying::forget_gone() {
  core_.catalog.forget_gone([this](std::uint32_t id) {
    const bool is_copied = copied_ == id && (copying_ > 0 || !to_copy_.empty());
    return leaving_.contains(id) || is_copied;
  });
  std::erase_if(stuck_, [this](std::uint32_t id) { return core_.catalog.is_gone(id); });
}

std::int64_t Tidying::own_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [id, segment] : core_.catalog.segments()) {
    sum += segment.is_own && !will_go(id) ? bytes_of(segment) : 0;
  }
  return sum;
}

bool Tidying::is_full() const {
  const std::int64_t segment = core_.full_segment() + std::min(kGroupBytes, core_.full_segment());
  return over_ceiling() > segment && own_bytes() > kOwnSegments * segment;
}

std::string Tidying::why_cramped() const {
  const std::int64_t ceiling = core_.params.limits.bytes.value;
  if (is_full()) {
    return "its files are over the ceiling (kv.store_bytes: " + megabytes(ceiling) +
           ") and cannot be removed: nothing is stored; let this user remove files there";
  }
  std::int64_t others = 0;
  for (const auto& [id, segment] : core_.catalog.segments()) {
    others += !segment.is_own && alive_.contains(segment.name.writer) ? bytes_of(segment) : 0;
  }
  if (others <= ceiling + kOwnSegments * core_.full_segment()) {
    return {};
  }
  return "files of other processes (" + megabytes(others) +
         ") take all that it may have (kv.store_bytes: " + megabytes(ceiling) +
         "): of its own it keeps the newest alone, and files of processes that ended go; raise "
         "kv.store_bytes to what the others have, or give it a directory of its own";
}

// A dead writer's by one of the living alone: two would copy everything twice.
bool Tidying::may_copy(std::uint32_t id) const {
  const Segment& segment = core_.catalog.at(id);
  return segment.blocks > 0 &&
         (segment.is_own || (!alive_.empty() && *alive_.begin() == core_.params.writer));
}

// Among those that may be removed: the one whose visible part is smallest, and at most `percent`.
// What this process wrote last stays, or others' files over its ceiling would leave it none.
std::optional<std::uint32_t> Tidying::least_alive(std::int64_t percent, bool to_copy) const {
  std::optional<std::uint32_t> least;
  std::int64_t least_alive = percent;
  for (const auto& [id, segment] : core_.catalog.segments()) {
    const auto ttl = static_cast<std::size_t>(segment.name.ttl);
    if (!may_remove(id) || newest_.at(ttl) == id || (to_copy && !may_copy(id))) {
      continue;
    }
    const std::int64_t alive = segment.pages * kKvRecordAlign * 100 / bytes_of(segment);
    if (alive < least_alive || (alive == least_alive && !least)) {
      least = id;
      least_alive = alive;
    }
  }
  return least;
}

void Tidying::compact() {
  if (!to_copy_.empty()) {
    return copy_some();
  }
  const Bytes begin(removal_mark(core_.params.limits).value / 100 * kCompactPercent);
  if (core_.catalog.medium() < begin || copying_ > 0) {
    return;
  }
  copied_ = least_alive(kCopyPercent, true);
  if (!copied_) {
    return;
  }
  ++copying_;
  with_entries(*copied_, [](StoreCore& core, const Entries& entries) {
    const std::lock_guard lock(core.mutex);
    core.tidying.copied();
    core.tidying.to_copy_.assign(entries.rbegin(), entries.rend());
  });
}

// A round's share: what of it is still where it was is read, verified and put once more.
void Tidying::copy_some() {
  Entries share;
  for (std::int64_t bytes = 0; !to_copy_.empty() && bytes < kCopyBytes; to_copy_.pop_back()) {
    const IndexEntry& entry = to_copy_.back();
    const auto found = core_.catalog.find(entry.key);
    if (entry.kind == EntryKind::kBlock && found && found->place.segment == *copied_ &&
        found->place.page == entry.page) {
      share.push_back(entry);
      share.back().time = core_.catalog.use(entry.key)->last_use;
      bytes += std::int64_t{entry.pages} * kKvRecordAlign;
    }
  }
  for (const IndexEntry& entry : share) {
    copy(entry, *copied_);
  }
}

// Each by itself: the lane has other work, too.
void Tidying::copy(const IndexEntry& entry, std::uint32_t id) {
  ++copying_;
  core_.run(Lane::kTidy, [entry, id, name = core_.catalog.at(id).name](StoreCore& core) {
    auto record = core.gets.read_record(name, entry);
    core.post([entry, id, name, record = std::move(record)](StoreCore& again) mutable {
      {
        const std::lock_guard lock(again.mutex);
        const BlockPlace from{id, entry.page, entry.pages};
        if (record) {
          again.puts.copy(*std::move(record), entry, from);
        } else {
          again.tidying.copied();
        }
        if (!record && record.error().code == Code::kCorrupt) {
          again.counts.corrupt += 1;
          if (again.catalog.forget_at(entry.key, from)) {
            again.puts.note_drop(name.ttl, entry.key, name, entry.page);
          }
        }
      }
      again.puts.flush();
    });
  });
}

}  // namespace shoal::transport
