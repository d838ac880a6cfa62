// What the parts of a file store share, and how they call each other.
//
// One loop (the scheduler) runs everything that decides and all callbacks; lanes run what blocks
// and post their results back to it. One mutex guards all state: calls come from any thread.
// Nothing blocks and nothing calls back while it is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/block_store_params.h"
#include "transport/file_store/catalog.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/gets.h"
#include "transport/file_store/lanes.h"
#include "transport/file_store/puts.h"
#include "transport/file_store/tidying.h"
#include "transport/scheduler.h"

namespace shoal::transport {

class StoreCore : public std::enable_shared_from_this<StoreCore> {
 public:
  StoreCore(BlockStoreParams params,
            std::shared_ptr<FileIo> io,
            Scheduler scheduler,
            RunInLane lanes);

  // Runs `work` in a lane, unless the store stops before.
  void run(Lane lane, std::function<void(StoreCore&)> work);
  // Runs `next` on the loop, `delay` from now, unless the store stops before.
  void post(std::function<void(StoreCore&)> next, Nanos delay = Nanos(0));

  bool is_stopped() const { return stopped_; }

  // On the loop, every second. A medium that hangs refuses nothing, so that it does not answer is
  // counted here: by seconds that passed on this loop, since a process that was stopped asked for
  // nothing. `silent`: of them without an answer.
  void watch(std::uint64_t answered = 0, int silent = 0);

  // From here on nothing is begun any more. What is pending stays so until fail_pending().
  void stop();
  // Once the loop does not run any more, on whichever thread calls.
  void fail_pending();

  // The rest under the mutex, but for what does not change.

  // What the medium said last to a group of so many bytes, and when it may be asked to write again.
  void write_failed(const Error& error, std::int64_t bytes);

  void write_done() { counts.writable = true; }

  bool may_write() const;

  // What it refused. One that takes less than that is still full.
  std::int64_t refused_bytes() const { return refused_bytes_; }

  void probe_ended(const Result<void>& probe, std::int64_t bytes);

  void look_ended(bool is_good);
  void read_ended(bool is_good);

  tl::unexpected<Error> refusal() const;

  // Segments of this many bytes are full.
  std::int64_t full_segment() const;

  BlockStore::Use use() const;

  const BlockStoreParams params;
  const std::shared_ptr<FileIo> io;
  const Scheduler scheduler;

  mutable std::mutex mutex;
  Catalog catalog;
  bool is_opening = true;  // the first reading of the directory is under way
  // What the directory is called; empty: its version file is not asked after.
  std::string where;
  bool is_lost = false;    // it is not there, or is not this store any more
  BlockStore::Use counts;  // the fields that count
  Gets gets;
  Puts puts;
  Tidying tidying;

 private:
  const RunInLane lanes_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> asked_ = 0;     // of lanes
  std::atomic<std::uint64_t> answered_ = 0;  // by them
  std::mutex posting_;                       // the scheduler is not called once stop() has returned
  bool answers() const;

  Error last_error_;
  Instant write_again_{};
  std::int64_t refused_bytes_ = 0;
  bool is_silent_ = false;
  bool is_look_good_ = true;            // the last one
  std::optional<Instant> read_failed_;  // at, and none was good since
};

void make(Calls& calls);

}  // namespace shoal::transport
