// Scratch memory of one running step: bump allocation, grown once and then reused, so that a warm
// step allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace shoal::kernels {

// Not thread-safe: belongs to the thread that advances the step. take() never moves what was taken
// before.
class Workspace {
 public:
  // Uninitialised, 64-byte aligned; valid until reset().
  template <class T>
  T* take(std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return reinterpret_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }

  void reset();

 private:
  static constexpr std::size_t kAlign = 64;
  static constexpr std::size_t kChunk = std::size_t{1} << 20;

  struct Free {
    void operator()(std::byte* memory) const;
  };

  struct Chunk {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
  };

  std::byte* take_bytes(std::size_t bytes);

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace shoal::kernels
