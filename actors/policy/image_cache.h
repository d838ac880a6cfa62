// Which images need not be encoded: what was encoded is kept by the content's hash until newer ones
// need the room (least recently used goes first), and an image that is being encoded is not begun
// a second time. The embeddings themselves are elsewhere.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "schemas/units.h"

namespace shoal {

// A hash of the normalised pixels, of the encoder's weights, and of whose image it is: equal keys
// are equal embeddings that the same tenant may see.
struct ImageKey {
  std::array<std::byte, 32> bytes{};

  friend auto operator<=>(const ImageKey&, const ImageKey&) = default;
};

struct ImageCacheLimits {
  std::int64_t items = 0;     // embeddings that are kept
  Bytes bytes{0};             // of all of them
  std::int64_t encoding = 0;  // that are known to be under way; more are encoded unseen
};

class ImageCache {
 public:
  explicit ImageCache(const ImageCacheLimits& limits) : limits_(limits) {}

  enum class Found : std::uint8_t {
    kReady,     // its embedding is there
    kEncoding,  // somebody has been told kMissing and has not said how it went
    kMissing,   // the caller encodes it, then says encoded() or failed()
  };

  Found look_up(const ImageKey& key);
  // The embeddings that go for it: its own, when it is larger than all that may be kept.
  std::vector<ImageKey> encoded(const ImageKey& key, Bytes size);

  void failed(const ImageKey& key) { encoding_.erase(key); }

  std::int64_t items() const { return std::ssize(order_); }

  Bytes bytes() const { return bytes_; }

  std::int64_t encoding() const { return std::ssize(encoding_); }

 private:
  struct Kept {
    ImageKey key;
    Bytes size;
  };

  bool is_over() const { return items() > limits_.items || bytes_ > limits_.bytes; }

  ImageCacheLimits limits_;
  std::list<Kept> order_;  // the one used last in front
  std::map<ImageKey, std::list<Kept>::iterator> kept_;
  std::set<ImageKey> encoding_;
  Bytes bytes_{0};
};

}  // namespace shoal
