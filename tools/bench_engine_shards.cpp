// Steps of a device that runs its experts itself and of one that has them in shards, in turn, so
// that what else the machine does meets both; what shards add is the median of the differences.
#include "tools/bench_engine_shards.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

#include "kernels/launch_queue.h"
#include "kernels/model/model.h"
#include "kernels/registry.h"
#include "tools/expert_processes.h"
#include "tools/process_ports.h"
#include "tools/sharded_experts.h"

namespace shoal::tools {

namespace {

constexpr int kMostRows = 32;
constexpr int kChangeRows = 8;  // while the placement changes

// Decoding sequences on a launch queue, as workers run them.
class Decoding {
 public:
  // Where its experts are. Neither: the device runs them itself.
  struct Experts {
    int shards = 0;
    ExpertProcesses* processes = nullptr;
  };

  static Result<std::unique_ptr<Decoding>> open(const BenchShardsOptions& o,
                                                std::shared_ptr<const kernels::Model> model,
                                                const Experts& where) {
    auto self = std::unique_ptr<Decoding>(new Decoding());
    kernels::DeviceConfig config;
    config.weights = std::move(model);
    config.sequences = kMostRows;
    config.kv_blocks = kMostRows * (o.prompt + o.steps + kBlockTokens) / kBlockTokens + kMostRows;
    config.yields_experts = where.shards > 0 || where.processes != nullptr;
    TRY(self->device_, kernels::open_device("cpu", config));
    kernels::ExchangeRunner runner;
    if (where.processes != nullptr) {
      self->processes_ = where.processes;
      runner = where.processes->runner();
    } else if (where.shards > 0) {
      config::Experts experts;
      experts.set_shards(where.shards);
      TRY(self->experts_,
          ShardedExperts::open(experts, [device = self->device_.get()](const auto& limits) {
            return device->make_expert_engine(limits);
          }));
      runner = self->experts_->node().runner();
    }
    self->queue_ = std::make_unique<kernels::LaunchQueue>(
        self->device_->backend(), monotonic_now, std::move(runner));
    return self;
  }

  // So many sequences with a prompt in the cache.
  Result<void> begin(int rows, const BenchShardsOptions& o) {
    kernels::KvArena& arena = device_->backend().arena();
    for (int i = 0; i < rows; ++i) {
      kernels::RowRun run;
      run.sequence = *arena.take_sequence();
      run.blocks = *arena.take_blocks((o.prompt + o.steps + kBlockTokens) / kBlockTokens);
      for (std::int64_t p = 0; p < o.prompt; ++p) {
        run.tokens.push_back(
            static_cast<TokenId>(3 + (p * 7 + i * 131) % (device_->backend().shape().vocab - 3)));
      }
      run.sample = true;
      fresh_.push_back(run.sequence);
      runs_.push_back(std::move(run));
    }
    return step().map([](Nanos) {});
  }

  void end() {
    for (const kernels::RowRun& run : runs_) {
      device_->backend().arena().give_sequence(run.sequence);
      device_->backend().arena().give_blocks(run.blocks);
    }
    runs_.clear();
  }

  // From launch to result.
  Result<Nanos> step() {
    std::binary_semaphore ended(0);
    Result<kernels::StepResult> result;
    kernels::Launch launch;
    launch.plan.runs = runs_;
    launch.fresh = std::exchange(fresh_, {});
    launch.done = [&ended, &result](kernels::CompletedStep step) {
      result = std::move(step.result);
      ended.release();
    };
    const Instant began = monotonic_now();
    queue_->launch(std::move(launch));
    ended.acquire();
    const Nanos time = monotonic_now() - began;
    TRY(const kernels::StepResult tokens, std::move(result));
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      runs_[i].first += runs_[i].rows();
      runs_[i].tokens = {tokens.runs[i].drawn.at(0).token};
    }
    return time;
  }

  int layers() { return device_->backend().shape().layers; }

  transport::ExpertExchange::Use use() {
    return processes_ != nullptr ? processes_->use() : experts_->node().exchange_use();
  }

  ExpertGroup& group() { return *experts_->balance().group; }

 private:
  Decoding() = default;

  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<ShardedExperts> experts_;
  ExpertProcesses* processes_ = nullptr;
  std::unique_ptr<kernels::LaunchQueue> queue_;
  std::vector<kernels::RowRun> runs_;
  std::vector<SequenceId> fresh_;
};

double quantile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

struct Comparison {
  int rows = 0;
  int layers = 0;
  std::vector<double> own;    // us of a step
  std::vector<double> added;  // us of a layer
  transport::ExpertExchange::Use before;
  transport::ExpertExchange::Use after;
  Nanos computed{0};  // by processes
};

void print(const Comparison& c, const BenchShardsOptions& o) {
  const auto exchanges = static_cast<double>(c.after.combined - c.before.combined);
  const auto kilobytes = [exchanges](Bytes before, Bytes after) {
    return static_cast<double>((after - before).value) / exchanges / 1e3;
  };
  std::printf(
      "experts threads 1 batch %2d %s %d %s: %+.1f us a layer (quartiles %+.1f, %+.1f) beside "
      "%.1f; %.1f hops, %.1f KB there, %.1f KB back",
      c.rows,
      o.processes > 0 ? "in" : "on",
      o.processes > 0 ? o.processes : o.shards,
      o.processes > 0 ? "processes" : "shards",
      quantile(c.added, 0.5),
      quantile(c.added, 0.25),
      quantile(c.added, 0.75),
      quantile(c.own, 0.5) / c.layers,
      static_cast<double>(c.after.hops - c.before.hops) / exchanges,
      kilobytes(c.before.sent, c.after.sent),
      kilobytes(c.before.received, c.after.received));
  if (c.computed > Nanos{0}) {
    std::printf(", %.1f us computed in all shards together",
                std::chrono::duration<double, std::micro>(c.computed).count() / exchanges);
  }
  std::printf("\n");
}

Result<Comparison> compare(Decoding& own,
                           Decoding& sharded,
                           int rows,
                           const BenchShardsOptions& o) {
  TRY_VOID(own.begin(rows, o));
  TRY_VOID(sharded.begin(rows, o));
  Comparison c{.rows = rows,
               .layers = own.layers(),
               .own = {},
               .added = {},
               .before = sharded.use(),
               .after = {},
               .computed = {}};
  for (int i = 0; i < o.steps; ++i) {
    TRY(const Nanos local, own.step());
    TRY(const Nanos remote, sharded.step());
    c.own.push_back(std::chrono::duration<double, std::micro>(local).count());
    c.added.push_back(std::chrono::duration<double, std::micro>(remote - local).count() / c.layers);
  }
  c.after = sharded.use();
  own.end();
  sharded.end();
  return c;
}

// Every expert goes to the next shard: all of them move.
std::vector<ExpertLayer> turned(std::vector<ExpertLayer> layers) {
  for (ExpertLayer& layer : layers) {
    std::ranges::rotate(layer.expert_at, layer.expert_at.end() - layer.shape.slots);
  }
  return layers;
}

// From one placement to the next.
struct Change {
  double lost = 0;  // part of the time
  double load_us = 0;
  double longest_us = 0;  // step
};

// Steps that a change of placement may have made longer: those beside its loading, and some behind
// it, which find other weights in the caches.
constexpr int kStepsBehind = 10;
constexpr Nanos kBetweenChanges = std::chrono::seconds(1);

Result<Change> change_placement(Decoding& sharded, int rows, const BenchShardsOptions& o) {
  std::atomic<std::int64_t> load_ns = -1;
  std::atomic<bool> failed = false;
  const Instant began = monotonic_now();
  sharded.group().place(turned(sharded.group().placement().layers),
                        began + kBetweenChanges,
                        [&load_ns, &failed, began](const Result<EpochId>& placed) {
                          failed = !placed.has_value();
                          load_ns = (monotonic_now() - began).count();
                        });
  std::vector<double> beside;
  std::vector<double> quiet;
  int behind = 0;
  for (int steps = 0; load_ns < 0 || quiet.empty() || monotonic_now() - began < kBetweenChanges;
       ++steps) {
    if (steps % o.steps == 0) {
      sharded.end();
      TRY_VOID(sharded.begin(rows, o));
    }
    const bool is_beside = load_ns < 0 || behind++ < kStepsBehind;
    TRY(const Nanos time, sharded.step());
    (is_beside ? beside : quiet).push_back(std::chrono::duration<double, std::micro>(time).count());
  }
  if (failed) {
    return fail(Code::kInternal, "a placement of the experts failed");
  }
  const double usual = quantile(quiet, 0.5);
  Change change{.lost = 0,
                .load_us = static_cast<double>(load_ns.load()) / 1e3,
                .longest_us = *std::ranges::max_element(beside)};
  for (const double step : beside) {
    change.lost +=
        (step - usual) / std::chrono::duration<double, std::micro>(kBetweenChanges).count();
  }
  return change;
}

Result<void> bench_changes(Decoding& sharded, int rows, const BenchShardsOptions& o) {
  std::vector<double> lost;
  std::vector<double> load;
  std::vector<double> longest;
  TRY_VOID(sharded.begin(rows, o));
  for (int i = 0; i < o.changes; ++i) {
    TRY(const Change change, change_placement(sharded, rows, o));
    lost.push_back(change.lost);
    load.push_back(change.load_us);
    longest.push_back(change.longest_us);
  }
  sharded.end();
  std::printf(
      "experts threads 1 batch %2d on %d shards, all moved once a second: %.2f %% of the time lost "
      "(quartiles %.2f, %.2f), loaded in %.0f us, longest step beside it %.0f us\n",
      rows,
      o.shards,
      100 * quantile(lost, 0.5),
      100 * quantile(lost, 0.25),
      100 * quantile(lost, 0.75),
      quantile(load, 0.5),
      quantile(longest, 0.5));
  return {};
}

}  // namespace

Result<void> bench_expert_shards(const BenchShardsOptions& o) {
  std::unique_ptr<ExpertProcesses> processes;
  if (o.processes > 0) {
    TRY(processes, ExpertProcesses::start(o.model, o.processes));
  }
  TRY(const auto model, kernels::Model::load(o.model));
  TRY(const auto own, Decoding::open(o, model, {}));
  TRY(const auto sharded, Decoding::open(o, model, {o.shards, processes.get()}));
  for (const int rows : {1, 8, kMostRows}) {
    Nanos before{0};
    if (processes != nullptr) {
      TRY(before, processes->computed());
    }
    TRY(Comparison comparison, compare(*own, *sharded, rows, o));
    if (processes != nullptr) {
      TRY(const Nanos after, processes->computed());
      comparison.computed = after - before;
    }
    print(comparison, o);
  }
  return o.changes == 0 ? Result<void>{} : bench_changes(*sharded, kChangeRows, o);
}

}  // namespace shoal::tools
