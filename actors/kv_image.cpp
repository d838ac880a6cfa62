// Five little-endian numbers: magic, request, attempt, position, last token.
#include "actors/kv_image.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace shoal {
namespace {

constexpr std::uint64_t kMagic = 0x31'4D'49'56'4B'4C'48'53ULL;  // "SHLKVIM1"

using Header = std::array<std::uint64_t, 5>;
static_assert(sizeof(Header) == kKvImageHeader);

Header header_of(const Handover& handover) {
  const AttemptKey key = handover.key();
  return {kMagic,
          key.request.value,
          key.attempt.value,
          static_cast<std::uint64_t>(handover.position),
          static_cast<std::uint64_t>(handover.token)};
}

}  // namespace

std::vector<std::byte> pack_kv_image(const Handover& handover,
                                     const std::vector<std::byte>& exported) {
  const Header header = header_of(handover);
  std::vector<std::byte> image(kKvImageHeader + exported.size());
  std::memcpy(image.data(), header.data(), kKvImageHeader);
  std::memcpy(image.data() + kKvImageHeader, exported.data(), exported.size());
  return image;
}

Result<void> check_kv_image(const Handover& handover, const std::vector<std::byte>& image) {
  Header header{};
  if (image.size() < kKvImageHeader) {
    return fail(Code::kCorrupt, "KV image: it is shorter than its header");
  }
  std::memcpy(header.data(), image.data(), kKvImageHeader);
  if (header != header_of(handover)) {
    return fail(Code::kCorrupt,
                "KV image: it belongs to request " + std::to_string(header[1]) + " attempt " +
                    std::to_string(header[2]) + " at " + std::to_string(header[3]) +
                    ", not to the sequence that was handed over");
  }
  return {};
}

}  // namespace shoal
