// One load of a placement's hit: which of its blocks are on their way to the prefill group, and
// what the attempt goes on behind where not all of them, or others, came.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/interfaces.h"
#include "actors/kv_search.h"
#include "transport/block_store.h"

namespace shoal {

class KvLoad {
 public:
  // `layout`: of the records. Until `due` its answers may take.
  KvLoad(PlacementPtr placement, std::uint64_t layout, Instant due);

  const PlacementPtr& placement() const { return placement_; }

  const std::vector<KvWanted>& wanted() const { return wanted_; }

  const std::optional<TailPlace>& tail() const { return placement_->tail; }

  Instant due() const { return due_; }

  // The store is asked for the blocks now, for the first or a second time.
  void asked(const transport::BlockStore& store);

  int awaited() const { return awaited_; }

  // Blocks came, or it is known why they do not.
  bool has_blocks() const { return blocks_.has_value(); }

  // An answer of the store. The first one without a gap counts, else the last one; what is wrong
  // with the block at the gap of that.
  std::optional<Error> take(std::vector<transport::Loaded> blocks,
                            const transport::BlockStore& store);

  // Leading blocks that came.
  std::size_t sound() const { return infos_.size(); }

  void take_tail(kernels::BlockBytes tail) { tail_ = std::move(tail); }

  void miss_tail(Error why) { no_tail_ = std::move(why); }

  bool is_over() const { return has_blocks() && (!tail() || tail_ || no_tail_); }

  // Once it is over: what came of it.
  KvLoaded result(const KvSearch& search) &&;

 private:
  void keep(std::vector<transport::Loaded> blocks, const transport::BlockStore& store);
  bool is_as_planned() const;

  PlacementPtr placement_;
  std::vector<KvWanted> wanted_;
  std::vector<std::optional<transport::BlockInfo>> seen_;  // before they were read
  Instant due_;
  int awaited_ = 0;
  // Leading ones, and what the store says of their records; why there are no more.
  std::optional<std::vector<kernels::BlockBytes>> blocks_;
  std::vector<transport::BlockInfo> infos_;
  std::optional<Error> gap_;
  kernels::BlockBytes tail_;
  std::optional<Error> no_tail_;
};

}  // namespace shoal
