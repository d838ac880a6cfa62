// The buffers that one endpoint has on offer, under its ceiling. Any thread.
#pragma once

#include <mutex>
#include <unordered_map>

#include "transport/transport.h"

namespace shoal::transport {

class Offers {
 public:
  explicit Offers(const TransportLimits& limits) : limits_(limits) {}

  Result<void> offer(BufferKey key, Buffer bytes);
  void withdraw(BufferKey key);
  // Null: not on offer.
  Buffer find(BufferKey key) const;
  void count(Transport::Use& use) const;

 private:
  const TransportLimits limits_;
  mutable std::mutex mutex_;
  std::unordered_map<BufferKey, Buffer> offered_;
  Bytes bytes_{0};
};

inline Bytes size_of(const Buffer& buffer) {
  return Bytes{static_cast<std::int64_t>(buffer->size())};
}

}  // namespace shoal::transport
