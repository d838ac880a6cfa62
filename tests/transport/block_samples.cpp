// Blocks whose tokens come from a seed and whose payloads come from their keys.
#include "tests/transport/block_samples.h"

#include <algorithm>

#include "tests/transport/waits.h"

namespace shoal::testing {

BlockChain make_chain(std::uint64_t seed, const ChainShape& shape) {
  BlockChain chain;
  BlockKey parent = root_key({"model", "weights", "layout", "tokenizer", ""});
  for (std::size_t i = 0; i < shape.blocks; ++i) {
    KvBlock block;
    for (std::size_t t = 0; t < block.tokens.size(); ++t) {
      block.tokens[t] = static_cast<TokenId>((seed * 1'009 + i * 131 + t) % 100'000);
    }
    block.tokens[0] = static_cast<TokenId>(seed % 65'536);
    block.tokens[1] = static_cast<TokenId>(seed / 65'536);
    block.parent = parent;
    block.key = parent = next_key(parent, block.tokens);
    block.number = static_cast<std::uint32_t>(i);
    block.layout = 77;
    block.provenance = shape.provenance;
    block.ttl = shape.ttl;
    std::vector<std::byte> payload(shape.payload);
    for (std::size_t b = 0; b < payload.size(); ++b) {
      payload[b] = block.key.bytes[b % 32] ^ static_cast<std::byte>(b / 32);
    }
    if (shape.provenance == Provenance::kBounded && !payload.empty()) {
      payload[0] ^= std::byte{255};
    }
    chain.keys.push_back(block.key);
    chain.wanted.push_back({block.key, block.parent, block.layout});
    chain.records.push_back(make_kv_record(block, payload));
    chain.payloads.push_back(std::move(payload));
  }
  return chain;
}

transport::BlockStoreParams block_params() {
  transport::BlockStoreParams params;
  params.now = clock_now;
  params.wall = [] { return WallMillis{1'780'000'000'000}; };
  params.policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  params.writer = IncarnationId{1};
  return params;
}

std::vector<Result<void>> put(transport::BlockStore& store, const BlockChain& chain) {
  Inbox<std::vector<Result<void>>> answers;
  store.put(chain.records,
            [&answers](std::vector<Result<void>> results) { answers.put(std::move(results)); });
  return answers.wait(1).at(0);
}

std::vector<transport::Loaded> get(transport::BlockStore& store,
                                   const std::vector<KvWanted>& wanted) {
  Inbox<std::vector<transport::Loaded>> answers;
  store.get(wanted, later(), [&answers](std::vector<transport::Loaded> results) {
    answers.put(std::move(results));
  });
  return answers.wait(1).at(0);
}

std::size_t equal(const std::vector<transport::Loaded>& loaded, const BlockChain& chain) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    count += loaded[i].has_value() && **loaded[i] == chain.payloads[i];
  }
  return count;
}

std::size_t loaded(transport::BlockStore& store, const BlockChain& chain) {
  return equal(get(store, chain.wanted), chain);
}

}  // namespace shoal::testing
