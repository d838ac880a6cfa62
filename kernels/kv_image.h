// A running sequence as bytes, on its way between devices: a header that says what it fits, then
// what the device writes.
//
// Little-endian. Magic, version, digest of everything behind it, length, tokens, numeric id,
// layout, body. The digest finds damage, not malice: whoever reads a body checks every value it
// relies on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kv_arena.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal::kernels {

// What a device must agree on to go on with the sequence.
struct KvImageFit {
  std::string numeric_id;  // equal ids give equal bits
  std::string layout;      // the geometry in words: equal texts, equal bytes
};

// Which part of a sequence is written or read.
struct SequenceSpan {
  Position tokens = 0;    // rows 0 .. tokens - 1
  Position first_kv = 0;  // where global KV begins, a block's first position: none below is in the
                          // image, or read from it
};

// A tail starts a sequence up to so many positions before its end, where the rings reach that far.
inline constexpr Position kTailReach = 7;

// The span of a tail: the blocks that are open at any position it serves.
inline SequenceSpan tail_span(Position tokens) {
  return {tokens, std::max<Position>(0, tokens - kTailReach) / kBlockTokens * kBlockTokens};
}

class KvImageWriter {
 public:
  // tokens: computed positions; the next row is at this one.
  KvImageWriter(const KvImageFit& fit, Position tokens);

  void bytes(std::span<const std::byte> data);
  void integer(std::int64_t value);
  std::vector<std::byte> finish() &&;

 private:
  void text(std::string_view value);

  std::vector<std::byte> image_;
};

// Never reads outside the image, whatever it holds. The image outlives the reader.
class KvImageReader {
 public:
  // kCorrupt says what is damaged, or what differs from `fit`.
  static Result<KvImageReader> open(std::span<const std::byte> image, const KvImageFit& fit);

  Position tokens() const { return tokens_; }

  Result<std::span<const std::byte>> bytes(std::int64_t size);
  Result<std::int64_t> integer();
  Result<void> end() const;  // kCorrupt unless everything was read

 private:
  explicit KvImageReader(std::span<const std::byte> image) : left_(image) {}

  Result<std::string_view> text();

  std::span<const std::byte> left_;
  Position tokens_ = 0;
};

// kCorrupt with what is wrong and what to do.
tl::unexpected<Error> corrupt_image(const std::string& what);

// Sets the length and the digest of a complete image.
void seal_kv_image(std::span<std::byte> image);

// kInvalid unless the table's blocks exist and cover positions 0 .. tokens - 1.
Result<void> check_block_table(const KvArena& arena,
                               std::span<const BlockId> blocks,
                               Position tokens);

}  // namespace shoal::kernels
