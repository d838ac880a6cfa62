// A buffer or message that arrives in pieces. Memory grows with what has arrived, not with what was
// announced: a peer that lies about a size costs nothing.
#pragma once

#include <memory>
#include <vector>

#include "transport/tcp/connection.h"

namespace shoal::transport {

class Assembly {
 public:
  explicit Assembly(std::uint64_t total) : total_(total) {}

  std::uint64_t total() const { return total_; }

  bool is_whole() const { return bytes_->size() == total_; }

  // Room for the next piece. kCorrupt: it does not continue what was announced.
  Result<Landing> grow(const FrameHeader& piece);

  Buffer take() { return std::move(bytes_); }

 private:
  std::uint64_t total_ = 0;
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

}  // namespace shoal::transport
