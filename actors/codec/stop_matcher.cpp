// Knuth-Morris-Pratt, one automaton a string.
#include "actors/codec/stop_matcher.h"

#include <algorithm>

namespace shoal {

StopMatcher::StopMatcher(const std::vector<std::string>& strings) {
  for (const std::string& text : strings) {
    Pattern pattern{text, std::vector<std::size_t>(text.size() + 1, 0), 0};
    for (std::size_t end = 1, border = 0; end < text.size(); ++end) {
      while (border > 0 && text[end] != text[border])
        border = pattern.border[border];
      if (text[end] == text[border])
        ++border;
      pattern.border[end + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::optional<std::size_t> StopMatcher::step(char byte) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[i];
    while (pattern.matched > 0 && pattern.text[pattern.matched] != byte)
      pattern.matched = pattern.border[pattern.matched];
    if (pattern.text[pattern.matched] == byte)
      ++pattern.matched;
    if (pattern.matched < pattern.text.size())
      continue;
    if (!found)
      found = i;
    pattern.matched = pattern.border[pattern.matched];
  }
  return found;
}

std::size_t StopMatcher::partial() const {
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_)
    longest = std::max(longest, pattern.matched);
  return longest;
}

void StopMatcher::reset() {
  for (Pattern& pattern : patterns_)
    pattern.matched = 0;
}

}  // namespace shoal
