// A list in the order of use, and an index of it.
#include "actors/policy/image_cache.h"

#include <algorithm>

namespace shoal {

ImageCache::Found ImageCache::look_up(const ImageKey& key) {
  if (const auto at = kept_.find(key); at != kept_.end()) {
    order_.splice(order_.begin(), order_, at->second);
    return Found::kReady;
  }
  if (encoding_.contains(key)) {
    return Found::kEncoding;
  }
  if (encoding() < limits_.encoding) {
    encoding_.insert(key);
  }
  return Found::kMissing;
}

std::vector<ImageKey> ImageCache::encoded(const ImageKey& key, Bytes size) {
  encoding_.erase(key);
  std::vector<ImageKey> gone;
  if (size > limits_.bytes || limits_.items < 1) {
    gone.push_back(key);
    return gone;
  }
  if (kept_.contains(key)) {  // encoded twice, unseen
    return gone;
  }
  order_.push_front({key, Bytes{std::max<std::int64_t>(size.value, 0)}});
  kept_[key] = order_.begin();
  bytes_ = bytes_ + order_.front().size;
  while (is_over()) {
    const Kept& last = order_.back();
    gone.push_back(last.key);
    bytes_ = bytes_ - last.size;
    kept_.erase(last.key);
    order_.pop_back();
  }
  return gone;
}

}  // namespace shoal
