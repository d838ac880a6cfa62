// Looks at the directory: what is there, what grew, who lives, and what the segments that grew say.
#include <algorithm>

#include "transport/file_store/file_store.h"
#include "transport/file_store/store_core.h"
#include "transport/file_store/tidying.h"

namespace shoal::transport {
namespace {

// Whoever asks, looks begin no closer together: a directory may have many files, and be far away.
constexpr std::chrono::milliseconds kSoonest(100);
constexpr std::chrono::seconds kHeartbeat(60);
constexpr WallMillis kDead = 600'000;
// So many together do not write more than there is room for between two looks.
constexpr std::int64_t kWriters = 16;

}  // namespace

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

Tidying::Known Tidying::known() const {
  Known known;
  for (const auto& [id, segment] : core_.catalog.segments()) {
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
  if (known.is_writer) {
    remove_probes(*names, listing);
  }
  return listing;
}

// Of processes that ended in the middle of one.
void Tidying::remove_probes(const std::vector<std::string>& files, const Listing& listing) {
  for (const std::string& file : files) {
    const auto writer = parse_probe_name(file);
    if (writer && *writer != core_.params.writer && !listing.alive.contains(*writer)) {
      static_cast<void>(core_.io->remove(file));
    }
  }
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
    forget_gone();
    core_.is_opening = false;
    is_looking_ = false;
    ++looks_over_;
    may_add_ = -over_ceiling() / kWriters;
    cramped_ = why_cramped();
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

}  // namespace shoal::transport
