// Copies runs that need no escape in one go; the rest is one table look-up a byte.
#include "actors/codec/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace shoal {
namespace {

// For each byte: 0 = as it is, 'u' = \u00XX, else the letter after the backslash.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> table{};
  for (int byte = 0; byte < 0x20; ++byte)
    table[static_cast<std::size_t>(byte)] = 'u';
  table['"'] = '"';
  table['\\'] = '\\';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  return table;
}

constexpr std::array<char, 256> kEscapes = make_escapes();

constexpr std::uint64_t repeat(std::uint64_t byte) {
  return byte * 0x0101010101010101ULL;
}

// False when none of the eight bytes needs an escape. It may be true without need (a borrow between
// bytes), never the reverse.
bool may_need_escape(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  const auto has_zero = [](std::uint64_t v) { return (v - repeat(0x01)) & ~v & repeat(0x80); };
  const std::uint64_t control = (word - repeat(0x20)) & ~word & repeat(0x80);
  return (control | has_zero(word ^ repeat('"')) | has_zero(word ^ repeat('\\'))) != 0;
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const char* at = text.data();
  const char* const end = at + text.size();
  const char* run = at;
  while (at != end) {
    if (end - at >= 8 && !may_need_escape(at)) {
      at += 8;
      continue;
    }
    const auto byte = static_cast<unsigned char>(*at);
    const char escape = kEscapes[byte];
    if (escape == 0) {
      ++at;
      continue;
    }
    out.append(run, at);
    if (escape == 'u') {
      const char hex[] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      out.append(hex, sizeof hex);
    } else {
      out += '\\';
      out += escape;
    }
    run = ++at;
  }
  out.append(run, end);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

void append_json_int(std::string& out, std::int64_t value) {
  char buffer[24];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

void append_json_float(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[48];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

}  // namespace shoal
