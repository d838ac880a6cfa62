// Which image an encoder takes next. Ours: images wait in one queue until an encoder is free, so no
// image is bound to one that turns out slow; requests go by their arrival plus a quarter of the
// work they have left, so that a small one passes a large one that came a moment before it, and a
// large one is passed only for that quarter; of a request the largest image first. A request is
// ready with its last image. Rows that others use bind each image at its arrival.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "schemas/units.h"

namespace shoal {

// a p + b p^2 for p patches: attention makes a full image 2.5 times what its patches say.
struct VisionCost {
  std::int64_t patch_ps = 4'000'000;
  std::int64_t pair_fs = 656'000;  // at most 1e6

  // Total: outside [0, 1e6] patches count as those.
  Nanos of(std::int64_t patches) const;
};

struct VisionEncoder {
  bool alive = true;
  std::int64_t pace_permille = 1'000;  // measured time over predicted time
};

struct VisionRequest {
  std::uint64_t id = 0;
  std::span<const std::int64_t> patches;  // of each image
};

// One image on one encoder.
struct VisionTask {
  std::uint64_t request = 0;
  std::size_t image = 0;  // of the request
  std::int64_t patches = 0;
  Nanos cost{0};  // predicted, at pace 1
  Instant arrived{};
};

enum class VisionRefusal : std::uint8_t {
  kNone,
  kNoEncoder,  // there is none, or all are down
  kNoRoom,     // more images would wait than may
};

class VisionPolicy {
 public:
  virtual ~VisionPolicy() = default;

  // All its images or none. One without images is nothing.
  virtual VisionRefusal arrive(const VisionRequest& request, Instant now) = 0;
  // The encoder has nothing to do, and what it did is done. Nothing: it waits for something to
  // change.
  virtual std::optional<VisionTask> next(std::size_t encoder, Instant now) = 0;
  // What one that goes down had or did waits again, for others.
  virtual void update(std::size_t encoder, const VisionEncoder& state, Instant now) = 0;
  // Images that no encoder has begun.
  virtual std::int64_t waiting() const = 0;
};

struct VisionSetting {
  VisionCost cost{};
  std::size_t encoders = 0;  // all up at first
  std::int64_t waiting_most = 100'000;
  std::uint64_t seed = 1;
};

struct VisionRow {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<VisionPolicy> (*make)(const VisionSetting& setting);
};

std::span<const VisionRow> vision_policies();

}  // namespace shoal
