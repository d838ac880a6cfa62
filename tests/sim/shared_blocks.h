// A KV store that all nodes of a world share, in virtual time: each process sees it through a port
// of its own, and what it holds outlives them. What one process dropped the others still see.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/timeline.h"
#include "transport/block_store.h"

namespace shoal::sim {

class SharedBlocks {
 public:
  explicit SharedBlocks(Timeline& timeline) : timeline_(timeline) {}

  // Outlived by this. Nothing is called back after its stop().
  std::unique_ptr<transport::BlockStore> open();

  // What is stored after that is not indexed, and reads fail, until it is back.
  void take_away(bool away) { away_ = away; }

  // Flips a bit in every record that is there.
  void damage();

  std::size_t blocks() const { return blocks_.size(); }

 private:
  class Port;

  struct Stored {
    std::vector<std::byte> record;
    transport::BlockInfo info;
    std::uint64_t put = 0;  // which one brought it
  };

  transport::Loaded load(const KvWanted& wanted);
  void store(std::vector<std::byte> record, const KvBlock& block);

  Timeline& timeline_;
  std::map<BlockKey, Stored> blocks_;
  std::uint64_t puts_ = 0;
  bool away_ = false;
};

}  // namespace shoal::sim
