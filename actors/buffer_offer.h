// A buffer that other nodes may fetch, for as long as this lives.
#pragma once

#include "schemas/ids.h"
#include "transport/transport.h"

namespace shoal {

class BufferOffer {
 public:
  // The buffer is on offer already.
  BufferOffer(transport::Transport& transport, BufferKey key) : transport_(transport), key_(key) {}

  ~BufferOffer() { transport_.withdraw(key_); }

  BufferOffer(const BufferOffer&) = delete;
  BufferOffer& operator=(const BufferOffer&) = delete;

 private:
  transport::Transport& transport_;
  BufferKey key_;
};

}  // namespace shoal
