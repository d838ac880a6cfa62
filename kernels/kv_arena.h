// The device's KV memory: blocks of main KV and index keys, and one slot of per-sequence state per
// running sequence.
//
// Sizes are fixed at start (ceilings by contract); taking more than there is returns nothing.
// Thread-safe: the prefill and the decode worker of one device share it. Contents are written only
// by steps; a block or slot belongs to whoever took it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/model/config.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal::kernels {

// Where the entries of one KV source lie inside a block: main rows, then index keys.
struct SourceLayout {
  int layer = 0;
  int ratio = 1;
  std::int64_t entries = 0;  // per block: kBlockTokens / ratio
  std::int64_t main_offset = 0;
  std::int64_t index_offset = 0;
};

// Byte layout of one block of kBlockTokens tokens (V4.1-Flash: 113,920 B).
struct KvLayout {
  std::vector<SourceLayout> sources;
  std::int64_t main_row = 0;   // bytes of one main entry
  std::int64_t index_row = 0;  // bytes of one index key
  std::int64_t block_bytes = 0;

  explicit KvLayout(const ModelConfig& config);
  const SourceLayout& of(int layer) const;
};

// In words: equal texts, equal bytes.
std::string block_layout(const KvLayout& layout);

class KvArena {
 public:
  KvArena(const ModelConfig& config, std::int64_t blocks, std::int64_t sequences);

  const KvLayout& layout() const { return layout_; }

  std::byte* block(BlockId id) {
    return memory_.get() + static_cast<std::int64_t>(id.value) * layout_.block_bytes;
  }

  const std::byte* block(BlockId id) const {
    return memory_.get() + static_cast<std::int64_t>(id.value) * layout_.block_bytes;
  }

  void read(BlockId id, std::span<std::byte> out) const;
  void write(BlockId id, std::span<const std::byte> bytes);

  // All or nothing.
  std::optional<std::vector<BlockId>> take_blocks(std::int64_t count);
  void give_blocks(std::span<const BlockId> blocks);
  std::optional<SequenceId> take_sequence();
  void give_sequence(SequenceId id);

  std::int64_t blocks() const { return block_count_; }

  std::int64_t sequences() const { return sequence_count_; }

  std::int64_t free_blocks() const;
  std::int64_t free_sequences() const;

  Bytes bytes() const { return Bytes{block_count_ * layout_.block_bytes}; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };

  KvLayout layout_;
  std::int64_t block_count_;
  std::int64_t sequence_count_;
  std::unique_ptr<std::byte, Unmap> memory_;
  mutable std::mutex mutex_;
  std::vector<BlockId> free_blocks_;
  std::vector<SequenceId> free_sequences_;
};

}  // namespace shoal::kernels
