// The device's launch queue: one thread that advances the steps of all workers, decode before
// prefill, and calls back when a step is complete. Where both wait they take turns: decode always
// has a step that waits, since it prepares one while another runs. A step that waits for an
// exchange is parked without a thread.
//
// Everything that touches a sequence's state on the device happens on this thread, so slots are
// reset in order with the steps.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "kernels/backend.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::kernels {

using BlockBytes = std::shared_ptr<const std::vector<std::byte>>;

struct CompletedStep {
  Result<StepResult> result;
  Nanos compute{0};  // on the device, waiting excluded
  Nanos idle{0};  // that the device had nothing to do, between the step before of its queue and it
  std::vector<BlockBytes> saved{};  // one per Launch::saves; null: not complete with this step
};

// Bytes of Backend::read_block that become a block again.
struct BlockLoad {
  BlockId block;
  BlockBytes bytes;
};

// An image of Backend::export_tail, or any other, from which a sequence goes on.
struct TailLoad {
  SequenceId sequence;  // forgotten before, so it need not be fresh; the plan has a run of it
  BlockBytes bytes;
  std::size_t offset = 0;  // where the image begins in those bytes
};

// A block that a run may complete: read behind the step that did.
struct BlockSave {
  std::size_t run = 0;
  BlockId block;
  Position end = 0;  // of the block's positions
};

struct Launch {
  StepPlan plan;
  std::vector<SequenceId> fresh;   // slots to reset before the step: their first rows run in it
  std::vector<BlockLoad> loads{};  // written before the step, which reads them
  std::vector<TailLoad> tails{};   // behind the loads; one that is refused ends the step
  std::vector<BlockSave> saves{};
  // Called once, on the launch thread, must not block. Dropped uncalled when the queue stops first.
  std::function<void(CompletedStep)> done;
};

// A sequence leaves or enters the device, in order with the steps of its queue. `done`: as
// Launch's.
struct KvExport {
  Queue queue = Queue::kPrefill;
  SequenceId sequence;
  std::vector<BlockId> blocks;
  Position tokens = 0;
  std::function<void(Result<std::vector<std::byte>>)> done;
  bool tail = false;  // Backend::export_tail in place of export_sequence
};

struct KvImport {
  Queue queue = Queue::kDecode;
  SequenceId sequence;  // forgotten before, so not fresh in a later step
  std::vector<BlockId> blocks;
  std::shared_ptr<const std::vector<std::byte>> image;
  std::size_t offset = 0;  // where the image begins in those bytes
  std::function<void(Result<void>)> done;
};

// Where workers put their steps and copies. Those of one Queue run in order. Any thread.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual void launch(Launch launch) = 0;
  virtual void copy_out(KvExport copy) = 0;
  virtual void copy_in(KvImport copy) = 0;
  // Lets the running step end and drops the others; nothing is called back afterwards. Idempotent.
  virtual void stop() = 0;
};

// Completes an exchange of a parked step and then calls `complete` once, from any thread: the
// outputs are written, or the step ends with that error and they are not touched any more. Only
// devices whose experts are elsewhere need one.
using ExchangeRunner = std::function<void(Exchange&, std::function<void(Result<void>)> complete)>;

// Runs one launch to its next yield: the part every launcher shares.
class LaunchedStep {
 public:
  explicit LaunchedStep(Launch launch) : launch_(std::move(launch)) {}

  // Done, or an exchange to complete before the next call. A step that the backend refuses is done
  // with its error.
  StepYield advance(Backend& backend);

  Exchange& exchange(Backend& backend) { return backend.exchange(*step_); }

  // The exchange failed: the step is done with this error. What it wrote of its sequences is worth
  // nothing, so they start anew.
  void discard(Error error);

  // Of a step that will not go on: drops the callback with what it holds. The step's own memory
  // stays, an exchange may still write to it.
  void let_go();

  // After kDone.
  void finish(Backend& backend, Nanos compute, Nanos idle = Nanos{0});

  const StepPlan& plan() const { return launch_.plan; }  // valid before the first advance()

  const Step* step() const { return step_.get(); }  // null: has not begun, or was refused

 private:
  Result<std::unique_ptr<Step>> begin(Backend& backend);
  Result<void> load_tails(Backend& backend) const;
  std::vector<BlockBytes> save(Backend& backend, const StepResult& result) const;

  Launch launch_;
  std::unique_ptr<Step> step_;
  std::optional<Error> refused_;
  std::vector<SequenceId> ended_prompts_;
};

// Copies and calls back: the part every launcher shares.
void run_copy(Backend& backend, KvExport& copy);
void run_copy(Backend& backend, KvImport& copy);

// Whose work goes next: the part every launcher shares. Of two queues that both have some, the one
// that did not have the last; so each waits for one step of the other at most.
class QueueTurns {
 public:
  std::array<Queue, kQueueCount> order() const {
    return last_ == Queue::kDecode ? std::array{Queue::kPrefill, Queue::kDecode}
                                   : std::array{Queue::kDecode, Queue::kPrefill};
  }

  // A step or a copy is over.
  void had(Queue queue) { last_ = queue; }

 private:
  Queue last_ = Queue::kPrefill;
};

class LaunchQueue final : public Launcher {
 public:
  // The backend outlives every exchange that was begun.
  LaunchQueue(Backend& backend, std::function<Instant()> clock, ExchangeRunner exchange = {});
  ~LaunchQueue() override;
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  void launch(Launch launch) override;
  void copy_out(KvExport copy) override;
  void copy_in(KvImport copy) override;
  void stop() override;

 private:
  struct Entry {
    Queue queue;
    std::variant<LaunchedStep, KvExport, KvImport> work;
    Nanos compute{0};
    std::optional<Nanos> idle{};  // before it, once it has begun
    bool parked = false;
    std::optional<Error> lost{};  // with its exchange
  };

  // Shared with the exchanges of parked steps, which may end after the queue: they keep the memory
  // that they write.
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::array<std::deque<std::shared_ptr<Entry>>, kQueueCount> queues;
    QueueTurns turns;
    bool stopping = false;
  };

  void add(std::shared_ptr<Entry> entry);
  void run();
  std::shared_ptr<Entry> runnable() const;
  void advance(const std::shared_ptr<Entry>& entry);
  bool advance(const std::shared_ptr<Entry>& entry, LaunchedStep& step);
  void park(const std::shared_ptr<Entry>& entry, LaunchedStep& step);

  Backend& backend_;
  std::function<Instant()> clock_;
  ExchangeRunner exchange_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  // Of the launch thread.
  Nanos idle_{0};                               // since the start
  std::array<Nanos, kQueueCount> idle_then_{};  // at the end of each queue's last step
  std::thread thread_;
};

}  // namespace shoal::kernels
