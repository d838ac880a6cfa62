// Splits bytes into whole, malformed and incomplete UTF-8 sequences by the WHATWG decoder's rules.
#include "actors/codec/tokenizer_utf8.h"

#include <cstddef>
#include <cstdint>

namespace shoal {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class SequenceKind : std::uint8_t { kWhole, kMalformed, kIncomplete };

struct Sequence {
  SequenceKind kind;
  std::size_t size;
};

// What may follow a first byte: how many bytes, and the bounds of the first of them, which keep out
// overlong forms, surrogates and code points past U+10FFFF. Later ones are always 0x80-0xBF.
struct Continuation {
  std::size_t count = 0;
  unsigned char lowest = 0x80;
  unsigned char highest = 0xBF;
};

Continuation continuation_of(unsigned char first) {
  if (first >= 0xC2 && first <= 0xDF)
    return {1};
  if (first == 0xE0)
    return {2, 0xA0};
  if (first == 0xED)
    return {2, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF)
    return {2};
  if (first == 0xF0)
    return {3, 0x90};
  if (first >= 0xF1 && first <= 0xF3)
    return {3};
  if (first == 0xF4)
    return {3, 0x80, 0x8F};
  return {};
}

Sequence first_sequence(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80)
    return {SequenceKind::kWhole, 1};
  Continuation allowed = continuation_of(first);
  if (allowed.count == 0)
    return {SequenceKind::kMalformed, 1};
  for (std::size_t i = 1; i <= allowed.count; ++i) {
    if (i == bytes.size())
      return {SequenceKind::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < allowed.lowest || byte > allowed.highest)
      return {SequenceKind::kMalformed, i};
    allowed.lowest = 0x80;
    allowed.highest = 0xBF;
  }
  return {SequenceKind::kWhole, allowed.count + 1};
}

// Appends all that is decided and returns the incomplete rest.
std::string_view append_decided(std::string_view bytes, std::string& text) {
  std::size_t copied = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Sequence sequence = first_sequence(bytes.substr(at));
    if (sequence.kind == SequenceKind::kIncomplete)
      break;
    if (sequence.kind == SequenceKind::kMalformed) {
      text.append(bytes, copied, at - copied).append(kReplacement);
      copied = at + sequence.size;
    }
    at += sequence.size;
  }
  text.append(bytes, copied, at - copied);
  return bytes.substr(at);
}

}  // namespace

std::string replace_malformed_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (!append_decided(bytes, text).empty())
    text.append(kReplacement);
  return text;
}

void Utf8Carry::push(std::string_view bytes, std::string& text) {
  if (held_.empty()) {
    held_ = append_decided(bytes, text);
    return;
  }
  const std::string joined = held_.append(bytes);
  held_ = append_decided(joined, text);
}

bool Utf8Carry::flush(std::string& text) {
  const bool incomplete = drop();
  if (incomplete)
    text.append(kReplacement);
  return incomplete;
}

bool Utf8Carry::drop() {
  const bool incomplete = !held_.empty();
  held_.clear();
  return incomplete;
}

}  // namespace shoal
