// Vision encoders under recorded requests: each encodes one image at a time, 9 patches an image
// token and at most 9,216; arrivals are scaled so that encoders are busy for a share of the time
// from the first to the last. A request is ready with its last image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/image_cache.h"
#include "actors/policy/vision_balancer.h"
#include "tests/sim/fleet/samples.h"
#include "tests/sim/trace_file.h"

namespace shoal::sim {

struct VisionFleet {
  std::size_t encoders = 16;
  double utilisation = 0.85;
  VisionCost cost{};                   // true
  VisionCost believed = cost;          // by the policy
  std::int64_t slow_permille = 1'000;  // the first encoder's time over the others'
  double repeated = 0;                 // share of images that are one of the last 1,000 again
  ImageCacheLimits cache{};            // none: repeated images are encoded again
  std::uint64_t seed = 1;
};

struct VisionReplay {
  Samples ready_ms;          // from a request's arrival on
  Samples wait_ms;           // of an image, until it begins
  std::int64_t images = 0;   // of all requests
  std::int64_t encoded = 0;  // of these
  double busy = 0;           // largest over mean of all encoders
};

// Requests without images are left out.
VisionReplay replay_vision(std::span<const TraceRequest> requests,
                           const VisionFleet& fleet,
                           const VisionRow& row);

}  // namespace shoal::sim
