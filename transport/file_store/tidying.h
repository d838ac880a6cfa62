// What a file store does besides puts and gets: it reads what others wrote, forgets what expired,
// keeps its ceilings, copies blocks out of segments that are mostly garbage, and removes files.
//
// It looks at the directory every second, and soon after somebody asks; once a second the rest is
// done, too: a round. A file is removed by its writer, or by anybody once the writer is
// dead: its heartbeat is older than ten minutes by the file system's own clock, or is not there
// (it stopped). Before that all touches of blocks in it were read: they are part of the
// same round.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/file_store/catalog.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/layout.h"
#include "transport/file_store/segment_reader.h"
#include "transport/file_store/segment_writer.h"

namespace shoal::transport {

class StoreCore;

class Tidying {
 public:
  explicit Tidying(StoreCore& core) : core_(core) {}

  // On the loop, once: begins the rounds.
  void start();

  // The mutex is held. What is durable by now is visible after the look of that number, at most
  // kSoonest and the time of the look itself from here.
  std::uint64_t ask_for_look();

  // Looks that are over.
  std::uint64_t looks() const { return looks_over_; }

  // In a lane. This process's heartbeat, and a file of `bytes` for a moment: a medium that refused
  // so many is asked by that whether it takes writes again.
  Result<void> announce(std::int64_t bytes = 0);
  // Blocks. The heartbeat's end: from here on others may clean up. Not in the middle of a group.
  void retire();

  // The mutex is held. A group was added to a segment of this process; its number in the catalog.
  std::uint32_t appended(const SegmentWriter::Appended& group,
                         const std::vector<IndexEntry>& notes);

  // On the loop, after a group and a look. Removes whole segments while the files are over the
  // ceiling.
  void relieve();

  // The mutex is held. So much is about to be written.
  void adding(std::int64_t bytes) { added_ += bytes; }

  // The mutex is held. As much was added since the last look as may be: nothing more before the
  // next. A share of the room that was left, or a segment: so writers together fill a directory up,
  // and not far beyond.
  bool must_look() const;

  // The mutex is held. The files are over the ceiling by more than a segment, without those that
  // are being removed, and more than a few segments of them are this process's: the file system
  // does not remove. What is others' hinders nobody to keep what is newest of his own.
  bool is_full() const;

  // The mutex is held. The file system did not remove what it was told to the last time.
  bool is_stuck() const { return !stuck_.empty(); }

  // The mutex is held. Why this process keeps less than its ceiling, as of the last look; empty: it
  // does not.
  const std::string& cramped() const { return cramped_; }

  // The mutex is held. A record that was to be copied is, or will not be.
  void copied() { --copying_; }

 private:
  // What is known when a look at the directory begins.
  struct Known {
    std::map<SegmentName, Segment> segments;  // of others
    std::set<SegmentName> own;
    bool is_writer = false;
    bool must_announce = false;
    std::int64_t probe = 0;  // bytes
  };

  // To be read.
  struct Grown {
    SegmentName name;
    std::uint64_t bytes = 0;
    bool is_last = false;      // of its writer and class: it may grow again
    bool may_be_torn = false;  // its writer may have died in a group
  };

  // What the look said.
  struct Listing {
    std::set<SegmentName> segments;
    std::vector<Grown> grown;
    std::set<IncarnationId> alive;
    std::optional<Error> error;
    bool is_lost = false;  // there is no such store
    bool beats = false;    // this process's heartbeat is there
    std::optional<Result<void>> announced;
  };

  using Entries = std::vector<IndexEntry>;

  Result<void> probe(std::int64_t bytes);
  void round();
  void begin_look();
  void look_again();
  Known known() const;
  Listing look(const Known& known);
  void find_grown(const Known& known, const std::set<IncarnationId>& beating, Listing& listing);
  void judge_writers(const Known& known, const std::set<IncarnationId>& beating, Listing& listing);
  void remove_probes(const std::vector<std::string>& files, const Listing& listing);
  void take(const Known& known, const Listing& listing);
  void check_there(const Listing& listing, const SegmentName& name);
  void read(const Grown& grown);
  void take(const Grown& grown, const Result<SegmentNews>& news);
  void end_look();
  void next_round();
  void tidy_up();
  void keep_ceilings();
  void note_evicted(const Forgotten& block);

  bool is_ours(const Segment& segment) const;
  bool may_remove(std::uint32_t id) const;
  bool has_notes(std::uint32_t id) const;
  std::string why_cramped() const;
  std::int64_t over_ceiling() const;
  std::int64_t own_bytes() const;
  bool will_go(std::uint32_t id) const;
  void forget_gone();
  void remove_empty();
  void remove_rescued();
  void begin_removing(std::uint32_t id);
  void remove(std::uint32_t id);
  void rescue_notes(std::uint32_t id, const Entries& entries);
  void with_entries(std::uint32_t id, std::function<void(StoreCore&, const Entries&)> next);

  void compact();
  bool may_copy(std::uint32_t id) const;
  std::optional<std::uint32_t> least_alive(std::int64_t percent, bool to_copy) const;
  void copy_some();
  void copy(const IndexEntry& entry, std::uint32_t id);

  // A segment on its way out.
  struct Leaving {
    bool is_removing = false;
    std::optional<std::uint64_t> ticket;  // of the notes that were rescued from it
  };

  StoreCore& core_;
  std::int64_t rounds_ = 0;
  bool is_round_due_ = false;
  bool is_asked_ = false;     // for a look after the one that is under way
  std::int64_t added_ = 0;    // bytes, since the last look began
  std::int64_t may_add_ = 0;  // more than a segment, until the next
  bool is_looking_ = false;
  std::uint64_t looks_ = 0;
  std::uint64_t looks_over_ = 0;
  Instant looked_at_{};       // when the last one began
  std::int64_t reading_ = 0;  // segments that are being read for this look
  std::optional<Instant> announced_;
  std::set<IncarnationId> alive_;
  std::string cramped_;
  std::array<std::optional<std::uint32_t>, kTtlClasses> newest_;  // of this process
  std::map<std::uint32_t, Leaving> leaving_;
  std::set<std::uint32_t> stuck_;  // segments that the file system did not remove the last time
  std::optional<std::uint32_t> copied_;  // the segment that blocks are copied out of
  Entries to_copy_;                      // last first
  std::int64_t copying_ = 0;             // records
};

}  // namespace shoal::transport
