// CRC-32C by both units of the processor where that is faster, the rest through ISA-L, in pieces
// that its int length can hold; it takes the fastest instructions that the processor has.
#include "schemas/checksum.h"

#include <algorithm>
#include <atomic>
#include <isa-l/crc.h>

#include "schemas/checksum_streams.h"

namespace shoal {
namespace {

std::atomic<std::int64_t> record_bytes = 0;
std::atomic<std::int64_t> record_ticks = 0;

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  if (bytes.size() < kStreamsLeast || !has_checksum_streams()) {
    return crc32c_by_library(bytes, previous);
  }
  const StreamsState most = crc32c_streams(bytes, ~previous);
  return crc32c_by_library(bytes.subspan(most.done), ~most.state);
}

std::uint32_t crc32c_by_library(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  // ISA-L's table takes a pointer to non-const bytes that it does not write.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  std::uint32_t crc = ~previous;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    crc = crc32_iscsi(data + at, static_cast<int>(std::min(kPiece, bytes.size() - at)), crc);
  }
  return ~crc;
}

std::int64_t processor_ticks() {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

std::uint32_t record_crc32c(std::span<const std::byte> bytes) {
  const std::int64_t began = processor_ticks();
  const std::uint32_t crc = crc32c(bytes);
  record_ticks.fetch_add(processor_ticks() - began, std::memory_order_relaxed);
  record_bytes.fetch_add(static_cast<std::int64_t>(bytes.size()), std::memory_order_relaxed);
  return crc;
}

ChecksumWork checksum_work() {
  return {record_bytes.load(std::memory_order_relaxed),
          record_ticks.load(std::memory_order_relaxed)};
}

}  // namespace shoal
