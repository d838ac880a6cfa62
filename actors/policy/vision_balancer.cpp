// One queue for all encoders, or one queue an encoder and a way to choose it.
#include "actors/policy/vision_balancer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "actors/policy/draw.h"

namespace shoal {

namespace {

// Of the work that a request has left: so much later than it another may come and pass it.
// Measured: more makes the mean shorter and the last per mille of requests wait for long.
constexpr std::int64_t kYield = 4;

constexpr std::int64_t kMostPatches = 1'000'000;
constexpr std::int64_t kSlowest = 1'000'000;  // permille

std::vector<VisionTask> tasks_of(const VisionRequest& request,
                                 const VisionCost& cost,
                                 Instant now) {
  std::vector<VisionTask> tasks;
  for (std::size_t i = 0; i < request.patches.size(); ++i) {
    const std::int64_t patches = std::clamp<std::int64_t>(request.patches[i], 0, kMostPatches);
    tasks.push_back({request.id, i, patches, cost.of(patches), now});
  }
  return tasks;
}

struct Encoder {
  VisionEncoder state;
  std::optional<VisionTask> running;
  Instant ends{};  // the running one, predicted

  std::int64_t pace() const { return std::clamp<std::int64_t>(state.pace_permille, 1, kSlowest); }

  Nanos time_of(const VisionTask& task) const { return task.cost * pace() / 1'000; }

  void begin(const VisionTask& task, Instant now) {
    running = task;
    ends = now + time_of(task);
  }
};

bool any_up(std::span<const Encoder> encoders) {
  return std::any_of(
      encoders.begin(), encoders.end(), [](const Encoder& e) { return e.state.alive; });
}

class OneQueue final : public VisionPolicy {
 public:
  explicit OneQueue(const VisionSetting& setting)
      : setting_(setting),
        encoders_(setting.encoders) {}

  VisionRefusal arrive(const VisionRequest& request, Instant now) override {
    if (!any_up(encoders_)) {
      return VisionRefusal::kNoEncoder;
    }
    if (waiting_ + std::ssize(request.patches) > setting_.waiting_most) {
      return VisionRefusal::kNoRoom;
    }
    if (!request.patches.empty()) {
      open(tasks_of(request, setting_.cost, now));
    }
    return VisionRefusal::kNone;
  }

  std::optional<VisionTask> next(std::size_t index, Instant now) override {
    Encoder& encoder = encoders_[index];
    encoder.running.reset();
    if (!encoder.state.alive || order_.empty()) {
      return {};
    }
    const VisionTask& task = open_.at(order_.begin()->second).tasks.back();
    const bool is_in_time = encoder.time_of(task) <= others_time(index) + task.cost;
    if (!is_in_time && another_is_sooner(encoder, task, now)) {
      return {};
    }
    return begin_first(encoder, now);
  }

  void update(std::size_t index, const VisionEncoder& state, Instant /*now*/) override {
    Encoder& encoder = encoders_[index];
    encoder.state = state;
    if (!state.alive) {
      if (const auto task = std::exchange(encoder.running, std::nullopt)) {
        open({*task});
      }
    }
  }

  std::int64_t waiting() const override { return waiting_; }

 private:
  struct Open {
    std::vector<VisionTask> tasks;  // the largest last
    Nanos left{0};

    Instant key() const { return tasks.back().arrived + left / kYield; }
  };

  VisionTask begin_first(Encoder& encoder, Instant now) {
    const std::uint64_t number = order_.begin()->second;
    Open& request = open_.at(number);
    const VisionTask task = request.tasks.back();
    encoder.begin(task, now);
    --waiting_;
    left_ -= task.cost;
    order_.erase(order_.begin());
    request.tasks.pop_back();
    request.left -= task.cost;
    if (request.tasks.empty()) {
      open_.erase(number);
    } else {
      order_.emplace(request.key(), number);
    }
    return task;
  }

  void open(std::vector<VisionTask> tasks) {
    Open request{std::move(tasks)};
    std::stable_sort(request.tasks.begin(), request.tasks.end(), [](const auto& a, const auto& b) {
      return a.cost < b.cost;
    });
    for (const VisionTask& task : request.tasks) {
      request.left += task.cost;
    }
    waiting_ += std::ssize(request.tasks);
    left_ += request.left;
    order_.emplace(request.key(), ++last_);
    open_.emplace(last_, std::move(request));
  }

  // One that will be free soon is faster even so. Whoever takes twice its time may be stuck.
  bool another_is_sooner(const Encoder& idle, const VisionTask& task, Instant now) const {
    const Instant here = now + idle.time_of(task);
    return std::any_of(encoders_.begin(), encoders_.end(), [&](const Encoder& other) {
      const bool is_stuck = other.running && now - other.ends > other.time_of(*other.running);
      const Instant begins = other.running ? std::max(other.ends, now) : now;
      return other.state.alive && !is_stuck && begins + other.time_of(task) < here;
    });
  }

  // What the others together would take for all that waits: whoever is done by then is in time,
  // however slow.
  Nanos others_time(std::size_t but) const {
    std::int64_t speed = 0;  // permille
    for (std::size_t e = 0; e < encoders_.size(); ++e) {
      if (e != but && encoders_[e].state.alive) {
        speed += 1'000'000 / encoders_[e].pace();
      }
    }
    return left_ / std::max<std::int64_t>(speed, 1) * 1'000;
  }

  VisionSetting setting_;
  std::vector<Encoder> encoders_;
  std::map<std::uint64_t, Open> open_;  // by number of arrival
  std::set<std::pair<Instant, std::uint64_t>> order_;
  std::uint64_t last_ = 0;
  std::int64_t waiting_ = 0;
  Nanos left_{0};  // work of these
};

// An encoder with what was bound to it.
struct Line : Encoder {
  std::deque<VisionTask> queue;
  std::int64_t patches = 0;  // of these and the running one
  Nanos queued{0};           // time of these

  std::int64_t images() const { return std::ssize(queue) + (running ? 1 : 0); }

  Nanos backlog(Instant now) const {
    return queued + (running ? std::max(ends - now, Nanos{0}) : Nanos{0});
  }
};

// The less, the better.
using Load = std::int64_t (*)(const Line& line, const VisionTask& task, Instant now);

std::int64_t by_images(const Line& line, const VisionTask& /*task*/, Instant /*now*/) {
  return line.images();
}

std::int64_t by_patches(const Line& line, const VisionTask& /*task*/, Instant /*now*/) {
  return line.patches;
}

std::int64_t by_cost(const Line& line, const VisionTask& task, Instant now) {
  return (line.backlog(now) + line.time_of(task)).count();
}

struct Binding {
  Load load = nullptr;         // none: in turn
  std::size_t samples = 0;     // drawn encoders that are looked at; 0: all
  bool whole_request = false;  // all images of a request go where the first one goes
};

class ManyQueues final : public VisionPolicy {
 public:
  ManyQueues(const VisionSetting& setting, const Binding& binding)
      : setting_(setting),
        binding_(binding),
        draw_(setting.seed),
        lines_(setting.encoders) {}

  VisionRefusal arrive(const VisionRequest& request, Instant now) override {
    if (up().empty()) {
      return VisionRefusal::kNoEncoder;
    }
    if (waiting_ + std::ssize(request.patches) > setting_.waiting_most) {
      return VisionRefusal::kNoRoom;
    }
    bind(tasks_of(request, setting_.cost, now), now);
    return VisionRefusal::kNone;
  }

  std::optional<VisionTask> next(std::size_t index, Instant now) override {
    Line& line = lines_[index];
    if (line.running) {
      line.patches -= line.running->patches;
      line.running.reset();
    }
    if (!line.state.alive || line.queue.empty()) {
      return {};
    }
    const VisionTask task = line.queue.front();
    line.queue.pop_front();
    line.queued -= line.time_of(task);
    line.begin(task, now);
    --waiting_;
    return task;
  }

  void update(std::size_t index, const VisionEncoder& state, Instant now) override {
    Line& line = lines_[index];
    line.state = state;
    std::vector<VisionTask> left(line.queue.begin(), line.queue.end());
    waiting_ -= std::ssize(left);
    line.queue.clear();
    line.queued = Nanos{0};
    line.patches = line.running ? line.running->patches : 0;
    if (!state.alive && line.running) {
      left.insert(left.begin(), *std::exchange(line.running, std::nullopt));
      line.patches = 0;
    }
    // Where nobody else is up they wait for this one.
    const bool stays = state.alive || up().empty();
    for (const VisionTask& task : left) {
      stays ? append(line, task) : append(lines_[pick(task, now)], task);
    }
  }

  std::int64_t waiting() const override { return waiting_; }

 private:
  const std::vector<std::size_t>& up() {
    up_.clear();
    for (std::size_t e = 0; e < lines_.size(); ++e) {
      if (lines_[e].state.alive) {
        up_.push_back(e);
      }
    }
    return up_;
  }

  void bind(const std::vector<VisionTask>& tasks, Instant now) {
    std::optional<std::size_t> line;
    for (const VisionTask& task : tasks) {
      if (!line || !binding_.whole_request) {
        line = pick(task, now);
      }
      append(lines_[*line], task);
    }
  }

  void append(Line& line, const VisionTask& task) {
    line.queue.push_back(task);
    line.patches += task.patches;
    line.queued += line.time_of(task);
    ++waiting_;
  }

  // Some encoder is up.
  std::size_t pick(const VisionTask& task, Instant now) {
    up();
    if (binding_.load == nullptr) {
      return up_[next_++ % up_.size()];
    }
    const std::size_t looked_at =
        binding_.samples == 0 ? up_.size() : std::min(binding_.samples, up_.size());
    std::optional<std::size_t> best;
    for (std::size_t s = 0; s < looked_at; ++s) {
      if (binding_.samples > 0) {
        std::swap(up_[s], up_[s + draw_.below(up_.size() - s)]);
      }
      if (!best || order(up_[s], task, now) < order(*best, task, now)) {
        best = up_[s];
      }
    }
    return *best;
  }

  // Of equal ones whoever is done first, or has been idle for longest.
  std::pair<std::int64_t, Instant> order(std::size_t line,
                                         const VisionTask& task,
                                         Instant now) const {
    return {binding_.load(lines_[line], task, now), lines_[line].ends};
  }

  VisionSetting setting_;
  Binding binding_;
  Draw draw_;
  std::vector<Line> lines_;
  std::vector<std::size_t> up_;  // of one choice
  std::size_t next_ = 0;
  std::int64_t waiting_ = 0;
};

std::unique_ptr<VisionPolicy> one_queue(const VisionSetting& setting) {
  return std::make_unique<OneQueue>(setting);
}

template <Load load, std::size_t samples = 0, bool whole_request = false>
std::unique_ptr<VisionPolicy> bound(const VisionSetting& setting) {
  return std::make_unique<ManyQueues>(setting, Binding{load, samples, whole_request});
}

constexpr std::array<VisionRow, 7> kRows = {{
    {"least_left",
     "one queue: arrival plus a quarter of the request's work that is left",
     one_queue},
    {"least_cost", "each image to the least remaining cost", bound<by_cost>},
    {"least_patches", "each image to the fewest patches", bound<by_patches>},
    {"least_images", "each image to the fewest images", bound<by_images>},
    {"po2_cost", "each image to the better of two drawn encoders by cost", bound<by_cost, 2>},
    {"rr_image", "images one encoder after the other", bound<nullptr>},
    {"rr_request", "requests one encoder after the other", bound<nullptr, 0, true>},
}};

}  // namespace

Nanos VisionCost::of(std::int64_t patches) const {
  const std::int64_t p = std::clamp<std::int64_t>(patches, 0, kMostPatches);
  return Nanos{p * patch_ps / 1'000 + p * p * pair_fs / 1'000'000};
}

std::span<const VisionRow> vision_policies() {
  return kRows;
}

}  // namespace shoal
