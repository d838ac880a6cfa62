// A block has one name, whether its tokens came with the prompt, as forced ones, or one by one.
#include "actors/kv_names.h"

#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <vector>

using namespace shoal;

namespace {

const BlockKey kRoot = root_key({"model", "weights", "layout", "tokenizer", "tenant"});

std::vector<TokenId> numbers(std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 5);
  return tokens;
}

// The first `prompt` of `tokens` as prompt, the others forced.
Submission split(const std::vector<TokenId>& tokens, std::ptrdiff_t prompt) {
  Submission submission;
  submission.prompt =
      std::make_shared<const std::vector<TokenId>>(tokens.begin(), tokens.begin() + prompt);
  submission.forced.assign(tokens.begin() + prompt, tokens.end());
  return submission;
}

}  // namespace

TEST_CASE("names do not depend on where the prompt ends") {
  const auto tokens = numbers(600);
  const KvNames whole = name_blocks(kRoot, split(tokens, 600));
  REQUIRE(whole.keys.size() == 4);
  for (const std::ptrdiff_t prompt : {1, 127, 128, 129, 512, 599}) {
    CAPTURE(prompt);
    CHECK(name_blocks(kRoot, split(tokens, prompt)).keys == whole.keys);
  }
}

TEST_CASE("token by token an answer names the blocks that the next prompt asks for") {
  const auto tokens = numbers(700);
  const KvNames next = name_blocks(kRoot, split(tokens, 700));
  for (const std::ptrdiff_t known : {1, 127, 128, 129, 300, 384}) {
    CAPTURE(known);
    const std::vector<TokenId> before(tokens.begin(), tokens.begin() + known);
    const Submission submission = split(before, known);
    KvChain chain = chain_of(name_blocks(kRoot, submission), submission, 9);
    auto number = static_cast<std::size_t>(known) / kBlockTokens;
    for (auto at = static_cast<std::size_t>(known); at < tokens.size(); ++at) {
      if (const auto block = extend(chain, tokens[at])) {
        REQUIRE(number < next.keys.size());
        const KvBlock asked = header_of(next, split(tokens, 700), number++);
        CHECK(block->key == asked.key);
        CHECK(block->parent == asked.parent);
        CHECK(block->tokens == asked.tokens);
      }
    }
    CHECK(number == next.keys.size());
    CHECK(chain.first == next.keys.front());
    CHECK(chain.last == next.keys.back());
    CHECK(chain.lineage == 9);
  }
}

TEST_CASE("a lineage tells blocks, their order, their provenance and their bytes apart") {
  const KvNames names = name_blocks(kRoot, split(numbers(300), 300));
  std::vector<transport::BlockInfo> infos = {{1, Provenance::kExact, TtlClass::kChat},
                                             {2, Provenance::kExact, TtlClass::kChat}};
  const std::uint64_t lineage = lineage_of(names.keys, infos);
  CHECK(lineage == lineage_of(names.keys, infos));
  infos[1].ttl = TtlClass::kAgent;
  CHECK(lineage_of(names.keys, infos) == lineage);
  infos[1].crc = 3;
  CHECK(lineage_of(names.keys, infos) != lineage);
  infos[1] = {2, Provenance::kBounded, TtlClass::kChat};
  CHECK(lineage_of(names.keys, infos) != lineage);
  CHECK(lineage_of({names.keys.data(), 1}, {infos.data(), 1}) != lineage);
  const std::vector<BlockKey> other = {names.keys[1], names.keys[0]};
  CHECK(lineage_of(other, infos) != lineage_of(names.keys, infos));
}

TEST_CASE("a lineage goes on from block to block") {
  const KvNames names = name_blocks(kRoot, split(numbers(600), 600));
  std::vector<transport::BlockInfo> infos;
  std::uint64_t lineage = 0;
  for (std::uint32_t b = 0; b < names.keys.size(); ++b) {
    infos.push_back({b, b < 2 ? Provenance::kExact : Provenance::kBounded, TtlClass::kChat});
    lineage = next_lineage(lineage, names.keys[b], infos.back().provenance, b);
    CHECK(lineage == lineage_of(std::span(names.keys).first(b + 1), infos));
    CHECK(lineage == lineages_of(std::span(names.keys).first(b + 1), infos).at(b + 1));
  }
}
