// Memory that O_DIRECT takes: begins at a multiple of kKvRecordAlign, is not cleared.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "schemas/kv_record.h"

namespace shoal::transport {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;

  explicit AlignedBuffer(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::operator new(bytes, kAlign))),
        size_(bytes) {}

  std::span<std::byte> span() { return {bytes_.get(), size_}; }

  std::size_t size() const { return size_; }

  // Grows if it must; what was in it is lost then.
  std::span<std::byte> at_least(std::size_t bytes) {
    if (size_ < bytes) {
      *this = AlignedBuffer(bytes);
    }
    return span().first(bytes);
  }

 private:
  static constexpr std::align_val_t kAlign{static_cast<std::size_t>(kKvRecordAlign)};

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlign); }
  };

  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace shoal::transport
