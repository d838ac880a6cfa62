// Says to which classes of the pre-tokenizer's patterns a code point belongs, by Unicode 16.0.
#pragma once

#include <array>
#include <cstdint>

namespace shoal {

// Bits; a code point of none is a control, format, private or unassigned character.
enum UnicodeClass : std::uint8_t {
  kLetter = 1,
  kMark = 2,
  kNumber = 4,
  kPunctuation = 8,
  kSymbol = 16,
  kWhiteSpace = 32,
  kNewline = 64,     // only CR and LF, which the patterns name apart from other white space
  kEastAsian = 128,  // U+4E00-9FA5 and U+3040-30FF: the ideographs and kana that a pattern of their
                     // own isolates
};

inline constexpr char32_t kCodePoints = 0x110000;

// Two stages: the number of each block of 128 code points, and the distinct blocks. The first block
// holds ASCII.
inline constexpr std::uint32_t kUnicodeBlockBits = 7;
inline constexpr std::uint32_t kUnicodeBlock = 1u << kUnicodeBlockBits;
inline constexpr std::uint32_t kUnicodeBlocksMax = 600;

struct UnicodeTable {
  std::array<std::uint16_t, (kCodePoints >> kUnicodeBlockBits)> block_of{};
  std::array<std::uint8_t, kUnicodeBlocksMax * kUnicodeBlock> classes{};
};

extern const UnicodeTable kUnicodeTable;

inline std::uint8_t unicode_class(char32_t code_point) {
  const std::uint32_t block = kUnicodeTable.block_of[code_point >> kUnicodeBlockBits];
  return kUnicodeTable.classes[block << kUnicodeBlockBits | (code_point & (kUnicodeBlock - 1))];
}

inline std::uint8_t ascii_class(char character) {
  return kUnicodeTable.classes[static_cast<unsigned char>(character)];
}

}  // namespace shoal
