// Looks pairs up by hash, and merges with a heap over a linked list.
#include "actors/codec/tokenizer_merges.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr std::uint64_t kEmptySlot = ~std::uint64_t{0};
constexpr std::uint32_t kNoNode = ~0u;
constexpr Symbol kJoined = ~0u;  // symbol of a node that its left neighbour took in

}  // namespace

MergeTable::MergeTable(std::vector<Merge> merges) : merges_(std::move(merges)) {
  const std::size_t slots = std::bit_ceil(2 * merges_.size() + 2);
  const std::size_t filter_bits = std::max<std::size_t>(64, 8 * slots);
  slots_.assign(slots, kEmptySlot);
  filter_.assign(filter_bits / 64, 0);
  slot_shift_ = 64 - static_cast<std::uint32_t>(std::countr_zero(slots));
  filter_shift_ = 64 - static_cast<std::uint32_t>(std::countr_zero(filter_bits));
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const std::uint64_t key = key_of(merges_[rank].left, merges_[rank].right);
    const std::uint64_t hash = hash_of(key);
    const std::uint64_t bit = hash >> filter_shift_;
    filter_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
    std::size_t slot = hash >> slot_shift_;
    while (slots_[slot] != kEmptySlot)
      slot = (slot + 1) & (slots - 1);
    slots_[slot] = key << kSymbolBits | rank;
  }
}

std::uint32_t MergeTable::find(std::uint64_t key, std::uint64_t hash) const {
  for (std::size_t slot = hash >> slot_shift_;; slot = (slot + 1) & (slots_.size() - 1)) {
    const std::uint64_t entry = slots_[slot];
    if (entry == kEmptySlot)
      return kNoRank;
    if (entry >> kSymbolBits == key)
      return static_cast<std::uint32_t>(entry & (kSymbolsMax - 1));
  }
}

void RankEncoder::offer(std::uint32_t left) {
  const std::uint32_t right = nodes_[left].next;
  if (right == kNoNode)
    return;
  const std::uint32_t rank = table_.rank(nodes_[left].symbol, nodes_[right].symbol);
  if (rank == kNoRank)
    return;
  heap_.push_back(std::uint64_t{rank} << 32 | left);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void RankEncoder::join(std::uint32_t left, Symbol product) {
  const std::uint32_t right = nodes_[left].next;
  nodes_[left].symbol = product;
  nodes_[left].next = nodes_[right].next;
  nodes_[right].symbol = kJoined;
  if (nodes_[left].next != kNoNode)
    nodes_[nodes_[left].next].previous = left;
  offer(left);
  if (nodes_[left].previous != kNoNode)
    offer(nodes_[left].previous);
}

void RankEncoder::encode(std::string_view piece, std::vector<Symbol>& out) {
  if (piece.empty())
    return;
  CHECK(piece.size() < kNoNode);
  nodes_.clear();
  heap_.clear();
  for (std::uint32_t i = 0; i < piece.size(); ++i) {
    nodes_.push_back({static_cast<unsigned char>(piece[i]), i - 1, i + 1});
  }
  nodes_.back().next = kNoNode;
  for (std::uint32_t i = 0; i < piece.size(); ++i)
    offer(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const std::uint64_t top = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(top);
    const Symbol product = table_.merges()[top >> 32].product;
    const std::uint32_t right = nodes_[left].next;
    if (nodes_[left].symbol == kJoined || right == kNoNode)
      continue;
    const std::uint32_t rank = table_.rank(nodes_[left].symbol, nodes_[right].symbol);
    if (rank != kNoRank && table_.merges()[rank].product == product)
      join(left, product);
  }
  for (std::uint32_t i = 0; i != kNoNode; i = nodes_[i].next)
    out.push_back(nodes_[i].symbol);
}

}  // namespace shoal
