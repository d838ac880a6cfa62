// Two kinds of events: a request comes, an image is done.
#include "tests/sim/fleet/vision_replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "actors/policy/draw.h"
#include "schemas/check.h"

namespace shoal::sim {

namespace {

constexpr std::int64_t kPatchesAToken = 9;
constexpr std::int64_t kMostPatches = 9'216;

struct Image {
  std::uint64_t content = 0;  // equal for equal images
  std::int64_t patches = 0;

  ImageKey key() const {
    ImageKey key;
    std::memcpy(key.bytes.data(), &content, sizeof content);
    return key;
  }

  // 5,120 values of two bytes an image token.
  Bytes size() const { return Bytes{patches / kPatchesAToken * 10'240}; }
};

struct Job {
  double arrival_ms = 0;  // on the file's clock
  std::vector<Image> images;
  std::vector<std::size_t> wanted;  // those that an encoder gets
  std::int64_t open = 0;            // images that are not there yet
};

std::vector<Job> jobs_of(std::span<const TraceRequest> requests, const VisionFleet& fleet) {
  constexpr std::uint64_t kRecent = 1'000;
  Draw draw(fleet.seed);
  std::vector<Job> jobs;
  std::vector<Image> different;
  for (const TraceRequest& request : requests) {
    if (request.image_tokens.empty()) {
      continue;
    }
    Job& job = jobs.emplace_back();
    job.arrival_ms = static_cast<double>(request.arrival_ms);
    for (const std::int64_t tokens : request.image_tokens) {
      const std::size_t recent = std::min<std::size_t>(different.size(), kRecent);
      if (recent > 0 && draw.unit() < fleet.repeated) {
        job.images.push_back(different[different.size() - 1 - draw.below(recent)]);
      } else {
        different.push_back({different.size(), std::min(tokens * kPatchesAToken, kMostPatches)});
        job.images.push_back(different.back());
      }
    }
    job.open = std::ssize(job.images);
  }
  return jobs;
}

class Encoders {
 public:
  Encoders(std::vector<Job> jobs, const VisionFleet& fleet, const VisionRow& row)
      : jobs_(std::move(jobs)),
        fleet_(fleet),
        cache_(fleet.cache),
        policy_(row.make({.cost = fleet.believed, .encoders = fleet.encoders, .seed = fleet.seed})),
        busy_(fleet.encoders),
        idle_(fleet.encoders) {
    std::iota(idle_.begin(), idle_.end(), std::size_t{0});
    scale();
    policy_->update(0, {.alive = true, .pace_permille = fleet.slow_permille}, Instant{});
  }

  VisionReplay run() {
    std::size_t next = 0;
    while (next < jobs_.size() || !ends_.empty()) {
      const bool arrives =
          next < jobs_.size() && (ends_.empty() || arrivals_[next] < ends_.top().at);
      now_ = arrives ? arrivals_[next] : ends_.top().at;
      if (arrives) {
        arrive(next++);
      } else {
        end();
      }
      begin();
    }
    const Nanos sum = std::accumulate(busy_.begin(), busy_.end(), Nanos{0});
    const Nanos most = *std::max_element(busy_.begin(), busy_.end());
    replay_.busy = sum == Nanos{0}
                       ? 1
                       : static_cast<double>(most.count()) * static_cast<double>(busy_.size()) /
                             static_cast<double>(sum.count());
    return std::move(replay_);
  }

 private:
  struct End {
    Nanos at{0};
    std::size_t encoder = 0;
    std::size_t job = 0;
    std::size_t image = 0;  // of those wanted

    bool operator>(const End& other) const {
      return std::pair(at, encoder) > std::pair(other.at, other.encoder);
    }
  };

  void scale() {
    Nanos work{0};
    for (const Job& job : jobs_) {
      for (const Image& image : job.images) {
        work += fleet_.cost.of(image.patches);
      }
    }
    const double first = jobs_.front().arrival_ms;
    const double span = std::max(jobs_.back().arrival_ms - first, 1.0);
    const double ns_a_ms = static_cast<double>(work.count()) /
                           (fleet_.utilisation * static_cast<double>(fleet_.encoders) * span);
    for (const Job& job : jobs_) {
      arrivals_.push_back(Nanos{std::llround((job.arrival_ms - first) * ns_a_ms)});
    }
  }

  void arrive(std::size_t number) {
    Job& job = jobs_[number];
    std::vector<std::int64_t> patches;
    for (std::size_t i = 0; i < job.images.size(); ++i) {
      const Image& image = job.images[i];
      switch (cache_.look_up(image.key())) {
        case ImageCache::Found::kReady:
          done(number);
          break;
        case ImageCache::Found::kEncoding:
          waiting_[image.content].push_back(number);
          break;
        case ImageCache::Found::kMissing:
          job.wanted.push_back(i);
          patches.push_back(image.patches);
      }
    }
    replay_.images += std::ssize(job.images);
    replay_.encoded += std::ssize(patches);
    CHECK(policy_->arrive({.id = number, .patches = patches}, Instant(now_)) ==
          VisionRefusal::kNone);
  }

  void end() {
    const End end = ends_.top();
    ends_.pop();
    idle_.push_back(end.encoder);
    const Image& image = jobs_[end.job].images[jobs_[end.job].wanted[end.image]];
    cache_.encoded(image.key(), image.size());
    done(end.job);
    if (const auto others = waiting_.extract(image.content)) {
      for (const std::size_t other : others.mapped()) {
        done(other);
      }
    }
  }

  // With one image of the job.
  void done(std::size_t job) {
    if (--jobs_[job].open == 0) {
      replay_.ready_ms.add(milliseconds(now_ - arrivals_[job]));
    }
  }

  // Whoever has been idle for longest is asked first.
  void begin() {
    std::erase_if(idle_, [this](std::size_t encoder) {
      const auto task = policy_->next(encoder, Instant(now_));
      if (task) {
        const Nanos time = fleet_.cost.of(task->patches) * pace_of(encoder) / 1'000;
        busy_[encoder] += time;
        ends_.push({now_ + time, encoder, task->request, task->image});
        replay_.wait_ms.add(milliseconds(now_ - arrivals_[task->request]));
      }
      return task.has_value();
    });
  }

  std::int64_t pace_of(std::size_t encoder) const {
    return encoder == 0 ? fleet_.slow_permille : 1'000;
  }

  static double milliseconds(Nanos time) { return static_cast<double>(time.count()) / 1e6; }

  std::vector<Job> jobs_;
  VisionFleet fleet_;
  ImageCache cache_;
  std::unique_ptr<VisionPolicy> policy_;
  std::vector<Nanos> arrivals_;
  std::map<std::uint64_t, std::vector<std::size_t>> waiting_;  // jobs, by content
  std::vector<Nanos> busy_;
  std::vector<std::size_t> idle_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  Nanos now_{0};
  VisionReplay replay_;
};

}  // namespace

VisionReplay replay_vision(std::span<const TraceRequest> requests,
                           const VisionFleet& fleet,
                           const VisionRow& row) {
  CHECK(fleet.encoders > 0 && fleet.utilisation > 0);
  std::vector<Job> jobs = jobs_of(requests, fleet);
  return jobs.empty() ? VisionReplay{} : Encoders(std::move(jobs), fleet, row).run();
}

}  // namespace shoal::sim
