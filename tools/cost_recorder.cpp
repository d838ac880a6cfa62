// All runs go on behind one long sequence, whose blocks they share: 128 rows that are not timed
// make the windows that a run finds.
#include "tools/cost_recorder.h"

#include <algorithm>
#include <ctime>
#include <utility>

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

Nanos now(bool wall) {
  if (wall) {
    return monotonic_now().time_since_epoch();
  }
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanos{time.tv_nsec};
}

Result<Nanos> run_step(Backend& backend, std::vector<RowRun> runs, bool wall) {
  kernels::StepPlan plan;
  plan.runs = std::move(runs);
  TRY(auto step, backend.begin(std::move(plan)));
  const Nanos began = now(wall);
  backend.advance(*step);
  const Nanos took = now(wall) - began;
  backend.take(*step);
  return took;
}

class Recorder {
 public:
  Recorder(Backend& backend, bool wall) : backend_(backend), wall_(wall) {}

  Result<void> compute_prefix();
  Result<Nanos> time(const StepShape& shape);

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
  bool wall_;
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
    TRY_VOID(run_step(backend_, {run}, wall_));
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
    TRY_VOID(run_step(backend_, {run}, wall_));
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

Result<Nanos> Recorder::time(const StepShape& shape) {
  std::vector<Sequence> sequences;
  std::vector<RowRun> runs;
  for (std::int64_t i = 0; i < shape.runs; ++i) {
    TRY(auto sequence, open(shape));
    runs.push_back(timed_run(sequence, shape));
    sequences.push_back(std::move(sequence));
  }
  auto took = run_step(backend_, std::move(runs), wall_);
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

Result<std::vector<RecordedStep>> record_steps(Backend& backend, int repeats, bool wall) {
  const std::vector<StepShape> shapes = step_shapes();
  std::vector<std::vector<Nanos>> times(shapes.size());
  Recorder recorder(backend, wall);
  TRY_VOID(recorder.compute_prefix());
  ProgressBar bar("bench cost");
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      TRY(const Nanos took, recorder.time(shapes[i]));
      times[i].push_back(took);
      bar.update(repeat * std::ssize(shapes) + static_cast<std::int64_t>(i) + 1,
                 repeats * std::ssize(shapes));
    }
  }
  std::vector<RecordedStep> steps;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto middle = times[i].begin() + repeats / 2;
    std::nth_element(times[i].begin(), middle, times[i].end());
    steps.push_back({shapes[i], *middle});
  }
  return steps;
}

}  // namespace shoal::tools
