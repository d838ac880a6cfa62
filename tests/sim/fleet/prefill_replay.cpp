// Arrivals, ends of steps and late reports in the order of time.
#include "tests/sim/fleet/prefill_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

#include "actors/policy/prefill_schedule.h"
#include "schemas/check.h"
#include "tests/sim/fleet/prefill_chooser.h"

namespace shoal::sim {
namespace {

constexpr auto kRanks = static_cast<std::size_t>(kFleetRanks);
constexpr Nanos kForever = std::chrono::hours(100'000);

struct Arrival {
  Nanos at{0};
  const PrefillRequest* request = nullptr;
  Nanos predicted{0};
  int length_class = 0;
};

struct Step {
  std::array<Nanos, kRanks> ranks{};
  std::vector<std::size_t> finished;  // requests whose prompt it completes

  Nanos longest() const { return *std::max_element(ranks.begin(), ranks.end()); }

  Nanos sum() const { return std::accumulate(ranks.begin(), ranks.end(), Nanos{0}); }
};

// The queues of an instance and what it does in a step.
class Group {
 public:
  virtual ~Group() = default;
  virtual void add(std::size_t id, const Arrival& arrival, std::size_t rank, Nanos now) = 0;
  virtual Step run(Nanos now) = 0;
  // What its report says.
  virtual PrefillReport describe() const = 0;
};

Nanos rows_cost(std::int64_t rows, Position start) {
  static const CostModel cost(kReferenceCost);
  return cost.rows_only(rows, start);
}

// Each rank runs its own queue, first come, first served, up to 8,192 rows a step.
class BoundGroup final : public Group {
 public:
  void add(std::size_t id, const Arrival& arrival, std::size_t rank, Nanos) override {
    queues_.at(rank).push_back({id,
                                arrival.request->rows,
                                arrival.request->hit,
                                arrival.predicted,
                                arrival.request->rows});
  }

  Step run(Nanos) override {
    Step step;
    for (std::size_t r = 0; r < kRanks; ++r) {
      std::int64_t room = kReferenceChunk;
      while (room > 0 && !queues_[r].empty()) {
        Job& job = queues_[r].front();
        const std::int64_t rows = std::min(room, job.left);
        step.ranks[r] += rows_cost(rows, job.position);
        job.left -= rows;
        job.position += rows;
        room -= rows;
        if (job.left == 0) {
          step.finished.push_back(job.id);
          queues_[r].pop_front();
        }
      }
    }
    return step;
  }

  PrefillReport describe() const override {
    PrefillReport report;
    report.ranks.resize(kRanks);
    for (std::size_t r = 0; r < kRanks; ++r) {
      PrefillRankLoad& rank = report.ranks[r];
      for (const Job& job : queues_[r]) {
        ++rank.requests;
        rank.rows += job.left;
        rank.work += Nanos{job.predicted.count() / job.rows * job.left};
      }
      report.state.requests += rank.requests;
    }
    return report;
  }

 private:
  struct Job {
    std::size_t id;
    std::int64_t left;
    Position position;
    Nanos predicted;
    std::int64_t rows;
  };

  std::array<std::deque<Job>, kRanks> queues_;
};

// The production schedule places requests and cuts chunks.
class ScheduledGroup final : public Group {
 public:
  explicit ScheduledGroup(const PrefillSchedule::Limits& limits)
      : schedule_(CostModel(kReferenceCost), limits) {}

  void add(std::size_t id, const Arrival& arrival, std::size_t, Nanos now) override {
    PrefillJob job;
    job.request = RequestId{id};
    job.attempt = AttemptId{1};
    job.length_class = arrival.length_class;
    const Position total = arrival.request->hit + arrival.request->rows;
    job.span = {.prompt = total, .total = total, .mode = BasisMode::kExact, .reuse = {}};
    job.done = arrival.request->hit;
    job.work = arrival.predicted;
    job.arrived = Instant(now);
    job.deadline = Instant(now + kForever);
    schedule_.add(job);
  }

  Step run(Nanos now) override {
    static const std::vector<PrefillRank> ranks(kRanks, {true, {1 << 30, 1 << 30}});
    Step step;
    for (const PrefillChunk& chunk : schedule_.plan(ranks, Instant(now))) {
      step.ranks[chunk.rank] += chunk.cost;
      if (schedule_.finish_chunk(chunk.request, chunk.attempt, chunk.rows)) {
        step.finished.push_back(chunk.request.value);
      }
    }
    return step;
  }

  PrefillReport describe() const override {
    PrefillBacklog backlog = schedule_.backlog();
    PrefillReport report;
    report.state.queued = backlog.queued;
    report.state.requests = static_cast<std::int64_t>(schedule_.size());
    report.ranks = std::move(backlog.ranks);
    report.ranks.resize(kRanks);
    return report;
  }

 private:
  PrefillSchedule schedule_;
};

class Fleet {
 public:
  Fleet(std::span<const PrefillRequest> requests, const PrefillTrial& trial)
      : trial_(trial),
        chooser_(
            *trial.policy, trial.seed, static_cast<std::size_t>(trial.instances), trial.stale) {
    draw_arrivals(requests);
    for (int i = 0; i < trial.instances; ++i) {
      groups_.push_back(trial.policy->binds_ranks
                            ? std::unique_ptr<Group>(std::make_unique<BoundGroup>())
                            : std::make_unique<ScheduledGroup>(trial.limits));
    }
    running_.resize(groups_.size());
    ends_of_.resize(groups_.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      report(i, -trial_.stale);
    }
    if (trial.cold_rows > 0) {
      add_cold_prompts();
    }
  }

  PrefillFigures run() {
    std::size_t next = 0;
    while (next < arrivals_.size() || !ends_.empty()) {
      const Nanos arrival = next < arrivals_.size() ? arrivals_[next].at : kForever;
      const Nanos end = ends_.empty() ? kForever : ends_.top().first;
      if (end <= arrival) {
        const std::size_t instance = ends_.top().second;
        ends_.pop();
        finish(instance, end);
      } else {
        place(next++);
      }
    }
    figures_.imbalance = longest_ / std::max(1.0, mean_);
    figures_.busy_imbalance = busy_longest_ / std::max(1.0, busy_mean_);
    return std::move(figures_);
  }

 private:
  void draw_arrivals(std::span<const PrefillRequest> requests) {
    CHECK(!requests.empty());
    const int copies = std::max(1, trial_.instances / 8);
    const Nanos span = requests.back().arrival;
    double work = 0;
    for (const PrefillRequest& request : requests) {
      work += static_cast<double>(request.work.count());
    }
    const double ranks = static_cast<double>(kFleetRanks) * trial_.instances;
    const double scale =
        work * copies / (ranks * trial_.utilisation) / (static_cast<double>(span.count()) * copies);
    std::mt19937_64 random(trial_.seed);
    std::normal_distribution<double> normal;
    for (int copy = 0; copy < copies; ++copy) {
      for (const PrefillRequest& request : requests) {
        Arrival made;
        made.at = Nanos{static_cast<std::int64_t>(
            static_cast<double>((request.arrival + span * copy).count()) * scale)};
        made.request = &request;
        const double factor = trial_.error > 0 ? std::exp(trial_.error * normal(random)) : 1;
        made.predicted =
            Nanos{static_cast<std::int64_t>(static_cast<double>(request.work.count()) * factor)};
        made.length_class = prefill_class(made.predicted, kReferenceBounds);
        arrivals_.push_back(made);
      }
    }
  }

  // Ahead of everybody, and not counted.
  void add_cold_prompts() {
    cold_.rows = trial_.cold_rows;
    cold_.work = CostModel(kReferenceCost).chunk(cold_.rows, 0);
    cold_.length_class = prefill_class(cold_.work, kReferenceBounds);
    const std::size_t first = arrivals_.size();
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      groups_[i]->add(first + i, {Nanos{0}, &cold_, cold_.work, cold_.length_class}, 0, Nanos{0});
      start(i, Nanos{0});
    }
  }

  void place(std::size_t id) {
    const Arrival& arrival = arrivals_[id];
    const PrefillNeed need{.work = arrival.predicted,
                           .length_class = arrival.length_class,
                           .rows = arrival.request->rows,
                           .quota = trial_.limits.quota,
                           .waiting_limit = 1 << 30,
                           .tie = id};
    const auto choice = chooser_.choose(need, arrival.at);
    CHECK(choice.has_value());
    groups_[choice->instance]->add(id, arrival, choice->rank, arrival.at);
    start(choice->instance, arrival.at);
  }

  void start(std::size_t instance, Nanos now) {
    if (running_[instance]) {
      return report(instance, now);
    }
    Step step = groups_[instance]->run(now);
    const Nanos longest = step.longest();
    if (longest == Nanos{0}) {
      return report(instance, now);
    }
    const Nanos end = now + kReferenceCost.step + longest;
    count_balance(step);
    running_[instance] = std::make_unique<Step>(std::move(step));
    ends_.emplace(end, instance);
    ends_of_[instance] = end;
    report(instance, now);
  }

  void count_balance(const Step& step) {
    const auto longest = static_cast<double>(step.longest().count());
    const double mean = static_cast<double>(step.sum().count()) / static_cast<double>(kRanks);
    longest_ += longest;
    mean_ += mean;
    if (std::all_of(step.ranks.begin(), step.ranks.end(), [](Nanos t) { return t > Nanos{0}; })) {
      busy_longest_ += longest;
      busy_mean_ += mean;
    }
    ++figures_.steps;
  }

  void finish(std::size_t instance, Nanos now) {
    const auto step = std::move(running_[instance]);
    for (const std::size_t id : step->finished) {
      if (id >= arrivals_.size()) {
        continue;
      }
      const double ttft = static_cast<double>((now - arrivals_[id].at).count()) * 1e-6;
      figures_.ttft_ms.add(ttft);
      if (arrivals_[id].request->length_class == 0) {
        figures_.shortest_ms.add(ttft);
      }
    }
    figures_.makespan_s = static_cast<double>(now.count()) * 1e-9;
    start(instance, now);
  }

  void report(std::size_t instance, Nanos now) {
    PrefillReport report = groups_[instance]->describe();
    report.state.alive = true;
    report.step_ends = running_[instance] ? ends_of_[instance] : Nanos{0};
    chooser_.report(instance, std::move(report), now);
  }

  PrefillTrial trial_;
  PrefillChooser chooser_;
  std::vector<Arrival> arrivals_;
  PrefillRequest cold_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<Step>> running_;
  std::vector<Nanos> ends_of_;
  std::priority_queue<std::pair<Nanos, std::size_t>,
                      std::vector<std::pair<Nanos, std::size_t>>,
                      std::greater<>>
      ends_;
  PrefillFigures figures_;
  double longest_ = 0;
  double mean_ = 0;
  double busy_longest_ = 0;
  double busy_mean_ = 0;
};

}  // namespace

PrefillFigures replay_prefill(std::span<const PrefillRequest> requests, const PrefillTrial& trial) {
  return Fleet(requests, trial).run();
}

}  // namespace shoal::sim
