// The launch thread: the heads of both queues by turns, that of decode first.
#include "kernels/launch_queue.h"

#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "schemas/check.h"

namespace shoal::kernels {

StepYield LaunchedStep::advance(Backend& backend) {
  // A backend may still throw from below (out of memory): that ends the step, not the thread.
  try {
    if (step_ == nullptr) {
      auto step = begin(backend);
      if (!step) {
        refused_ = std::move(step).error();
        return StepYield::kDone;
      }
      step_ = *std::move(step);
    }
    return backend.advance(*step_);
  } catch (const std::exception& error) {
    refused_ = Error{Code::kInternal, std::string("the device's step failed: ") + error.what()};
    return StepYield::kDone;
  }
}

void LaunchedStep::discard(Error error) {
  refused_ = std::move(error);
}

void LaunchedStep::let_go() {
  launch_ = {};
}

Result<std::unique_ptr<Step>> LaunchedStep::begin(Backend& backend) {
  for (const SequenceId id : launch_.fresh) {
    backend.reset_sequence(id);
  }
  for (const BlockLoad& load : launch_.loads) {
    backend.write_block(load.block, *load.bytes);
  }
  TRY_VOID(load_tails(backend));
  for (const RowRun& run : launch_.plan.runs) {
    if (run.finishes_prompt) {
      ended_prompts_.push_back(run.sequence);
    }
  }
  return backend.begin(std::move(launch_.plan));
}

Result<void> LaunchedStep::load_tails(Backend& backend) const {
  for (const TailLoad& tail : launch_.tails) {
    CHECK(tail.bytes != nullptr && tail.offset <= tail.bytes->size());
    const auto& runs = launch_.plan.runs;
    const auto run = std::find_if(
        runs.begin(), runs.end(), [&](const RowRun& r) { return r.sequence == tail.sequence; });
    if (run == runs.end()) {
      return fail(Code::kInvalid,
                  "a tail of sequence " + std::to_string(tail.sequence.value) +
                      ", of which the step has no run");
    }
    TRY_VOID(backend.import_tail(*run, std::span(*tail.bytes).subspan(tail.offset)));
  }
  return {};
}

std::vector<BlockBytes> LaunchedStep::save(Backend& backend, const StepResult& result) const {
  std::vector<BlockBytes> saved;
  for (const BlockSave& save : launch_.saves) {
    const RunResult& run = result.runs.at(save.run);
    BlockBytes& bytes = saved.emplace_back();
    if (run.first < save.end && save.end <= run.end) {
      std::vector<std::byte> block(static_cast<std::size_t>(backend.shape().block_bytes));
      backend.read_block(save.block, block);
      bytes = std::make_shared<const std::vector<std::byte>>(std::move(block));
    }
  }
  return saved;
}

void LaunchedStep::finish(Backend& backend, Nanos compute, Nanos idle) {
  if (refused_) {
    launch_.done({tl::unexpected(std::move(*refused_)), compute, idle});
    return;
  }
  StepResult result = backend.take(*step_);
  step_.reset();
  for (const SequenceId id : ended_prompts_) {
    backend.end_prefill(id);
  }
  std::vector<BlockBytes> saved = save(backend, result);
  launch_.done({std::move(result), compute, idle, std::move(saved)});
}

namespace {

// As for steps: running out of memory ends the copy, not the thread.
template <class Copy>
auto copy_or_fail(const Copy& copy) -> decltype(copy()) {
  try {
    return copy();
  } catch (const std::exception& error) {
    return fail(Code::kInternal, std::string("the device's copy failed: ") + error.what());
  }
}

}  // namespace

void run_copy(Backend& backend, KvExport& copy) {
  copy.done(copy_or_fail([&] {
    return copy.tail ? backend.export_tail(copy.sequence, copy.blocks, copy.tokens)
                     : backend.export_sequence(copy.sequence, copy.blocks, copy.tokens);
  }));
}

void run_copy(Backend& backend, KvImport& copy) {
  CHECK(copy.image != nullptr && copy.offset <= copy.image->size());
  copy.done(copy_or_fail([&] {
    return backend.import_sequence(
        copy.sequence, copy.blocks, std::span(*copy.image).subspan(copy.offset));
  }));
}

LaunchQueue::LaunchQueue(Backend& backend, std::function<Instant()> clock, ExchangeRunner exchange)
    : backend_(backend),
      clock_(std::move(clock)),
      exchange_(std::move(exchange)),
      thread_([this] { run(); }) {}

LaunchQueue::~LaunchQueue() {
  stop();
}

void LaunchQueue::launch(Launch launch) {
  const Queue queue = launch.plan.queue;
  add(std::make_shared<Entry>(Entry{queue, LaunchedStep(std::move(launch))}));
}

void LaunchQueue::copy_out(KvExport copy) {
  const Queue queue = copy.queue;
  add(std::make_shared<Entry>(Entry{queue, std::move(copy)}));
}

void LaunchQueue::copy_in(KvImport copy) {
  const Queue queue = copy.queue;
  add(std::make_shared<Entry>(Entry{queue, std::move(copy)}));
}

void LaunchQueue::add(std::shared_ptr<Entry> entry) {
  const auto queue = static_cast<std::size_t>(entry->queue);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) {
      return;
    }
    state_->queues[queue].push_back(std::move(entry));
  }
  state_->wake.notify_one();
}

void LaunchQueue::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
  // Callbacks may hold the last reference to KV memory, whose release calls back: not under the
  // lock.
  const auto dropped = std::exchange(state_->queues, {});
  for (const auto& queue : dropped) {
    for (const auto& entry : queue) {
      if (auto* step = std::get_if<LaunchedStep>(&entry->work)) {
        step->let_go();
      }
    }
  }
}

std::shared_ptr<LaunchQueue::Entry> LaunchQueue::runnable() const {
  for (const Queue next : state_->turns.order()) {
    const auto& queue = state_->queues[static_cast<std::size_t>(next)];
    if (!queue.empty() && !queue.front()->parked) {
      return queue.front();
    }
  }
  return nullptr;
}

void LaunchQueue::run() {
  std::unique_lock lock(state_->mutex);
  while (true) {
    std::shared_ptr<Entry> entry;
    const auto ready = [&] { return state_->stopping || (entry = runnable()) != nullptr; };
    if (!ready()) {
      const Instant since = clock_();
      state_->wake.wait(lock, ready);
      idle_ += clock_() - since;
    }
    if (state_->stopping) {
      return;
    }
    lock.unlock();
    advance(entry);
    entry = nullptr;  // destroyed outside the lock, see stop()
    lock.lock();
  }
}

void LaunchQueue::advance(const std::shared_ptr<Entry>& entry) {
  if (auto* step = std::get_if<LaunchedStep>(&entry->work)) {
    if (!advance(entry, *step)) {
      return;
    }
  } else if (auto* out = std::get_if<KvExport>(&entry->work)) {
    run_copy(backend_, *out);
  } else {
    run_copy(backend_, std::get<KvImport>(entry->work));
  }
  const std::lock_guard lock(state_->mutex);
  state_->queues[static_cast<std::size_t>(entry->queue)].pop_front();
  state_->turns.had(entry->queue);
}

// False: parked.
bool LaunchQueue::advance(const std::shared_ptr<Entry>& entry, LaunchedStep& step) {
  Nanos& idle_then = idle_then_[static_cast<std::size_t>(entry->queue)];
  if (!entry->idle) {
    entry->idle = idle_ - idle_then;
  }
  if (entry->lost) {
    step.discard(*std::move(entry->lost));
  } else {
    const Instant begin = clock_();
    const StepYield yield = step.advance(backend_);
    entry->compute += clock_() - begin;
    if (yield == StepYield::kNeedsExchange) {
      park(entry, step);
      return false;
    }
  }
  step.finish(backend_, entry->compute, *entry->idle);
  idle_then = idle_;
  return true;
}

// Parked before the exchange starts: it may complete before the runner returns.
void LaunchQueue::park(const std::shared_ptr<Entry>& entry, LaunchedStep& step) {
  CHECK(exchange_ != nullptr);
  {
    const std::lock_guard lock(state_->mutex);
    entry->parked = true;
  }
  exchange_(step.exchange(backend_), [state = state_, entry](Result<void> completed) {
    {
      const std::lock_guard lock(state->mutex);
      entry->parked = false;
      if (!completed) {
        entry->lost = std::move(completed).error();
      }
    }
    state->wake.notify_one();
  });
}

}  // namespace shoal::kernels
