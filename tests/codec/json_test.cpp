// JSON in: everything odd is refused or repaired as promised. JSON out: escapes and Python's
// numbers.
#include <doctest/doctest.h>
#include <random>
#include <string>

#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"
#include "actors/codec/python_json.h"

namespace {

using shoal::python_json;
using shoal::read_json;

std::string printed(std::string_view text) {
  const auto value = read_json(text);
  return value ? python_json(*value) : "error: " + value.error().message;
}

bool refused(std::string_view text) {
  const auto value = read_json(text);
  return !value && value.error().code == shoal::Code::kInvalid;
}

}  // namespace

TEST_CASE("a document is read whole and printed like Python does") {
  CHECK(printed(R"({"a" :[1, 2.50,"x\n",null,true,false], "b":{}, "c":[]})") ==
        R"({"a": [1, 2.5, "x\n", null, true, false], "b": {}, "c": []})");
  CHECK(printed("\"s\"") == "\"s\"");
  CHECK(printed(" 5 ") == "5");
  CHECK(printed("null") == "null");
}

TEST_CASE(
    "a doubled name keeps the last value at the first position, in small and in large objects") {
  CHECK(printed(R"({"a":1,"b":2,"a":3})") == R"({"a": 3, "b": 2})");
  std::string large = "{";
  for (int i = 0; i < 40; ++i)
    large += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  large += R"("k0":"first","k39":"last"})";
  const auto value = read_json(large);
  REQUIRE(value);
  CHECK(value->members.size() == 40);
  CHECK(value->members.front().value.text == "first");
  CHECK(value->members.back().value.text == "last");
}

TEST_CASE("raw numbers survive: integers beyond 64 bits are no error") {
  const auto value = read_json(R"([18446744073709551616,-0,1e5])");
  REQUIRE(value);
  CHECK(value->items[0].text == "18446744073709551616");
  CHECK(value->items[1].text == "-0");
  CHECK(value->items[2].text == "1e5");
}

TEST_CASE("what is not JSON is refused, wherever it stands") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1,]",
                           "[,1]",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "{\"a\"}",
                           "{a:1}",
                           "{\"a\":1} x",
                           "{\"a\":1} {\"b\":2}",
                           "{\"a\":1},{}",
                           "[1 2]",
                           "[1x]",
                           "[01]",
                           "[+1]",
                           "[-]",
                           "[1.]",
                           "[.5]",
                           "[1e]",
                           "[0x10]",
                           "[NaN]",
                           "[nul]",
                           "[nulll]",
                           "[tru]",
                           "[truex]",
                           "[1e400]",
                           "[-1e999]",
                           "\xEF\xBB\xBF{}",
                           "[\"a]",
                           "[\"\\x\"]",
                           "[\"\\u12\"]",
                           "[\"tab\there\"]",
                           "1 2",
                           "\"a\" \"b\"",
                           "\"a\"x",
                           "[1]]",
                           "{]",
                           "[}",
                           "{\"a\":{\"b\":[1,{\"c\":nope}]}}",
                           "'a'",
                           "// c\n1"}) {
    CAPTURE(text);
    CHECK(refused(text));
  }
}

TEST_CASE("numbers too small for a double are zero, not an error") {
  CHECK(printed("[1e-400, 0.0]") == "[0.0, 0.0]");
}

TEST_CASE("invalid UTF-8 is named with line and column") {
  for (const std::string bad :
       {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE6\xBC"}) {
    const auto value = read_json("{\"a\":\n \"\xC3\xA9" + bad + "\"}");
    REQUIRE(!value);
    CHECK(value.error().message == "invalid JSON: invalid UTF-8 at line 2, column 4");
  }
}

TEST_CASE("the place of an error is named in characters") {
  const auto value = read_json("{\"é\":1,\n\"b\": nope}");
  REQUIRE(!value);
  CHECK(value.error().message == "invalid JSON: expected a value at line 2, column 6");
}

TEST_CASE("a document that ends too early is at fault at its end") {
  const auto ends_at = [](std::string_view text, std::string_view place) {
    CAPTURE(text);
    const auto value = read_json(text);
    REQUIRE(!value);
    CHECK(value.error().message.ends_with(place));
  };
  ends_at("{\"messages\": [", "expected a value at line 1, column 15");
  ends_at("{\"messages\": [\n", "expected a value at line 2, column 1");
  ends_at("{\"a\":", "expected a value at line 1, column 6");
  ends_at("{\"a\"", "at line 1, column 5");
  ends_at("{\"a\":1,\n", "at line 2, column 1");
  ends_at("{\"a\":\"x", "at line 1, column 8");
  ends_at("{", "at line 1, column 2");
  ends_at("[1,[", "at line 1, column 5");
}

TEST_CASE(
    "lone surrogate escapes are repaired, whole pairs and escaped backslashes are left alone") {
  CHECK(printed(R"(["\ud83d"])") == "[\"\uFFFD\"]");
  CHECK(printed(R"(["\udc00\ud800x\ud83d\ude00"])") == "[\"\uFFFD\uFFFDx😀\"]");
  CHECK(printed(R"(["\\ud83d","\ud800"])") == "[\"\\\\ud83d\", \"\uFFFD\"]");
  CHECK(printed(R"({"\ud83d":1})") == "{\"\uFFFD\": 1}");
  CHECK(!read_json(R"(["\ud83d"])", {.repair_lone_surrogates = false}));
}

TEST_CASE("nesting is bounded: 64 levels pass, 65 do not, 100,000 are a clean error") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(!refused(nested(64)));
  CHECK(refused(nested(65)));
  CHECK(refused(nested(100'000)));
  CHECK(refused(std::string(100'000, '[')));
  std::string objects;
  for (int i = 0; i < 100'000; ++i)
    objects += "{\"a\":";
  CHECK(refused(objects));
}

TEST_CASE("escapes are those of json.dumps, at every offset of the fast path") {
  for (std::size_t lead = 0; lead < 20; ++lead) {
    std::string out;
    shoal::append_json_string(
        out,
        std::string(lead, 'x') + std::string("\0\x1f\x7f\"\\/\b\f\n\r\té😀", 17) + "tail of text");
    std::string expected(1, '"');
    expected.append(lead, 'x');
    CHECK(out == expected + "\\u0000\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\té😀tail of text\"");
  }
}

TEST_CASE("what is written is read back, for random strings") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned length = random() % 40; length > 0; --length) {
      const char* const unusual[] = {"é", "漢", "😀", "\"", "\\", "\x7f", "\xE2\x80\xA8"};
      if (random() % 4 == 0)
        text += unusual[random() % 7];
      else
        text += static_cast<char>(random() % 127);
    }
    std::string json;
    shoal::append_json_string(json, text);
    const auto value = read_json(json);
    REQUIRE(value);
    REQUIRE(value->text == text);
  }
}

TEST_CASE("the number of values is bounded, so that a body of tiny ones cannot fill the memory") {
  const shoal::JsonReadOptions options = {.values_max = 1'000};
  CHECK(read_json("[0, 1, 2]", options));
  std::string many = "[0";
  for (int i = 0; i < 1'000; ++i)
    many += ",0";
  many += "]";
  const auto value = read_json(many, options);
  REQUIRE(!value);
  CHECK(value.error().message.find("more than 1000 values") != std::string::npos);
}
