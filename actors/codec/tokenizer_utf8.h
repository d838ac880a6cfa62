// Turns raw token bytes into valid UTF-8: whole texts at once, or a stream cut at any byte.
#pragma once

#include <string>
#include <string_view>

namespace shoal {

// Each malformed sequence becomes one U+FFFD, as in WHATWG decoding: a maximal prefix of a
// well-formed character counts as one sequence, any other byte that cannot start or continue a
// character as one each.
std::string replace_malformed_utf8(std::string_view bytes);

// Holds back the bytes of a character that is not complete yet, at most 3. What it returns, joined,
// equals replace_malformed_utf8 of all bytes pushed, for every way of cutting them. One stream, one
// thread.
class Utf8Carry {
 public:
  // Appends to `text` every character that is decided by now.
  void push(std::string_view bytes, std::string& text);

  // The stream ended: an incomplete character becomes U+FFFD. True when there was one. Ready for
  // another stream afterwards.
  bool flush(std::string& text);

  // Forgets an incomplete character and says whether there was one.
  bool drop();

  std::string_view held() const { return held_; }

 private:
  std::string held_;
};

}  // namespace shoal
