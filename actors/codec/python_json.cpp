// Python's number format: shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
#include "actors/codec/python_json.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

bool fits_64_bits(std::string_view integer) {
  const char* const end = integer.data() + integer.size();
  if (integer.starts_with('-')) {
    std::int64_t value = 0;
    const auto result = std::from_chars(integer.data(), end, value);
    return result.ec == std::errc{} && value != 0;
  }
  std::uint64_t value = 0;
  return std::from_chars(integer.data(), end, value).ec == std::errc{};
}

// `digits` without a point, value = 0.d1d2d3... * 10^(exponent + 1).
void append_float(std::string& out, std::string_view digits, int exponent) {
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) {
      out += '.';
      out += digits.substr(1);
    }
    out += exponent < 0 ? "e-" : "e+";
    const int magnitude = exponent < 0 ? -exponent : exponent;
    if (magnitude < 10)
      out += '0';
    append_json_int(out, magnitude);
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += digits;
  } else if (count <= exponent + 1) {
    out += digits;
    out.append(static_cast<std::size_t>(exponent + 1 - count), '0');
    out += ".0";
  } else {
    const auto point = static_cast<std::size_t>(exponent + 1);
    out += digits.substr(0, point);
    out += '.';
    out += digits.substr(point);
  }
}

void append_number(std::string& out, std::string_view number) {
  if (number.find_first_of(".eE") == number.npos && fits_64_bits(number)) {
    out += number;
    return;
  }
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  char buffer[40];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  if (text.starts_with('-')) {
    out += '-';
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  const std::string_view exponent_text = text.substr(mark + (text[mark + 1] == '+' ? 2 : 1));
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string digits(text.substr(0, mark));
  if (digits.size() > 1)
    digits.erase(1, 1);
  append_float(out, digits, exponent);
}

}  // namespace

void append_python_json(std::string& out, const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      out += "null";
      return;
    case JsonValue::Kind::kBool:
      out += value.boolean ? "true" : "false";
      return;
    case JsonValue::Kind::kNumber:
      append_number(out, value.text);
      return;
    case JsonValue::Kind::kString:
      append_json_string(out, value.text);
      return;
    case JsonValue::Kind::kArray: {
      out += '[';
      std::string_view separator;
      for (const JsonValue& item : value.items) {
        out += separator;
        append_python_json(out, item);
        separator = ", ";
      }
      out += ']';
      return;
    }
    case JsonValue::Kind::kObject: {
      out += '{';
      std::string_view separator;
      for (const JsonMember& member : value.members) {
        out += separator;
        append_json_string(out, member.name);
        out += ": ";
        append_python_json(out, member.value);
        separator = ", ";
      }
      out += '}';
      return;
    }
  }
}

std::string python_json(const JsonValue& value) {
  std::string out;
  append_python_json(out, value);
  return out;
}

}  // namespace shoal
