// Finds the longest of a fixed set of byte strings at the start of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shoal {

// Immutable double array: a child's place is its parent's base XOR the byte, so a step is one load
// of 8 bytes.
class ByteTrie {
 public:
  struct Entry {
    std::string_view bytes;   // not empty; views need to live only until the constructor returns
    std::uint32_t value = 0;  // below 2^23 - 1
  };

  static constexpr std::uint32_t kNone = ~0u;

  ByteTrie() : ByteTrie(std::vector<Entry>{}) {}

  explicit ByteTrie(std::vector<Entry> entries);

  // Value of the longest entry that `text` starts with, or kNone.
  std::uint32_t longest(std::string_view text) const {
    std::uint32_t found = 0;
    std::uint32_t base = root_base_;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const Node& node = nodes_[base ^ byte];
      if ((node.label_and_value & kLabelMask) != byte + 1u)
        break;
      if (const std::uint32_t value = node.label_and_value >> kLabelBits; value != 0)
        found = value;
      base = node.base;
    }
    return found - 1;
  }

 private:
  static constexpr std::uint32_t kLabelBits = 9;
  static constexpr std::uint32_t kLabelMask = (1u << kLabelBits) - 1;

  // Label: byte + 1, 0 for a free place. Value: the entry's + 1, 0 for none. No two nodes with
  // children share a base, so the label alone tells whose child this is. A leaf's base is 0, the
  // first block, which stays free.
  struct Node {
    std::uint32_t base = 0;
    std::uint32_t label_and_value = 0;
  };
  friend class ByteTrieBuilder;

  std::vector<Node> nodes_;
  std::uint32_t root_base_ = 0;
};

}  // namespace shoal
