// A table of offered buffers with a ceiling on their bytes.
#include "transport/offers.h"

#include "schemas/check.h"

namespace shoal::transport {

Result<void> Offers::offer(BufferKey key, Buffer bytes) {
  CHECK(bytes != nullptr);
  const Bytes size = size_of(bytes);
  const std::lock_guard lock(mutex_);
  if (size > limits_.buffer || bytes_ + size > limits_.offered) {
    return fail(Code::kNoCapacity,
                "a buffer of " + std::to_string(size.value) +
                    " bytes does not fit: " + std::to_string(bytes_.value) + " of " +
                    std::to_string(limits_.offered.value) + " bytes are on offer, one may have " +
                    std::to_string(limits_.buffer.value) + "; withdraw others first");
  }
  if (!offered_.emplace(key, std::move(bytes)).second) {
    return fail(Code::kInvalid,
                "buffer " + std::to_string(key.value) + " is on offer already; draw another key");
  }
  bytes_ = bytes_ + size;
  return {};
}

void Offers::withdraw(BufferKey key) {
  const std::lock_guard lock(mutex_);
  if (auto withdrawn = offered_.extract(key)) {
    bytes_ = bytes_ - size_of(withdrawn.mapped());
  }
}

Buffer Offers::find(BufferKey key) const {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(key);
  return found == offered_.end() ? nullptr : found->second;
}

void Offers::count(Transport::Use& use) const {
  const std::lock_guard lock(mutex_);
  use.offered = bytes_;
  use.offers = static_cast<std::int64_t>(offered_.size());
}

}  // namespace shoal::transport
