// Printable Latin-1 stands for itself; the other 68 bytes, ascending, are written as U+0100 on.
#include "actors/codec/tokenizer_byte_level.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace shoal {
namespace {

constexpr int kNoByte = -1;
constexpr std::size_t kAlphabetEnd = 0x144;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::uint16_t, 256> make_alphabet() {
  std::array<std::uint16_t, 256> alphabet{};
  std::uint16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    alphabet[byte] = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
  }
  return alphabet;
}

constexpr std::array<std::uint16_t, 256> kAlphabet = make_alphabet();

constexpr std::array<std::int16_t, kAlphabetEnd> make_inverse() {
  std::array<std::int16_t, kAlphabetEnd> inverse{};
  for (std::int16_t& byte : inverse)
    byte = kNoByte;
  for (unsigned byte = 0; byte < 256; ++byte)
    inverse[kAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return inverse;
}

constexpr std::array<std::int16_t, kAlphabetEnd> kInverse = make_inverse();

}  // namespace

std::string byte_level_spelling(unsigned char byte) {
  const std::uint16_t c = kAlphabet[byte];
  if (c < 0x80)
    return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

bool read_byte_level(std::string_view spelled, std::string& bytes) {
  bytes.clear();
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    unsigned c = static_cast<unsigned char>(spelled[i]);
    if (c >= 0x80) {  // the alphabet ends below U+0800: two bytes at most
      if (c >= 0xE0 || ++i == spelled.size())
        return false;
      c = (c & 0x1Fu) << 6 | (static_cast<unsigned char>(spelled[i]) & 0x3Fu);
    }
    if (c >= kAlphabetEnd || kInverse[c] == kNoByte)
      return false;
    bytes.push_back(static_cast<char>(kInverse[c]));
  }
  return true;
}

}  // namespace shoal
