// Chunks are kept between resets; a request larger than a chunk gets one of its own.
#include "kernels/workspace.h"

#include <algorithm>
#include <new>

namespace shoal::kernels {

void Workspace::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kAlign});
}

void Workspace::reset() {
  chunk_ = 0;
  used_ = 0;
}

std::byte* Workspace::take_bytes(std::size_t bytes) {
  bytes = (std::max<std::size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const std::size_t size = std::max(bytes, kChunk);
    auto* memory = static_cast<std::byte*>(::operator new (size, std::align_val_t{kAlign}));
    chunks_.push_back(Chunk{std::unique_ptr<std::byte, Free>(memory), size});
    used_ = 0;
  }
  std::byte* taken = chunks_[chunk_].memory.get() + used_;
  used_ += bytes;
  return taken;
}

}  // namespace shoal::kernels
