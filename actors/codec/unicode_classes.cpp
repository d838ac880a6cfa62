// Builds the class table from the checked-in runs while compiling: nothing is left to run time.
#include "actors/codec/unicode_classes.h"

#include <cstddef>

namespace shoal {
namespace {

struct Run {
  char32_t first;
  std::uint8_t classes;
};

constexpr Run kRuns[] = {
#include "actors/codec/unicode_classes.inc"
};
constexpr std::size_t kRunCount = sizeof(kRuns) / sizeof(kRuns[0]);

constexpr std::uint8_t pattern_bits(char32_t c) {
  const bool east_asian = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  return static_cast<std::uint8_t>((east_asian ? kEastAsian : 0) |
                                   (c == '\n' || c == '\r' ? kNewline : 0));
}

constexpr bool touches_pattern_bits(char32_t first, char32_t end) {
  return first == 0 || (first < 0x3100 && end > 0x3040) || (first < 0x9FA6 && end > 0x4E00);
}

// Blocks inside one run share a block per class; every other block is written out.
constexpr UnicodeTable make_table() {
  UnicodeTable table;
  std::array<std::uint16_t, 256> uniform{};  // 0: none yet, for block 0 is never uniform
  std::uint32_t blocks = 0;
  std::size_t run = 0;
  for (char32_t first = 0; first < kCodePoints; first += kUnicodeBlock) {
    const char32_t end = first + kUnicodeBlock;
    while (run + 1 < kRunCount && kRuns[run + 1].first <= first)
      ++run;
    const bool one_run = run + 1 == kRunCount || kRuns[run + 1].first >= end;
    std::uint16_t* shared =
        one_run && !touches_pattern_bits(first, end) ? &uniform[kRuns[run].classes] : nullptr;
    std::uint16_t& block = table.block_of[first >> kUnicodeBlockBits];
    if (shared != nullptr && *shared != 0) {
      block = *shared;
      continue;
    }
    block = static_cast<std::uint16_t>(blocks++);
    if (shared != nullptr)
      *shared = block;
    for (char32_t c = first; c < end; ++c) {
      if (run + 1 < kRunCount && kRuns[run + 1].first <= c)
        ++run;
      table.classes[block * kUnicodeBlock + (c - first)] =
          static_cast<std::uint8_t>(kRuns[run].classes | pattern_bits(c));
    }
  }
  return table;
}

}  // namespace

constexpr UnicodeTable kUnicodeTable = make_table();

}  // namespace shoal
