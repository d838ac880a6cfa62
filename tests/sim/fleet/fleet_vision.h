// Encoders of a fleet: images of requests go to them as the policy says, those seen before need
// none. A request is ready with its last image.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/image_cache.h"
#include "actors/policy/vision_balancer.h"
#include "schemas/fleet.pb.h"

namespace shoal::sim {

class FleetVision {
 public:
  FleetVision(const fleet::Vision& options, std::uint64_t seed);

  // Patches of a request's images: those recorded, or drawn where traces have none.
  std::vector<std::int64_t> patches_of(const std::vector<std::int64_t>& recorded);

  // False: all its images are there.
  bool arrive(std::uint64_t request, const std::vector<std::int64_t>& patches, Nanos now);

  struct Begun {
    std::size_t encoder = 0;
    std::uint64_t version = 0;  // of the encoder
    Nanos time{0};
  };

  // Encoders that begin an image now.
  std::vector<Begun> begin(Nanos now);
  // The encoder is done with its image, unless it failed meanwhile: the requests that are ready.
  std::vector<std::uint64_t> end(std::size_t encoder, std::uint64_t version);

  // What it did is void; false: it is down already.
  bool fail(std::size_t encoder);
  // It is known to be down, and others do its images.
  void notice(std::size_t encoder, Nanos now);
  void up(std::size_t encoder, Nanos now);

  std::int64_t images() const { return images_; }

  std::int64_t encoded() const { return encoded_; }

 private:
  struct Image {
    std::uint64_t content = 0;  // equal for equal images
    std::int64_t patches = 0;
  };

  struct Job {
    std::vector<Image> wanted;  // those that an encoder gets
    std::int64_t open = 0;      // images that are not there yet
  };

  struct Encoder {
    bool up = true;
    bool busy = false;
    std::uint64_t version = 0;
    VisionTask task{};
  };

  Image draw_image(std::int64_t patches);
  void submit(std::uint64_t request, Nanos now);
  void done(std::uint64_t request, std::vector<std::uint64_t>& ready);

  fleet::Vision options_;
  VisionCost cost_;
  ImageCache cache_;
  std::unique_ptr<VisionPolicy> policy_;
  Draw draw_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::vector<Encoder> encoders_;
  std::map<std::uint64_t, Job> jobs_;                            // by request
  std::map<std::uint64_t, std::vector<std::uint64_t>> waiting_;  // requests, by content
  std::vector<std::uint64_t> refused_;  // while all encoders were down: they come again
  std::deque<Image> recent_;
  std::uint64_t contents_ = 0;
  std::int64_t images_ = 0;
  std::int64_t encoded_ = 0;
};

}  // namespace shoal::sim
