// Block layout from the config, and the free lists of blocks and sequence slots.
#include "kernels/kv_arena.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

#include "kernels/formats.h"
#include "schemas/check.h"

namespace shoal::kernels {

KvLayout::KvLayout(const ModelConfig& config)
    : main_row(main_row_bytes(config.head_dim)),
      index_row(index_row_bytes(config.index_dim)) {
  for (const int layer : config.kv_sources) {
    SourceLayout source;
    source.layer = layer;
    source.ratio = config.ratios[static_cast<std::size_t>(layer)];
    source.entries = kBlockTokens / source.ratio;
    source.main_offset = block_bytes;
    source.index_offset = block_bytes + source.entries * main_row;
    block_bytes = source.index_offset + source.entries * index_row;
    sources.push_back(source);
  }
}

const SourceLayout& KvLayout::of(int layer) const {
  const auto it = std::find_if(
      sources.begin(), sources.end(), [layer](const SourceLayout& s) { return s.layer == layer; });
  CHECK(it != sources.end());
  return *it;
}

std::string block_layout(const KvLayout& layout) {
  std::string out = "main " + std::to_string(layout.main_row) + " B, index " +
                    std::to_string(layout.index_row) + " B, sources";
  for (const SourceLayout& source : layout.sources) {
    out += " " + std::to_string(source.layer) + "/" + std::to_string(source.ratio);
  }
  return out;
}

void KvArena::Unmap::operator()(std::byte* memory) const {
  ::munmap(memory, bytes);
}

KvArena::KvArena(const ModelConfig& config, std::int64_t blocks, std::int64_t sequences)
    : layout_(config),
      block_count_(blocks),
      sequence_count_(sequences) {
  CHECK(blocks > 0 && sequences > 0);
  // Pages are touched when a block is first written, so a generous ceiling costs address space
  // only.
  const auto bytes = static_cast<std::size_t>(blocks * layout_.block_bytes);
  void* memory = ::mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  memory_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(memory), Unmap{bytes});
  for (std::int64_t b = blocks; b-- > 0;) {
    free_blocks_.push_back(BlockId{static_cast<std::uint32_t>(b)});
  }
  for (std::int64_t s = sequences; s-- > 0;) {
    free_sequences_.push_back(SequenceId{static_cast<std::uint32_t>(s)});
  }
}

void KvArena::read(BlockId id, std::span<std::byte> out) const {
  CHECK(static_cast<std::int64_t>(out.size()) == layout_.block_bytes);
  std::memcpy(out.data(), block(id), out.size());
}

void KvArena::write(BlockId id, std::span<const std::byte> bytes) {
  CHECK(static_cast<std::int64_t>(bytes.size()) == layout_.block_bytes);
  std::memcpy(block(id), bytes.data(), bytes.size());
}

std::optional<std::vector<BlockId>> KvArena::take_blocks(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  if (count < 0 || count > static_cast<std::int64_t>(free_blocks_.size())) {
    return std::nullopt;
  }
  std::vector<BlockId> taken(free_blocks_.end() - count, free_blocks_.end());
  free_blocks_.resize(free_blocks_.size() - static_cast<std::size_t>(count));
  return taken;
}

void KvArena::give_blocks(std::span<const BlockId> blocks) {
  const std::lock_guard lock(mutex_);
  free_blocks_.insert(free_blocks_.end(), blocks.begin(), blocks.end());
  CHECK(static_cast<std::int64_t>(free_blocks_.size()) <= block_count_);
}

std::optional<SequenceId> KvArena::take_sequence() {
  const std::lock_guard lock(mutex_);
  if (free_sequences_.empty()) {
    return std::nullopt;
  }
  const SequenceId id = free_sequences_.back();
  free_sequences_.pop_back();
  return id;
}

void KvArena::give_sequence(SequenceId id) {
  const std::lock_guard lock(mutex_);
  free_sequences_.push_back(id);
  CHECK(static_cast<std::int64_t>(free_sequences_.size()) <= sequence_count_);
}

std::int64_t KvArena::free_blocks() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(free_blocks_.size());
}

std::int64_t KvArena::free_sequences() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(free_sequences_.size());
}

}  // namespace shoal::kernels
