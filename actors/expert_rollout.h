// How a placement comes into force on shards anywhere, as one source of rows sees it: all shards
// hold it, then all serve it beside the one before, then the source uses it.
//
// There is no owner: every source asks shards that lag for the newest placement it has heard of,
// and learns a newer one from the shards that serve it. So any of them may end at any moment, and
// whatever was half-way is carried on by the others or stays what it was. Epochs that a source
// gives are of itself alone, so that two placements that are begun at once are never taken for one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/expert_dispatch.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

using ExpertMapPtr = std::shared_ptr<const ExpertPlacementMap>;

class ExpertRollout {
 public:
  // To hold the map, or to serve it, too. One of epoch 0: to say what it serves, with its map.
  struct Order {
    std::size_t rank = 0;
    ExpertMapPtr map;
    bool serves = false;
  };

  // What the shard of a rank says: `refusal` is of `held`.
  struct Told {
    EpochId held;
    EpochId served;      // 0: nothing
    EpochId before{};    // served beside it; 0: nothing
    ExpertMapPtr map{};  // of what it serves; null: it was not asked for
    std::optional<Error> refusal{};
  };

  // The epochs that it gives are `place` in each `of`.
  struct Placer {
    std::uint64_t place = 0;
    std::uint64_t of = 1;
  };

  // `first`: in force once all serve it, unless they serve a later one already.
  ExpertRollout(std::size_t ranks, ExpertMapPtr first, Placer placer);

  void told(std::size_t rank, const Told& said);
  // Whatever it held is gone, until it is told otherwise.
  void lost(std::size_t rank);
  // Nobody knows what any shard serves: all are asked anew.
  void doubt();
  // All shards say again what they serve, and those that lag are asked again.
  void ask_again();
  // In the place of one that is not served by any shard yet.
  EpochId place(std::vector<ExpertLayer> layers);
  // One that no shard was asked to serve is not wanted any more.
  void give_up();

  // Since the last call.
  std::vector<Order> take_orders();

  // Null: none yet.
  const ExpertMapPtr& in_force() const { return in_force_; }

  // The one that is meant to come into force; null: none.
  const ExpertMapPtr& next() const { return next_; }

  // The newest that shards are to serve.
  EpochId front() const { return front_->epoch; }

  // Some shard was asked for what it has not said yet.
  bool waits() const;

  // By rank: does not serve the placement in force, as far as is known.
  std::vector<bool> away() const;
  // Why a rank does not serve what it was asked to; empty: no such rank.
  std::string refusals() const;

 private:
  struct Rank {
    bool can_be_asked = false;  // has said something, or is doubted
    EpochId served;
    EpochId before;
    EpochId held;
    EpochId asked_to_serve;
    EpochId asked_to_hold;
    std::string refusal;
  };

  void go_on();
  void ask(std::size_t rank);

  const Placer placer_;
  std::vector<Rank> ranks_;
  EpochId given_;      // the last one
  EpochId asked_for_;  // what that is, a shard was asked
  std::size_t asked_rank_ = 0;
  ExpertMapPtr front_;  // the newest that is to be served
  ExpertMapPtr in_force_;
  ExpertMapPtr next_;
  std::vector<Order> orders_;
};

}  // namespace shoal
