// An image that is on its way for another request is waited for, not encoded twice.
#include "tests/sim/fleet/fleet_vision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "schemas/check.h"

namespace shoal::sim {
namespace {

constexpr std::size_t kRecent = 1'000;
constexpr std::int64_t kMostPatches = 9'216;
constexpr std::int64_t kLeastPatches = 9;
// 9 patches an image token, of 5,120 values of two bytes.
constexpr std::int64_t kPatchesAToken = 9;
constexpr std::int64_t kTokenBytes = 10'240;

ImageKey key_of(std::uint64_t content) {
  ImageKey key;
  std::memcpy(key.bytes.data(), &content, sizeof content);
  return key;
}

Bytes size_of(std::int64_t patches) {
  return Bytes{patches / kPatchesAToken * kTokenBytes};
}

std::unique_ptr<VisionPolicy> make_policy(const fleet::Vision& options,
                                          const VisionCost& cost,
                                          std::uint64_t seed) {
  const auto rows = vision_policies();
  const auto row = std::find_if(
      rows.begin(), rows.end(), [&](const VisionRow& r) { return r.name == options.policy(); });
  CHECK(row != rows.end());
  return row->make({.cost = cost,
                    .encoders = static_cast<std::size_t>(options.encoders()),
                    .waiting_most = std::int64_t{1} << 40,
                    .seed = seed});
}

}  // namespace

FleetVision::FleetVision(const fleet::Vision& options, std::uint64_t seed)
    : options_(options),
      cost_{.patch_ps = options.patch_ns() * 1'000, .pair_fs = options.pair_fs()},
      cache_({.items = options.cache_items(),
              .bytes = Bytes{options.cache_bytes()},
              .encoding = std::int64_t{1} << 20}),
      policy_(make_policy(options, cost_, seed)),
      draw_(seed),
      random_(seed),
      encoders_(static_cast<std::size_t>(options.encoders())) {}

// As many more as one in `images` ends it.
std::vector<std::int64_t> FleetVision::patches_of(const std::vector<std::int64_t>& recorded) {
  if (!recorded.empty() || options_.share() <= 0 || draw_.unit() >= options_.share()) {
    return recorded;
  }
  std::vector<std::int64_t> patches;
  do {
    const double drawn = static_cast<double>(options_.p50_patches()) *
                         std::exp(options_.sigma_patches() * normal_(random_));
    patches.push_back(
        std::clamp(static_cast<std::int64_t>(std::min(drawn, 1e9)), kLeastPatches, kMostPatches));
  } while (draw_.unit() * options_.images() > 1);
  return patches;
}

FleetVision::Image FleetVision::draw_image(std::int64_t patches) {
  if (!recent_.empty() && draw_.unit() < options_.repeated()) {
    return recent_[draw_.below(recent_.size())];
  }
  recent_.push_back({contents_++, std::clamp(patches, kLeastPatches, kMostPatches)});
  if (recent_.size() > kRecent) {
    recent_.pop_front();
  }
  return recent_.back();
}

bool FleetVision::arrive(std::uint64_t request,
                         const std::vector<std::int64_t>& patches,
                         Nanos now) {
  Job job;
  for (const std::int64_t size : patches) {
    const Image image = draw_image(size);
    const auto found = cache_.look_up(key_of(image.content));
    job.open += found == ImageCache::Found::kReady ? 0 : 1;
    if (found == ImageCache::Found::kEncoding) {
      waiting_[image.content].push_back(request);
    } else if (found == ImageCache::Found::kMissing) {
      job.wanted.push_back(image);
    }
  }
  images_ += std::ssize(patches);
  encoded_ += std::ssize(job.wanted);
  if (job.open == 0) {
    return false;
  }
  jobs_[request] = std::move(job);
  submit(request, now);
  return true;
}

void FleetVision::submit(std::uint64_t request, Nanos now) {
  std::vector<std::int64_t> patches;
  for (const Image& image : jobs_.at(request).wanted) {
    patches.push_back(image.patches);
  }
  if (policy_->arrive({.id = request, .patches = patches}, Instant(now)) != VisionRefusal::kNone) {
    refused_.push_back(request);
  }
}

std::vector<FleetVision::Begun> FleetVision::begin(Nanos now) {
  std::vector<Begun> begun;
  for (std::size_t e = 0; e < encoders_.size(); ++e) {
    Encoder& encoder = encoders_[e];
    if (!encoder.up || encoder.busy) {
      continue;
    }
    if (const auto task = policy_->next(e, Instant(now))) {
      encoder.busy = true;
      encoder.task = *task;
      begun.push_back({e, encoder.version, cost_.of(task->patches)});
    }
  }
  return begun;
}

std::vector<std::uint64_t> FleetVision::end(std::size_t encoder, std::uint64_t version) {
  std::vector<std::uint64_t> ready;
  if (version != encoders_[encoder].version) {
    return ready;
  }
  encoders_[encoder].busy = false;
  const VisionTask& task = encoders_[encoder].task;
  const Image image = jobs_.at(task.request).wanted[task.image];
  cache_.encoded(key_of(image.content), size_of(image.patches));
  done(task.request, ready);
  if (const auto others = waiting_.extract(image.content)) {
    for (const std::uint64_t other : others.mapped()) {
      done(other, ready);
    }
  }
  return ready;
}

void FleetVision::done(std::uint64_t request, std::vector<std::uint64_t>& ready) {
  if (--jobs_.at(request).open == 0) {
    jobs_.erase(request);
    ready.push_back(request);
  }
}

bool FleetVision::fail(std::size_t encoder) {
  if (!encoders_[encoder].up) {
    return false;
  }
  encoders_[encoder].up = false;
  encoders_[encoder].busy = false;
  ++encoders_[encoder].version;
  return true;
}

void FleetVision::notice(std::size_t encoder, Nanos now) {
  policy_->update(encoder, {.alive = false}, Instant(now));
}

void FleetVision::up(std::size_t encoder, Nanos now) {
  notice(encoder, now);
  encoders_[encoder].up = true;
  policy_->update(encoder, {.alive = true}, Instant(now));
  for (const std::uint64_t request : std::exchange(refused_, {})) {
    submit(request, now);
  }
}

}  // namespace shoal::sim
