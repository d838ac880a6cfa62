// Sequences of KV blocks for tests of the store, and calls that wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schemas/kv_record.h"
#include "transport/block_store_params.h"

namespace shoal::testing {

struct BlockChain {
  std::vector<BlockKey> keys;
  std::vector<KvWanted> wanted;
  std::vector<std::vector<std::byte>> records;
  std::vector<std::vector<std::byte>> payloads;
};

struct ChainShape {
  std::size_t blocks = 1;
  std::size_t payload = 3'000;
  TtlClass ttl = TtlClass::kChat;
  Provenance provenance = Provenance::kExact;
};

// Different seeds: different tokens from the first block on. Payloads follow from keys.
BlockChain make_chain(std::uint64_t seed, const ChainShape& shape = {});

// 2026, and everything is worth the time of its last use.
transport::BlockStoreParams block_params();

std::vector<Result<void>> put(transport::BlockStore& store, const BlockChain& chain);
std::vector<transport::Loaded> get(transport::BlockStore& store,
                                   const std::vector<KvWanted>& wanted);
// How many of the chain's blocks come back as they are.
std::size_t loaded(transport::BlockStore& store, const BlockChain& chain);
std::size_t equal(const std::vector<transport::Loaded>& loaded, const BlockChain& chain);

}  // namespace shoal::testing
