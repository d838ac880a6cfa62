// Finds stop strings in text that arrives byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace shoal {

// The string that is complete first wins; of those complete at the same byte, the first of the
// list. One step costs O(strings) on average.
class StopMatcher {
 public:
  explicit StopMatcher(const std::vector<std::string>& strings);

  // The index of the string that ends with this byte.
  std::optional<std::size_t> step(char byte);

  std::size_t length(std::size_t index) const { return patterns_[index].text.size(); }

  // How many of the last bytes may still become a stop string.
  std::size_t partial() const;
  void reset();

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t>
        border;  // border[n] = longest proper prefix of text[0, n) that is also its suffix
    std::size_t matched = 0;
  };

  std::vector<Pattern> patterns_;
};

}  // namespace shoal
