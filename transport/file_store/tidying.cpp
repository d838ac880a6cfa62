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
// Whoever asks, looks begin no closer together: a directory may have many files, and be far away.
constexpr std::chrono::milliseconds kSoonest(100);
constexpr std::chrono::seconds kHeartbeat(60);
constexpr WallMillis kDead = 600'000;
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
// So many together do not write more than there is room for between two looks.
constexpr std::int64_t kWriters = 16;
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
  const std::string name = heartbeat_name(core_.params.writer);
  const std::string text = std::to_string(core_.params.wall()) + "\n";
  TRY_VOID(core_.io->replace(name, text));
  if (bytes <= std::ssize(text)) {
    return {};
  }
  TRY_VOID(core_.io->replace(name, std::string(static_cast<std::size_t>(bytes), '\n')));
  return core_.io->replace(name, text);
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
  for (std::uint32_t i = 0; i < catalog.segments().size(); ++i) {
    if (catalog.at(i).is_own && catalog.at(i).name.ttl == group.segment.ttl) {
      catalog.at(i).is_open = false;
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

std::uint64_t Tidying::ask_for_look() {
  if (!std::exchange(is_asked_, true) && !is_looking_) {
    look_again();
  }
  return looks_ + 1;
}

void Tidying::look_again() {
  const Instant soonest = looks_ == 0 ? core_.scheduler.now() : looked_at_ + kSoonest;
  core_.post([](StoreCore& core) { core.tidying.begin_look(); },
             std::max(Nanos(0), soonest - core_.scheduler.now()));
}

// Nothing: one is under way, whose end sees to the rest, or nobody waits for one any more.
void Tidying::begin_look() {
  Known known;
  {
    const std::lock_guard lock(core_.mutex);
    if (is_looking_ || !(is_asked_ || is_round_due_)) {
      return;
    }
    is_looking_ = true;
    is_asked_ = false;
    ++looks_;
    looked_at_ = core_.scheduler.now();
    added_ = 0;
    known = this->known();
  }
  core_.run(Lane::kTidy, [known = std::move(known)](StoreCore& core) {
    core.post([known, listing = core.tidying.look(known)](StoreCore& again) {
      again.tidying.take(known, listing);
    });
  });
}

bool Tidying::must_look() const {
  return added_ >= std::max(may_add_, core_.full_segment());
}

Tidying::Known Tidying::known() const {
  Known known;
  for (const Segment& segment : core_.catalog.segments()) {
    known.is_writer |= segment.is_own;
    if (segment.is_own && !segment.is_gone) {
      known.own.insert(segment.name);
    } else if (!segment.is_own && !segment.is_gone) {
      known.segments.emplace(segment.name, segment);
    }
  }
  const bool is_due = !announced_ || core_.scheduler.now() - *announced_ >= kHeartbeat;
  // A medium that refused is asked by this, too, whether it takes writes again.
  known.must_announce = core_.counts.writable ? known.is_writer && is_due : core_.may_write();
  known.probe = core_.counts.writable ? 0 : core_.refused_bytes();
  return known;
}

// In a lane.
Tidying::Listing Tidying::look(const Known& known) {
  Listing listing;
  if (known.must_announce) {
    listing.announced = announce(known.probe);
  }
  const auto names = core_.io->list();
  if (!names) {
    listing.error = names.error();
    listing.is_lost = names.error().code == Code::kNotFound;
    return listing;
  }
  listing.is_lost = std::find(names->begin(), names->end(), kVersionFile) == names->end();
  std::set<IncarnationId> beating;
  for (const std::string& name : *names) {
    if (const auto segment = parse_segment_name(name)) {
      listing.segments.insert(*segment);
    } else if (const auto writer = parse_heartbeat_name(name)) {
      beating.insert(*writer);
    }
  }
  listing.beats = beating.contains(core_.params.writer);
  find_grown(known, beating, listing);
  judge_writers(known, beating, listing);
  return listing;
}

// Of a writer and class only the last segment grows; one that was the last is read once more.
void Tidying::find_grown(const Known& known,
                         const std::set<IncarnationId>& beating,
                         Listing& listing) {
  for (auto at = listing.segments.begin(); at != listing.segments.end(); ++at) {
    const auto next = std::next(at);
    const bool is_last =
        next == listing.segments.end() || next->writer != at->writer || next->ttl != at->ttl;
    const auto before = known.segments.find(*at);
    const bool is_known = before != known.segments.end();
    if (at->writer == core_.params.writer || (is_known && !is_last && !before->second.is_open)) {
      continue;
    }
    const auto facts = core_.io->facts(to_string(*at));
    // One that does not end in an index page is looked at again: that may have been on its way.
    if (facts && (!is_known || !is_last || facts->bytes != before->second.progress.bytes ||
                  facts->bytes != before->second.progress.end)) {
      // A heartbeat is there before the first segment: that one may be newer than the list.
      const bool may_be_torn = is_last && (beating.contains(at->writer) ||
                                           core_.io->facts(heartbeat_name(at->writer)).has_value());
      listing.grown.push_back({*at, facts->bytes, is_last, may_be_torn});
    }
  }
}

// By the clock of the file system, which the own heartbeat tells: no two clocks are compared. Who
// has none cannot tell, and takes everybody for alive.
void Tidying::judge_writers(const Known& known,
                            const std::set<IncarnationId>& beating,
                            Listing& listing) {
  const auto now = core_.io->facts(heartbeat_name(core_.params.writer));
  for (const IncarnationId writer : beating) {
    const auto beat = core_.io->facts(heartbeat_name(writer));
    if (!now || !beat || beat->modified + kDead >= now->modified) {
      listing.alive.insert(writer);
      continue;
    }
    const auto first = listing.segments.lower_bound({writer, TtlClass::kAgent, 0});
    if (known.is_writer && (first == listing.segments.end() || first->writer != writer)) {
      static_cast<void>(core_.io->remove(heartbeat_name(writer)));
    }
  }
}

void Tidying::take(const Known& known, const Listing& listing) {
  {
    const std::lock_guard lock(core_.mutex);
    if (listing.announced && *listing.announced) {
      announced_ = core_.scheduler.now();
    }
    if (listing.announced) {
      core_.probe_ended(*listing.announced, known.probe);
    }
    core_.look_ended(!listing.error);
    core_.is_lost = listing.is_lost && !core_.where.empty();
    if (!listing.error) {
      if (!listing.beats) {
        announced_.reset();
      }
      alive_ = listing.alive;
      for (const SegmentName& name : known.own) {
        check_there(listing, name);
      }
      for (const auto& [name, segment] : known.segments) {
        check_there(listing, name);
      }
    }
    reading_ = static_cast<std::int64_t>(listing.grown.size());
  }
  for (const Grown& grown : listing.grown) {
    read(grown);
  }
  if (listing.grown.empty()) {
    end_look();
  }
}

// Of a segment that somebody removed nothing is visible, and nothing is added to it.
void Tidying::check_there(const Listing& listing, const SegmentName& name) {
  if (listing.segments.contains(name)) {
    return;
  }
  const std::uint32_t id = core_.catalog.segment(name);
  const Segment& segment = core_.catalog.at(id);
  if (segment.is_own && segment.is_open && !core_.puts.close(name.ttl)) {
    return;  // with the next round
  }
  core_.catalog.set_gone(id);
  core_.gets.close(name);
}

void Tidying::read(const Grown& grown) {
  SegmentProgress progress;
  {
    const std::lock_guard lock(core_.mutex);
    progress = core_.catalog.at(core_.catalog.segment(grown.name)).progress;
  }
  core_.run(Lane::kScan, [grown, progress](StoreCore& core) {
    core.post([grown, news = read_segment(*core.io, grown.name, grown.bytes, progress)](
                  StoreCore& again) { again.tidying.take(grown, news); });
  });
}

void Tidying::take(const Grown& grown, const Result<SegmentNews>& news) {
  bool is_last = false;
  bool is_opening = false;
  {
    const std::lock_guard lock(core_.mutex);
    const std::uint32_t id = core_.catalog.segment(grown.name);
    Segment& segment = core_.catalog.at(id);
    segment.is_open = grown.is_last || !news;
    if (news) {
      segment.progress = news->progress;
      segment.is_damaged |= news->damaged > 0 || !news->has_header;
      core_.counts.corrupt += news->damaged;
      const bool is_cut = news->is_cut() && !grown.may_be_torn;
      core_.counts.broken += news->broken + (is_cut && !segment.is_cut ? 1 : 0);
      segment.is_cut = segment.is_cut || is_cut;
      core_.catalog.apply(id, news->added);
    } else if (news.error().code == Code::kCorrupt) {
      // Not again before it grows.
      segment.progress.bytes = segment.progress.end = grown.bytes;
      segment.is_open = grown.is_last;
      segment.is_damaged = true;
      core_.counts.corrupt += 1;
    } else if (news.error().code != Code::kNotFound) {
      core_.read_ended(false);
    }
    is_last = --reading_ == 0;
    is_opening = core_.is_opening;
  }
  if (is_last) {
    end_look();
  } else if (is_opening) {
    core_.gets.resume();  // what they wait for may be in this segment
  }
}

void Tidying::end_look() {
  bool is_round = false;
  {
    const std::lock_guard lock(core_.mutex);
    core_.catalog.settle();
    core_.is_opening = false;
    is_looking_ = false;
    ++looks_over_;
    may_add_ = -over_ceiling() / kWriters;
    is_round = std::exchange(is_round_due_, false);
    if (is_round) {
      tidy_up();
    }
    if (is_asked_) {
      look_again();
    }
  }
  core_.gets.resume();
  relieve();
  core_.puts.pump();
  if (is_round) {
    next_round();
  }
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
  core_.counts.evicted += core_.catalog.evict(core_.params.wall(), visible, limits.blocks);
}

bool Tidying::may_remove(std::uint32_t id) const {
  const Segment& segment = core_.catalog.at(id);
  if (segment.is_gone || segment.progress.bytes == 0 || leaving_.contains(id)) {
    return false;
  }
  return segment.is_own ? !segment.is_open : !alive_.contains(segment.name.writer);
}

// Touches and drops that still make a difference.
bool Tidying::has_notes(std::uint32_t id) const {
  const Segment& segment = core_.catalog.at(id);
  const auto hours = core_.params.limits.hours.at(static_cast<std::size_t>(segment.name.ttl));
  return segment.last_touch + hours * 3'600'000 >= core_.params.wall() ||
         std::any_of(segment.drops.begin(), segment.drops.end(), [this](std::uint32_t there) {
           return !core_.catalog.at(there).is_gone;
         });
}

void Tidying::remove_empty() {
  for (std::uint32_t id = 0; id < core_.catalog.segments().size(); ++id) {
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
      } else if (entry.kind == EntryKind::kDrop &&
                 !core_.catalog.at(core_.catalog.segment(entry.dropped)).is_gone) {
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

std::int64_t Tidying::own_bytes() const {
  std::int64_t sum = 0;
  for (std::uint32_t id = 0; id < core_.catalog.segments().size(); ++id) {
    const Segment& segment = core_.catalog.at(id);
    sum += segment.is_own && !will_go(id) ? bytes_of(segment) : 0;
  }
  return sum;
}

bool Tidying::is_full() const {
  const std::int64_t segment = core_.full_segment() + std::min(kGroupBytes, core_.full_segment());
  return over_ceiling() > segment && own_bytes() > kOwnSegments * segment;
}

std::string Tidying::cramped() const {
  const std::int64_t ceiling = core_.params.limits.bytes.value;
  if (is_full()) {
    return "its files are over the ceiling (kv.store_bytes: " + megabytes(ceiling) +
           ") and cannot be removed: nothing is stored; let this user remove files there";
  }
  std::int64_t others = 0;
  for (const Segment& segment : core_.catalog.segments()) {
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
  for (std::uint32_t id = 0; id < core_.catalog.segments().size(); ++id) {
    const auto ttl = static_cast<std::size_t>(core_.catalog.at(id).name.ttl);
    if (!may_remove(id) || newest_.at(ttl) == id || (to_copy && !may_copy(id))) {
      continue;
    }
    const Segment& segment = core_.catalog.at(id);
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
