// Checks the repair of malformed UTF-8, whole and as a stream cut anywhere.
#include "actors/codec/tokenizer_utf8.h"

#include <doctest/doctest.h>
#include <random>
#include <string>
#include <string_view>

namespace shoal {
namespace {

TEST_CASE(
    "each malformed sequence becomes one replacement character, as a WHATWG decoder does it") {
  struct Example {
    std::string_view bytes;
    std::string_view text;
  };

  const Example examples[] = {
      {"", ""},
      {"plain", "plain"},
      {"caf\xC3\xA9 \xE6\xA8\xA1 \xF0\x9F\x90\x9F", "caf\xC3\xA9 \xE6\xA8\xA1 \xF0\x9F\x90\x9F"},
      {"\x80", "\uFFFD"},
      {"a\xFF"
       "b",
       "a\uFFFD"
       "b"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},                      // overlong, two bytes
      {"\xE0\x80\xAF", "\uFFFD\uFFFD\uFFFD"},            // overlong, three
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // past U+10FFFF
      {"\xF0\x9F\x90", "\uFFFD"},                        // cut short: one
      {"\xF0\x9F\x90z", "\uFFFDz"},
      {"\xE6\xA8\xE6\xA8\xA1", "\uFFFD\xE6\xA8\xA1"},
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},  // the last code point
      {"\xED\x9F\xBF\xEE\x80\x80", "\xED\x9F\xBF\xEE\x80\x80"},
      {"\xF5\x80", "\uFFFD\uFFFD"},
  };
  for (const Example& example : examples)
    CHECK(replace_malformed_utf8(example.bytes) == example.text);
}

std::string random_bytes(std::mt19937& random) {
  constexpr std::string_view kParts[] = {"a",
                                         "\xC3\xA9",
                                         "\xE6\xA8\xA1",
                                         "\xF0\x9F\x90\x9F",
                                         "\xED",
                                         "\xA0",
                                         "\xE0",
                                         "\x80",
                                         "\xF4",
                                         "\x90",
                                         "\xC0",
                                         "\xFF",
                                         "\xF0\x9F",
                                         "\xE6\xA8"};
  std::string bytes;
  for (std::size_t parts = random() % 12; parts > 0; --parts)
    bytes += kParts[random() % std::size(kParts)];
  return bytes;
}

TEST_CASE("the text of a stream does not depend on where it was cut") {
  const unsigned seed = 42;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const std::string bytes = random_bytes(random);
    Utf8Carry carry;
    std::string text;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = 1 + random() % rest.size();
      carry.push(rest.substr(0, size), text);
      rest.remove_prefix(size);
      CHECK(carry.held().size() <= 3);
      CHECK(replace_malformed_utf8(text) == text);
    }
    carry.flush(text);
    CHECK(text == replace_malformed_utf8(bytes));
  }
}

TEST_CASE("whole characters leave at once, incomplete ones wait") {
  Utf8Carry carry;
  std::string text;
  carry.push("a\xE6\xA8", text);
  CHECK(text == "a");
  CHECK(carry.held() == "\xE6\xA8");
  carry.push(
      "\xA1"
      "b",
      text);
  CHECK(text ==
        "a\xE6\xA8\xA1"
        "b");
  CHECK(carry.held().empty());
}

TEST_CASE("the end of a stream reports or drops an incomplete character") {
  Utf8Carry carry;
  std::string text;
  CHECK_FALSE(carry.flush(text));
  carry.push("x\xF0\x9F", text);
  CHECK(carry.flush(text));
  CHECK(text == "x\uFFFD");
  carry.push("\xF0", text);
  CHECK(carry.drop());
  CHECK_FALSE(carry.drop());
  carry.push("y", text);
  CHECK(text == "x\uFFFDy");
}

}  // namespace
}  // namespace shoal
