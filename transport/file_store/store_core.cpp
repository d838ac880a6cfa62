// Every function that waits somewhere holds the core alive, and none runs once it is stopped.
#include "transport/file_store/store_core.h"

#include <algorithm>

#include "transport/file_store/file_store.h"

namespace shoal::transport {
namespace {

// A medium that refused is asked again after this.
constexpr std::chrono::seconds kRetry(1);
// Seconds without an answer that count as a failed operation.
constexpr int kSilence = 3;
// A file that does not read says for so long that the medium may be broken, unless others do.
constexpr std::chrono::seconds kReadShown(5);

}  // namespace

StoreCore::StoreCore(BlockStoreParams params,
                     std::shared_ptr<FileIo> io,
                     Scheduler scheduler,
                     RunInLane lanes)
    : params(std::move(params)),
      io(std::move(io)),
      scheduler(std::move(scheduler)),
      catalog(this->params),
      gets(*this),
      puts(*this),
      tidying(*this),
      lanes_(std::move(lanes)) {}

void StoreCore::run(Lane lane, std::function<void(StoreCore&)> work) {
  ++asked_;
  lanes_(lane, [core = shared_from_this(), work = std::move(work)] {
    if (!core->is_stopped()) {
      work(*core);
    }
    ++core->answered_;
  });
}

void StoreCore::watch(std::uint64_t answered, int silent) {
  const std::uint64_t now_answered = answered_;
  silent = now_answered == answered && asked_ > now_answered ? silent + 1 : 0;
  {
    const std::lock_guard lock(mutex);
    is_silent_ = silent >= kSilence;
    counts.failed += silent > 0 && silent % kSilence == 0 ? 1 : 0;
  }
  post([now_answered, silent](StoreCore& core) { core.watch(now_answered, silent); },
       std::chrono::seconds(1));
}

void StoreCore::post(std::function<void(StoreCore&)> next, Nanos delay) {
  const std::lock_guard lock(posting_);
  if (stopped_) {
    return;
  }
  scheduler.defer(delay, [core = shared_from_this(), next = std::move(next)] {
    if (!core->is_stopped()) {
      next(*core);
    }
  });
}

void StoreCore::stop() {
  // Under both: no operation is added, and nothing is posted, after this.
  const std::scoped_lock lock(mutex, posting_);
  stopped_ = true;
}

void StoreCore::fail_pending() {
  gets.fail_all();
  puts.fail_all();
}

void StoreCore::write_failed(const Error& error, std::int64_t bytes) {
  counts.failed += 1;
  refused_bytes_ = counts.writable ? bytes : std::max(refused_bytes_, bytes);
  counts.writable = false;
  last_error_ = error;
  write_again_ = scheduler.now() + kRetry;
}

// One that failed again hinders no group, which may be smaller, to try.
void StoreCore::probe_ended(const Result<void>& probe, std::int64_t bytes) {
  if (probe) {
    counts.writable = counts.writable || bytes >= refused_bytes_;
  } else if (counts.writable) {
    write_failed(probe.error(), 0);
  } else {
    counts.failed += 1;
  }
}

void StoreCore::look_ended(bool is_good) {
  is_look_good_ = is_good;
  counts.failed += is_good ? 0 : 1;
}

void StoreCore::read_ended(bool is_good) {
  if (is_good) {
    read_failed_.reset();
  } else {
    read_failed_ = scheduler.now();
    counts.failed += 1;
  }
}

bool StoreCore::answers() const {
  return !is_silent_ && is_look_good_ && !tidying.is_stuck() &&
         !(read_failed_ && scheduler.now() - *read_failed_ < kReadShown);
}

bool StoreCore::may_write() const {
  return counts.writable || scheduler.now() >= write_again_;
}

tl::unexpected<Error> StoreCore::refusal() const {
  return fail(last_error_.code,
              last_error_.message + "; nothing is stored until that is put right, reads go on");
}

std::int64_t StoreCore::full_segment() const {
  return transport::full_segment(params.limits).value;
}

BlockStore::Use StoreCore::use() const {
  BlockStore::Use use = counts;
  use.blocks = catalog.blocks();
  use.bytes = catalog.bytes();
  use.away = is_lost ? where + " is not there any more, or was emptied" : std::string();
  use.garbage = catalog.medium() - catalog.bytes();
  use.queued = Bytes(puts.queued());
  use.loading = Bytes(gets.loading());
  use.index = catalog.memory();
  use.held = catalog.held();
  use.opening = is_opening;
  use.answers = answers();
  use.cramped = tidying.cramped();
  return use;
}

void make(Calls& calls) {
  for (const auto& call : calls) {
    call();
  }
  calls.clear();
}

}  // namespace shoal::transport
