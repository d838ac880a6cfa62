// All runs go on behind one long sequence, whose blocks they share: 128 rows that are not timed
// make the windows that a run finds.
#include "tools/cost_recorder.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <utility>

#include "actors/policy/draw.h"
#include "tools/process_ports.h"
#include "tools/progress_bar.h"

namespace shoal::tools {
namespace {

using kernels::Backend;
using kernels::RowRun;
using kernels::Stack;

constexpr Position kLongest = 8'192;
constexpr std::int64_t kWarm = kBlockTokens;

TokenId token_at(const Backend& backend, Position position) {
  return static_cast<TokenId>(3 + position * 7 % (backend.shape().vocab - 3));
}

Nanos thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanos{time.tv_nsec};
}

struct Took {
  Nanos thread{0};
  Nanos wall{0};
};

Result<Took> run_step(Backend& backend, std::vector<RowRun> runs) {
  kernels::StepPlan plan;
  plan.runs = std::move(runs);
  TRY(auto step, backend.begin(std::move(plan)));
  const Instant began = monotonic_now();
  const Nanos thread_began = thread_time();
  backend.advance(*step);
  const Took took{thread_time() - thread_began, monotonic_now() - began};
  backend.take(*step);
  return took;
}

class Recorder {
 public:
  explicit Recorder(Backend& backend) : backend_(backend) {}

  Result<void> compute_prefix();
  Result<Took> time(const StepShape& shape);

 private:
  struct Sequence {
    SequenceId id;
    std::vector<BlockId> own;
    std::vector<BlockId> table;
  };

  Result<Sequence> open(const StepShape& shape);
  void close(const Sequence& sequence);
  RowRun run_of(const Sequence& sequence, Position first, std::int64_t rows) const;
  RowRun timed_run(const Sequence& sequence, const StepShape& shape) const;

  Backend& backend_;
  std::vector<BlockId> prefix_;
};

RowRun Recorder::run_of(const Sequence& sequence, Position first, std::int64_t rows) const {
  RowRun run;
  run.sequence = sequence.id;
  run.first = first;
  for (Position p = first; p < first + rows; ++p) {
    run.tokens.push_back(token_at(backend_, p));
  }
  run.blocks = sequence.table;
  return run;
}

Result<void> Recorder::compute_prefix() {
  prefix_ = *backend_.arena().take_blocks(kLongest / kBlockTokens);
  const Sequence sequence{*backend_.arena().take_sequence(), {}, prefix_};
  backend_.reset_sequence(sequence.id);
  constexpr std::int64_t kRows = 512;
  for (Position p = 0; p < kLongest; p += kRows) {
    RowRun run = run_of(sequence, p, kRows);
    run.stack = Stack::kEncoder;
    run.decoder_floor = kLongest;
    TRY_VOID(run_step(backend_, {run}));
  }
  backend_.arena().give_sequence(sequence.id);
  return {};
}

// Blocks that its rows write are its own.
Result<Recorder::Sequence> Recorder::open(const StepShape& shape) {
  const std::int64_t warm = std::min<Position>(shape.start, kWarm);
  const Position from = shape.start - warm;
  const Position end = shape.start + shape.rows;
  const std::int64_t shared = from / kBlockTokens;
  Sequence sequence{*backend_.arena().take_sequence(),
                    *backend_.arena().take_blocks((end + kBlockTokens - 1) / kBlockTokens - shared),
                    {prefix_.begin(), prefix_.begin() + shared}};
  sequence.table.insert(sequence.table.end(), sequence.own.begin(), sequence.own.end());
  backend_.reset_sequence(sequence.id);
  if (warm > 0) {
    RowRun run = run_of(sequence, from, warm);
    for (Position p = std::max<Position>(0, from - kernels::kHistoryTokens); p < from; ++p) {
      run.history.push_back(token_at(backend_, p));
    }
    const bool all = shape.deep == shape.rows;
    run.stack = all ? Stack::kAll : Stack::kEncoder;
    run.encoder_floor = from;
    run.decoder_floor = all ? from : end;
    TRY_VOID(run_step(backend_, {run}));
  }
  return sequence;
}

void Recorder::close(const Sequence& sequence) {
  backend_.arena().give_sequence(sequence.id);
  backend_.arena().give_blocks(sequence.own);
}

RowRun Recorder::timed_run(const Sequence& sequence, const StepShape& shape) const {
  RowRun run = run_of(sequence, shape.start, shape.rows);
  const Position end = shape.start + shape.rows;
  const Position seen = std::max<Position>(0, shape.start - kWarm);
  const bool all = shape.deep == shape.rows;
  run.stack = all ? Stack::kAll : Stack::kEncoder;
  run.finishes_prompt = !all && shape.deep > 0;
  run.encoder_floor = seen;
  run.decoder_floor = all ? seen : end - shape.deep;
  run.sample = shape.deep > 0;
  return run;
}

Result<Took> Recorder::time(const StepShape& shape) {
  std::vector<Sequence> sequences;
  std::vector<RowRun> runs;
  for (std::int64_t i = 0; i < shape.runs; ++i) {
    TRY(auto sequence, open(shape));
    runs.push_back(timed_run(sequence, shape));
    sequences.push_back(std::move(sequence));
  }
  auto took = run_step(backend_, std::move(runs));
  for (const Sequence& sequence : sequences) {
    close(sequence);
  }
  return took;
}

constexpr Position kStarts[] = {0, 128, 512, 1'024, 2'048, 4'096, 7'168};

void add_prefill(std::vector<StepShape>& shapes) {
  for (const Position start : kStarts) {
    for (const std::int64_t rows : {16, 48, 128, 256, 384, 640, 1'024}) {
      shapes.push_back({.rows = rows, .start = start});
      shapes.push_back(
          {.rows = rows, .start = start, .deep = std::min<std::int64_t>(rows, kBlockTokens)});
    }
  }
  for (const Position start : {0, 1'024, 4'096}) {
    for (const std::int64_t runs : {2, 4}) {
      for (const std::int64_t rows : {64, 128}) {
        shapes.push_back({.runs = runs, .rows = rows, .start = start});
        shapes.push_back({.runs = runs, .rows = rows, .start = start, .deep = rows});
      }
    }
  }
}

// Of one shape.
struct Times {
  std::vector<Nanos> thread;
  std::vector<Nanos> wall;
};

// Of none: 0.
Nanos median(std::vector<Nanos> times) {
  if (times.empty()) {
    return Nanos{0};
  }
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<std::size_t> shuffled(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Draw draw(1);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[draw.below(i)]);
  }
  return order;
}

Record medians(const std::vector<StepShape>& shapes, const std::vector<Times>& times) {
  Record record;
  record.times = static_cast<int>(times.front().wall.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    record.times = std::min(record.times, static_cast<int>(times[i].wall.size()));
    record.steps.push_back({shapes[i], median(times[i].thread), median(times[i].wall)});
  }
  return record;
}

}  // namespace

StepWork StepShape::work() const {
  StepWork work;
  for (std::int64_t i = 0; i < runs; ++i) {
    work.add(rows, start, decode ? 0 : deep);
  }
  return work;
}

std::vector<StepShape> step_shapes() {
  std::vector<StepShape> shapes;
  add_prefill(shapes);
  for (const Position start : kStarts) {
    for (const std::int64_t runs : {1, 2, 4, 8, 16}) {
      const Position at = std::max<Position>(start, 16);
      shapes.push_back({.decode = true, .runs = runs, .rows = 1, .start = at, .deep = 1});
    }
  }
  return shapes;
}

Result<Record> record_steps(Backend& backend, int repeats, Nanos most) {
  const std::vector<StepShape> shapes = step_shapes();
  const std::vector<std::size_t> order = shuffled(shapes.size());
  std::vector<Times> times(shapes.size());
  Recorder recorder(backend);
  TRY_VOID(recorder.compute_prefix());
  const Instant end = monotonic_now() + most;
  ProgressBar bar("bench cost");
  const std::int64_t total = repeats * std::ssize(shapes);
  for (std::int64_t run = 0; run < total && (run == 0 || monotonic_now() < end); ++run) {
    const std::size_t i = order[static_cast<std::size_t>(run) % shapes.size()];
    TRY(const Took took, recorder.time(shapes[i]));
    times[i].thread.push_back(took.thread);
    times[i].wall.push_back(took.wall);
    bar.update(run + 1, total);
  }
  return medians(shapes, times);
}

}  // namespace shoal::tools
