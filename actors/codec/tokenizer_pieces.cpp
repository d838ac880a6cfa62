// Scans for all three patterns in one pass, without a regular expression engine.
#include "actors/codec/tokenizer_pieces.h"

#include <cstddef>
#include <cstdint>

#include "actors/codec/unicode_classes.h"

namespace shoal {
namespace {

constexpr std::uint8_t kWord = kLetter | kMark;
constexpr std::uint8_t kSign = kPunctuation | kSymbol;

// size 0: no character here.
struct Character {
  std::uint8_t classes = 0;
  std::uint8_t size = 0;

  bool is(std::uint8_t any_of) const { return (classes & any_of) != 0; }
};

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

bool is_ascii_letter(char byte) {
  return static_cast<unsigned char>((byte | 0x20) - 'a') < 26;
}

Character read_wide(const char* at, const char* end) {
  const auto byte = [at](int i) { return static_cast<unsigned char>(at[i]); };
  const std::uint8_t size = byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (end - at < size)
    return {0, 1};
  char32_t code_point = byte(0) & (0xFFu >> (size + 1));
  for (int i = 1; i < size; ++i)
    code_point = code_point << 6 | (byte(i) & 0x3Fu);
  return {code_point < kCodePoints ? unicode_class(code_point) : std::uint8_t{0}, size};
}

Character read(const char* at, const char* end) {
  if (at == end)
    return {};
  if (is_ascii(*at))
    return {ascii_class(*at), 1};
  return read_wide(at, end);
}

// What patterns 1 and 2 leave whole: neighbours without digits that are all East Asian or all not.
// The third pattern sees no further than its region, not even in its lookahead.
class Region {
 public:
  Region(Character first, const char* end) : end_(end), east_asian_(first.classes & kEastAsian) {}

  Character at(const char* p) const {
    const Character c = read(p, end_);
    return c.is(kNumber) || (c.classes & kEastAsian) != east_asian_ ? Character{} : c;
  }

  const char* skip(const char* p, std::uint8_t classes) const {
    for (;;) {
      const Character c = at(p);
      if (!c.is(classes))
        return p;
      p += c.size;
    }
  }

  const char* skip_word(const char* p) const {
    if (east_asian_ == 0)
      p = skip_ascii_letters(p);
    return skip(p, kWord);
  }

  const char* skip_ascii_letters(const char* p) const {
    while (p != end_ && is_ascii_letter(*p))
      ++p;
    return p;
  }

 private:
  const char* end_;
  std::uint8_t east_asian_;
};

const char* number_end(const char* p, const char* end) {
  for (int digits = 0; digits < 3; ++digits) {
    const Character c = read(p, end);
    if (!c.is(kNumber))
      break;
    p += c.size;
  }
  return p;
}

const char* signs_end(const Region& region, const char* p) {
  return region.skip(region.skip(p, kSign), kNewline);
}

// `next` is behind the first white space character, which starts at `begin`.
const char* white_space_end(const Region& region,
                            const char* begin,
                            const char* next,
                            bool newline) {
  const char* last = begin;
  const char* after_newline = newline ? next : nullptr;
  Character c = region.at(next);
  while (c.is(kWhiteSpace)) {
    last = next;
    next += c.size;
    if (c.is(kNewline))
      after_newline = next;
    c = region.at(next);
  }
  if (after_newline != nullptr)
    return after_newline;
  // \s+(?!\S): before more text of the region the last one stays behind, unless it is the only one.
  return c.size != 0 && last != begin ? last : next;
}

// Runs until something matches: a word, signs, white space, or this character as the optional first
// one of a word.
const char* unmatched_end(const Region& region, const char* p) {
  for (;;) {
    const Character c = region.at(p);
    if (c.size == 0 || c.is(kWord | kSign | kWhiteSpace))
      return p;
    if (region.at(p + c.size).is(kWord))
      return p;
    p += c.size;
  }
}

}  // namespace

const char* piece_end(const char* begin, const char* end) {
  const Character first = read(begin, end);
  if (first.is(kNumber))
    return number_end(begin, end);
  const Region region(first, end);
  const char* next = begin + first.size;
  if (first.is(kWord))
    return region.skip_word(next);
  const Character second = region.at(next);
  if (first.is(kSign)) {
    const bool ascii_pair = first.size == 1 && second.size == 1;
    if (ascii_pair && is_ascii_letter(*next))
      return region.skip_ascii_letters(next);
    return signs_end(region, next);
  }
  if (!first.is(kNewline) && second.is(kWord))
    return region.skip_word(next);
  if (*begin == ' ' && second.is(kSign))
    return signs_end(region, next);
  if (first.is(kWhiteSpace)) {
    return white_space_end(region, begin, next, first.is(kNewline));
  }
  return unmatched_end(region, next);
}

}  // namespace shoal
