// Checks where the pre-tokenizer cuts, and the Unicode version of its classes.
#include "actors/codec/tokenizer_pieces.h"

#include <doctest/doctest.h>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/unicode_classes.h"

namespace shoal {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(std::string_view text) {
  Pieces pieces;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* const next = piece_end(at, end);
    pieces.emplace_back(at, next);
    at = next;
  }
  return pieces;
}

TEST_CASE("numbers are cut into threes from the left") {
  CHECK(pieces_of("1234567") == Pieces{"123", "456", "7"});
  CHECK(pieces_of("a1b") == Pieces{"a", "1", "b"});
  CHECK(pieces_of("\u0661\u00BD\u2167\u4E00") == Pieces{"\u0661\u00BD\u2167", "\u4E00"});
}

TEST_CASE("ideographs and kana stand apart, and the third pattern cuts inside them") {
  CHECK(pieces_of("abc模型abc") == Pieces{"abc", "模型", "abc"});
  CHECK(pieces_of(" 模型") == Pieces{" ", "模型"});
  CHECK(pieces_of("ア・イ") == Pieces{"ア", "・", "イ"});
  CHECK(pieces_of("\u9FA5\u9FA6") == Pieces{"\u9FA5", "\u9FA6"});
  CHECK(pieces_of("\u3040\u3041") ==
        Pieces{"\u3040\u3041"});  // unassigned, then a letter: its optional first character
}

TEST_CASE("a sign takes the letters behind it only when both are ASCII") {
  CHECK(pieces_of("_name(x)") == Pieces{"_name", "(x", ")"});
  CHECK(pieces_of("-é") == Pieces{"-", "é"});
  CHECK(pieces_of("-aé") == Pieces{"-a", "é"});
  CHECK(pieces_of("—a") == Pieces{"—", "a"});
  CHECK(pieces_of("--a") == Pieces{"--", "a"});
}

TEST_CASE("a word takes one character before it, and marks belong to words") {
  CHECK(pieces_of("Hello world") == Pieces{"Hello", " world"});
  CHECK(pieces_of("\tx") == Pieces{"\tx"});
  CHECK(pieces_of("\nx") == Pieces{"\n", "x"});
  CHECK(pieces_of("e\u0301a") == Pieces{"e\u0301a"});
  CHECK(pieces_of("\u0301\u0301") == Pieces{"\u0301\u0301"});
}

TEST_CASE("signs take a space before and newlines behind") {
  CHECK(pieces_of("a !!\r\n\nb") == Pieces{"a", " !!\r\n\n", "b"});
  CHECK(pieces_of("a\t!") == Pieces{"a", "\t", "!"});
  CHECK(pieces_of("! \n") == Pieces{"!", " \n"});
}

TEST_CASE("white space leaves its last character to what follows within the same region") {
  CHECK(pieces_of("a  b") == Pieces{"a", " ", " b"});
  CHECK(pieces_of("a  1") == Pieces{"a", "  ", "1"});
  CHECK(pieces_of("a  模") == Pieces{"a", "  ", "模"});
  CHECK(pieces_of("a  ") == Pieces{"a", "  "});
  CHECK(pieces_of(" \n \n  x") == Pieces{" \n \n", " ", " x"});
  CHECK(pieces_of("\u00A0\u2003x") == Pieces{"\u00A0", "\u2003x"});
  CHECK(pieces_of("\uFEFF\u180E") ==
        Pieces{"\uFEFF\u180E"});  // no white space: a run that nothing matches
  CHECK(pieces_of("\u0085\u0085") == Pieces{"\u0085\u0085"});
}

TEST_CASE("what nothing matches is one piece, whose last character goes to a letter behind it") {
  CHECK(pieces_of("\x01\x02\x03") == Pieces{"\x01\x02\x03"});
  CHECK(pieces_of("\x01\x02"
                  "a") == Pieces{"\x01",
                                 "\x02"
                                 "a"});
  CHECK(pieces_of("\x01\x02!") == Pieces{"\x01\x02", "!"});
  CHECK(pieces_of("\x01 \x02") == Pieces{"\x01", " ", "\x02"});
}

TEST_CASE("a text that ends inside a character is cut without reading on") {
  CHECK(pieces_of("a\xE6") == Pieces{"a", "\xE6"});
  CHECK(pieces_of("a\xF7\xBF\xBF\xBF") ==
        Pieces{"a", "\xF7\xBF\xBF\xBF"});  // past the last code point
}

TEST_CASE("the class table is Unicode 16.0") {
  // Code points per general category group and White_Space in DerivedGeneralCategory and PropList
  // of that version.
  const std::map<UnicodeClass, int> expected = {{kLetter, 141028},
                                                {kMark, 2501},
                                                {kNumber, 1911},
                                                {kPunctuation, 855},
                                                {kSymbol, 8514},
                                                {kWhiteSpace, 25},
                                                {kNewline, 2},
                                                {kEastAsian, 21094}};
  std::map<UnicodeClass, int> counted;
  for (char32_t c = 0; c < kCodePoints; ++c) {
    for (const auto& [bit, count] : expected)
      counted[bit] += (unicode_class(c) & bit) != 0 ? 1 : 0;
  }
  CHECK(counted == expected);
  CHECK(unicode_class(0x10D50) == kLetter);  // Garay capital letter A, new in 16.0
  CHECK(unicode_class(0x1C89) == kLetter);   // Cyrillic capital letter TJE, new in 16.0
  CHECK(unicode_class(0x88F) == 0);          // a letter from Unicode 17 on
}

}  // namespace
}  // namespace shoal
