// Chains of keys over the tokens that a submission brings.
#include "actors/kv_names.h"

#include <algorithm>
#include <cstring>

#include "actors/policy/draw.h"
#include "schemas/check.h"

namespace shoal {

TokenId token_at(const Submission& submission, Position position) {
  const auto place = static_cast<std::size_t>(position);
  const std::size_t prompt = submission.prompt->size();
  return place < prompt ? (*submission.prompt)[place] : submission.forced[place - prompt];
}

KvNames name_blocks(const BlockKey& root, const Submission& submission) {
  if (submission.forced.empty()) {
    return {root, block_keys(root, *submission.prompt)};
  }
  std::vector<TokenId> tokens = *submission.prompt;
  tokens.insert(tokens.end(), submission.forced.begin(), submission.forced.end());
  return {root, block_keys(root, tokens)};
}

KvChain chain_of(const KvNames& names, const Submission& submission, std::uint64_t lineage) {
  KvChain chain;
  chain.last = names.keys.empty() ? names.root : names.keys.back();
  chain.first = names.keys.empty() ? std::nullopt : std::optional(names.keys.front());
  chain.lineage = lineage;
  const auto total = static_cast<Position>(submission.prompt->size() + submission.forced.size());
  for (Position p = std::ssize(names.keys) * kBlockTokens; p < total; ++p) {
    chain.open.push_back(token_at(submission, p));
  }
  return chain;
}

std::optional<KvBlock> extend(KvChain& chain, TokenId token) {
  chain.open.push_back(token);
  KvBlock block;
  if (chain.open.size() < block.tokens.size()) {
    return std::nullopt;
  }
  std::copy_n(chain.open.begin(), block.tokens.size(), block.tokens.begin());
  block.parent = chain.last;
  block.key = next_key(block.parent, block.tokens);
  chain.first = chain.first.value_or(block.key);
  chain.last = block.key;
  chain.open.clear();
  return block;
}

Provenance provenance_of(const Basis& basis) {
  const bool exact = basis.mode == BasisMode::kExact || basis.hit == 0;
  return exact ? Provenance::kExact : Provenance::kBounded;
}

KvBlock header_of(const KvNames& names, const Submission& submission, std::size_t number) {
  CHECK(number < names.keys.size());
  KvBlock block;
  block.key = names.keys[number];
  block.parent = number == 0 ? names.root : names.keys[number - 1];
  block.number = static_cast<std::uint32_t>(number);
  block.ttl = submission.ttl;
  const auto first = static_cast<Position>(number) * kBlockTokens;
  for (std::size_t i = 0; i < block.tokens.size(); ++i) {
    block.tokens[i] = token_at(submission, first + static_cast<Position>(i));
  }
  return block;
}

// A key is as good as random and stands for all tokens up to its block.
std::uint64_t next_lineage(std::uint64_t before,
                           const BlockKey& key,
                           Provenance provenance,
                           std::uint32_t crc) {
  std::uint64_t name = 0;
  std::memcpy(&name, key.bytes.data(), sizeof name);
  const std::uint64_t record =
      std::uint64_t{crc} << 1 | (provenance == Provenance::kBounded ? 1 : 0);
  return Draw(Draw(before ^ name).next() ^ record).next();
}

std::vector<std::uint64_t> lineages_of(std::span<const BlockKey> keys,
                                       std::span<const transport::BlockInfo> infos) {
  CHECK(keys.size() == infos.size());
  std::vector<std::uint64_t> lineages{0};
  lineages.reserve(keys.size() + 1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    lineages.push_back(next_lineage(lineages.back(), keys[i], infos[i].provenance, infos[i].crc));
  }
  return lineages;
}

std::uint64_t lineage_of(std::span<const BlockKey> keys,
                         std::span<const transport::BlockInfo> infos) {
  return lineages_of(keys, infos).back();
}

}  // namespace shoal
