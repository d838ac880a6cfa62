// Every function that waits somewhere holds the core alive, and none runs once it is stopped.
#include "transport/file_store/store_core.h"

#include "transport/file_store/file_store.h"

namespace shoal::transport {
namespace {

// A medium that refused is asked again after this.
constexpr std::chrono::seconds kRetry(1);
// Seconds without an answer that count as a failed operation.
constexpr int kSilence = 3;

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
  if (silent > 0 && silent % kSilence == 0) {
    const std::lock_guard lock(mutex);
    counts.failed += 1;
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

void StoreCore::write_failed(const Error& error) {
  counts.failed += 1;
  counts.writable = false;
  last_error_ = error;
  write_again_ = scheduler.now() + kRetry;
}

void StoreCore::write_done() {
  counts.writable = true;
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
  return use;
}

void make(Calls& calls) {
  for (const auto& call : calls) {
    call();
  }
  calls.clear();
}

}  // namespace shoal::transport
