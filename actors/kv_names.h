// How the blocks of a sequence are named in the KV store, and where their names go on as it grows.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/front_door.h"
#include "kernels/launch_queue.h"
#include "schemas/basis.h"
#include "schemas/block_key.h"
#include "schemas/ids.h"
#include "schemas/kv_record.h"
#include "transport/block_store.h"

namespace shoal {

// Where KV outlives its request, and what must be equal to share it, but for the tenant.
struct KvParts {
  transport::BlockStore* store = nullptr;  // stopped by Node::shut_down
  KvIdentity identity{};
  std::function<WallMillis()> wall{};  // of the store
};

struct KvNames {
  BlockKey root;
  // Of all full blocks of prompt and forced tokens. Left out on the way to another process.
  std::vector<BlockKey> keys{};
};

using KvNamesPtr = std::shared_ptr<const KvNames>;

// The end of a sequence's names.
struct KvChain {
  BlockKey last;                    // of the last full block, or the root
  std::vector<TokenId> open{};      // the tokens behind it, less than a block
  std::optional<BlockKey> first{};  // none: there is no full block
  std::uint64_t lineage = 0;        // of the full blocks, as the sequence took and computed them
};

// On its way to the store. The header lacks what is the same for all blocks of a node.
struct SavedBlock {
  BlockKey root;  // whose it is
  KvBlock header;
  kernels::BlockBytes bytes;
};

// Prompt and forced tokens.
TokenId token_at(const Submission& submission, Position position);

KvNames name_blocks(const BlockKey& root, const Submission& submission);

// After prompt and forced tokens, whose blocks have that lineage.
KvChain chain_of(const KvNames& names, const Submission& submission, std::uint64_t lineage);

// Adds the next token; the header of the block that it completes, whose lineage is left to add.
std::optional<KvBlock> extend(KvChain& chain, TokenId token);

// Of all blocks that are computed under `basis`.
Provenance provenance_of(const Basis& basis);

// Block `number` of the prompt and forced tokens.
KvBlock header_of(const KvNames& names, const Submission& submission, std::size_t number);

// What a request that starts behind these blocks depends on: goes on from block to block, from 0.
std::uint64_t next_lineage(std::uint64_t before,
                           const BlockKey& key,
                           Provenance provenance,
                           std::uint32_t crc);
// Behind none of these blocks, the first, and so on.
std::vector<std::uint64_t> lineages_of(std::span<const BlockKey> keys,
                                       std::span<const transport::BlockInfo> infos);
std::uint64_t lineage_of(std::span<const BlockKey> keys,
                         std::span<const transport::BlockInfo> infos);

}  // namespace shoal
