// Lays a sorted list of strings out as a double array, breadth first.
#include "actors/codec/tokenizer_trie.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shoal {

class ByteTrieBuilder {
 public:
  ByteTrieBuilder(ByteTrie& trie, std::vector<ByteTrie::Entry> entries)
      : trie_(trie),
        entries_(std::move(entries)) {
    std::sort(entries_.begin(),
              entries_.end(),
              [](const ByteTrie::Entry& a, const ByteTrie::Entry& b) { return a.bytes < b.bytes; });
  }

  void build() {
    grow_to(kBlock);
    cursor_.fill(kBlock);
    trie_.root_base_ = place_children({0, entries_.size(), 0, 0}, kNoNode);
    for (std::size_t next = 0; next < ranges_.size(); ++next) {
      const Range range = ranges_[next];
      trie_.nodes_[range.node].base = place_children(range, range.node);
    }
  }

 private:
  static constexpr std::size_t kBlock = 256;
  static constexpr std::uint32_t kNoNode = ~0u;

  // Entries that share the first `depth` bytes, which lead to `node`.
  struct Range {
    std::size_t first;
    std::size_t end;
    std::size_t depth;
    std::uint32_t node;
  };

  void grow_to(std::size_t size) {
    trie_.nodes_.resize(size);
    base_taken_.resize(size, false);
  }

  bool fits(std::size_t base) const {
    return !base_taken_[base] &&
           std::all_of(labels_.begin(), labels_.end(), [&](unsigned char label) {
             return trie_.nodes_[base ^ label].label_and_value == 0;
           });
  }

  // A base and its children share a block, for a label is below 256; the first block is kept free,
  // see ByteTrie::Node. A base at which one set of so many labels did not fit is not tried for
  // others of that size: the search is linear and leaves few holes, as the many only children fill
  // them.
  std::uint32_t find_base() {
    for (std::size_t& base = cursor_[labels_.size()];; ++base) {
      if (base == trie_.nodes_.size())
        grow_to(base + kBlock);
      if (fits(base))
        return static_cast<std::uint32_t>(base);
    }
  }

  // Returns the base of the range's children, 0 when there are none.
  std::uint32_t place_children(Range range, std::uint32_t node) {
    if (node != kNoNode && entries_[range.first].bytes.size() == range.depth) {
      trie_.nodes_[node].label_and_value |= (entries_[range.first].value + 1)
                                            << ByteTrie::kLabelBits;
      while (range.first < range.end && entries_[range.first].bytes.size() == range.depth)
        ++range.first;
    }
    if (range.first == range.end)
      return 0;
    const auto label_at = [&](std::size_t entry) {
      return static_cast<unsigned char>(entries_[entry].bytes[range.depth]);
    };
    labels_.clear();
    for (std::size_t i = range.first; i < range.end; ++i) {
      if (i == range.first || label_at(i) != labels_.back())
        labels_.push_back(label_at(i));
    }
    const std::uint32_t base = find_base();
    base_taken_[base] = true;
    std::size_t first = range.first;
    for (const unsigned char label : labels_) {
      std::size_t end = first;
      while (end < range.end && label_at(end) == label)
        ++end;
      const auto child = static_cast<std::uint32_t>(base ^ label);
      trie_.nodes_[child].label_and_value = label + 1u;
      ranges_.push_back({first, end, range.depth + 1, child});
      first = end;
    }
    return base;
  }

  ByteTrie& trie_;
  std::vector<ByteTrie::Entry> entries_;
  std::vector<Range> ranges_;
  std::vector<bool> base_taken_;
  std::vector<unsigned char> labels_;             // of the children being placed, ascending
  std::array<std::size_t, kBlock + 1> cursor_{};  // by number of labels, the base to try first
};

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  ByteTrieBuilder(*this, std::move(entries)).build();
}

}  // namespace shoal
