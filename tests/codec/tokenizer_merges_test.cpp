// Checks the merge engines against the definition of byte-pair encoding, on made-up vocabularies.
#include "actors/codec/tokenizer_merges.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/codec/tokenizer_backtrack.h"

namespace shoal {
namespace {

// The definition: of all neighbouring pairs join the one of the lowest rank, the leftmost first,
// until none can be joined.
std::vector<Symbol> merge_by_definition(const std::vector<Merge>& merges,
                                        const std::string& piece) {
  std::vector<Symbol> symbols;
  for (const char c : piece)
    symbols.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::size_t best_rank = merges.size();
    std::size_t best_at = 0;
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left != symbols[at] || merges[rank].right != symbols[at + 1])
          continue;
        best_rank = rank;
        best_at = at;
      }
    }
    if (best_rank == merges.size())
      return symbols;
    symbols[best_at] = merges[best_rank].product;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

struct Vocabulary {
  std::vector<Merge> merges;
  std::vector<std::string> bytes;  // by symbol

  std::vector<std::string_view> views() const { return {bytes.begin(), bytes.end()}; }
};

Vocabulary bytes_only() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.bytes.emplace_back(1, static_cast<char>(byte));
  return vocabulary;
}

// As training makes them: each merge joins older symbols, makes new bytes, and its product can be
// reached.
Vocabulary random_vocabulary(std::mt19937& random, int letters, std::size_t size) {
  Vocabulary vocabulary = bytes_only();
  std::vector<Symbol> usable;
  for (int letter = 0; letter < letters; ++letter)
    usable.push_back(static_cast<Symbol>('a' + letter));
  std::set<std::string> known(vocabulary.bytes.begin(), vocabulary.bytes.end());
  for (int tries = 0; tries < 4000 && vocabulary.merges.size() < size; ++tries) {
    const Symbol left = usable[random() % usable.size()];
    const Symbol right = usable[random() % usable.size()];
    const std::string joined = vocabulary.bytes[left] + vocabulary.bytes[right];
    if (joined.size() > 12 || known.contains(joined))
      continue;
    const auto product = static_cast<Symbol>(vocabulary.bytes.size());
    vocabulary.merges.push_back({left, right, product});
    if (merge_by_definition(vocabulary.merges, joined) != std::vector<Symbol>{product}) {
      vocabulary.merges.pop_back();
      continue;
    }
    vocabulary.bytes.push_back(joined);
    known.insert(joined);
    usable.push_back(product);
  }
  return vocabulary;
}

std::string random_text(std::mt19937& random, int letters, std::size_t size) {
  std::string text;
  while (text.size() < size)
    text += static_cast<char>('a' + random() % static_cast<unsigned>(letters));
  return text;
}

TEST_CASE("both merge engines give what the definition gives, for random vocabularies and texts") {
  const unsigned seed = 16;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const Vocabulary vocabulary = random_vocabulary(random, letters, 10 + random() % 60);
    const MergeTable table(vocabulary.merges);
    REQUIRE(BacktrackEncoder::fits(table));
    const BacktrackEncoder backtrack(table, vocabulary.views());
    BacktrackEncoder::Scratch scratch;
    RankEncoder by_rank(table);
    for (int text_number = 0; text_number < 40; ++text_number) {
      const std::string text = random_text(random, letters, 1 + random() % 100);
      CAPTURE(text);
      const std::vector<Symbol> expected = merge_by_definition(vocabulary.merges, text);
      std::vector<Symbol> ranked;
      by_rank.encode(text, ranked);
      CHECK(ranked == expected);
      std::vector<Symbol> searched;
      backtrack.encode(text, scratch, searched);
      CHECK(searched == expected);
    }
  }
}

TEST_CASE("merging by rank is exact for any merge list, whatever its order") {
  const unsigned seed = 17;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    Vocabulary vocabulary = random_vocabulary(random, 3, 40);
    std::shuffle(vocabulary.merges.begin(), vocabulary.merges.end(), random);
    const MergeTable table(vocabulary.merges);
    RankEncoder by_rank(table);
    for (int text_number = 0; text_number < 40; ++text_number) {
      const std::string text = random_text(random, 3, 1 + random() % 60);
      CAPTURE(text);
      std::vector<Symbol> ranked;
      by_rank.encode(text, ranked);
      CHECK(ranked == merge_by_definition(vocabulary.merges, text));
    }
  }
}

TEST_CASE(
    "the linear engine is offered only where parts are older than products and products are "
    "unique") {
  CHECK(BacktrackEncoder::fits(MergeTable({{'a', 'b', 256}, {256, 'c', 257}})));
  CHECK_FALSE(BacktrackEncoder::fits(MergeTable({{257, 'c', 256}, {'a', 'b', 257}})));
  CHECK_FALSE(BacktrackEncoder::fits(MergeTable({{'a', 'b', 256}, {'a', 'b', 256}})));
  CHECK_FALSE(BacktrackEncoder::fits(MergeTable({{'a', 258, 256}, {'a', 'b', 257}})));
}

TEST_CASE("a pair that no merge joins has no rank") {
  const MergeTable table({{'a', 'b', 256}, {256, 'c', 257}});
  CHECK(table.rank('a', 'b') == 0);
  CHECK(table.rank(256, 'c') == 1);
  CHECK(table.rank('b', 'a') == kNoRank);
  CHECK(table.rank(257, 257) == kNoRank);
  CHECK(MergeTable({}).rank('a', 'b') == kNoRank);
}

}  // namespace
}  // namespace shoal
