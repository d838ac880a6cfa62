// Address space for what is usual at once, then fourfold: little is copied again. Pages that no
// byte has reached cost nothing.
#include "transport/tcp/assembly.h"

#include <algorithm>

namespace shoal::transport {

Result<Landing> Assembly::grow(const FrameHeader& piece) {
  constexpr std::size_t kFirst = std::size_t{16} << 20;
  const std::size_t filled = bytes_->size();
  const std::size_t size = filled + piece.length;
  if (piece.argument != total_ || size > total_ || (piece.length == 0 && total_ > 0)) {
    return fail(Code::kCorrupt, "a piece does not continue what was announced");
  }
  if (size > bytes_->capacity()) {
    bytes_->reserve(std::min<std::size_t>(total_, std::max({size, kFirst, 4 * filled})));
  }
  bytes_->resize(size);
  return Landing{bytes_, filled};
}

}  // namespace shoal::transport
