// A placement comes into force when all shards serve it, whoever ends on the way.
#include "actors/expert_rollout.h"

#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <vector>

namespace shoal {
namespace {

ExpertMapPtr map_of(std::uint64_t epoch) {
  return std::make_shared<const ExpertPlacementMap>(ExpertPlacementMap{EpochId{epoch}, {}});
}

// A shard by the book: it serves what it is asked to serve, and nothing older than that.
struct Shard {
  EpochId held;
  ExpertMapPtr served;

  EpochId before{};

  EpochId served_epoch() const { return served == nullptr ? EpochId{} : served->epoch; }

  // With what it serves where the asker does not know it.
  ExpertRollout::Told say(bool with_map = true) const {
    return {held, served_epoch(), before, with_map ? served : nullptr, {}};
  }

  ExpertRollout::Told hold(const ExpertRollout::Order& order) {
    if (order.map->epoch <= served_epoch()) {
      return say(order.map->epoch < served_epoch());
    }
    held = order.map->epoch;
    if (order.serves) {
      before = served_epoch();
      served = order.map;
    }
    return say(false);
  }
};

// Carries out all orders until none is left; how many there were.
int settle(ExpertRollout& rollout, std::vector<Shard>& shards) {
  int carried = 0;
  for (auto orders = rollout.take_orders(); !orders.empty(); orders = rollout.take_orders()) {
    for (const ExpertRollout::Order& order : orders) {
      ++carried;
      rollout.told(order.rank, shards[order.rank].hold(order));
    }
    REQUIRE(carried < 1000);
  }
  return carried;
}

void say_all(ExpertRollout& rollout, const std::vector<Shard>& shards) {
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    rollout.told(rank, shards[rank].say());
  }
}

EpochId in_force(const ExpertRollout& rollout) {
  return rollout.in_force() == nullptr ? EpochId{} : rollout.in_force()->epoch;
}

}  // namespace

TEST_CASE("the first placement is used once the last shard serves it") {
  ExpertRollout rollout(2, map_of(1), {});
  CHECK(rollout.take_orders().empty());
  rollout.told(0, {});
  auto orders = rollout.take_orders();
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].rank == 0);
  CHECK(orders[0].serves);
  rollout.told(0, {EpochId{1}, EpochId{1}});
  CHECK(rollout.in_force() == nullptr);
  rollout.told(1, {});
  orders = rollout.take_orders();
  REQUIRE(orders.size() == 1);
  rollout.told(1, {EpochId{1}, EpochId{1}});
  CHECK(in_force(rollout) == EpochId{1});
  CHECK(rollout.away() == std::vector<bool>{false, false});
}

TEST_CASE("a later placement is held by all before any serves it, and served by all before use") {
  std::vector<Shard> shards(3);
  ExpertRollout rollout(3, map_of(1), {});
  say_all(rollout, shards);
  settle(rollout, shards);
  rollout.place({});
  auto orders = rollout.take_orders();
  REQUIRE(orders.size() == 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(orders[rank].serves);
    CHECK(rollout.take_orders().empty());
    rollout.told(rank, shards[rank].hold(orders[rank]));
  }
  orders = rollout.take_orders();
  REQUIRE(orders.size() == 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(orders[rank].serves);
    CHECK(in_force(rollout) == EpochId{1});
    rollout.told(rank, shards[rank].hold(orders[rank]));
  }
  CHECK(in_force(rollout) == EpochId{2});
}

TEST_CASE("a placement that one shard refuses changes nothing, and the next one is another epoch") {
  std::vector<Shard> shards(2);
  ExpertRollout rollout(2, map_of(1), {});
  say_all(rollout, shards);
  settle(rollout, shards);
  rollout.place({});
  auto orders = rollout.take_orders();
  rollout.told(0, shards[0].hold(orders[0]));
  rollout.told(1, {EpochId{2}, EpochId{1}, {}, {}, Error{Code::kNoCapacity, "too much"}});
  CHECK(rollout.take_orders().empty());
  CHECK(rollout.next() == nullptr);
  CHECK(rollout.refusals() == "too much");
  CHECK(in_force(rollout) == EpochId{1});
  rollout.place({});
  settle(rollout, shards);
  CHECK(in_force(rollout) == EpochId{3});
  CHECK(rollout.refusals().empty());
}

TEST_CASE("a shard that begins anew is away until it serves the placement in force again") {
  std::vector<Shard> shards(2);
  ExpertRollout rollout(2, map_of(1), {});
  say_all(rollout, shards);
  settle(rollout, shards);
  rollout.lost(1);
  CHECK(rollout.away() == std::vector<bool>{false, true});
  CHECK(rollout.take_orders().empty());
  shards[1] = {};
  rollout.told(1, shards[1].say());
  CHECK(rollout.away() == std::vector<bool>{false, true});
  CHECK(settle(rollout, shards) == 1);
  CHECK(rollout.away() == std::vector<bool>{false, false});
  CHECK(in_force(rollout) == EpochId{1});
}

TEST_CASE("a source that starts late takes over the placement that the shards serve") {
  std::vector<Shard> shards(3);
  ExpertRollout first(3, map_of(1), {});
  say_all(first, shards);
  settle(first, shards);
  first.place({});
  settle(first, shards);
  REQUIRE(in_force(first) == EpochId{2});
  ExpertRollout late(3, map_of(1), {});
  say_all(late, shards);
  CHECK(settle(late, shards) == 0);
  CHECK(in_force(late) == EpochId{2});
  // A shard that says no more than the epoch is asked for the rest, and one alone.
  ExpertRollout later(3, map_of(1), {});
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    later.told(rank, shards[rank].say(false));
  }
  CHECK(in_force(later) == EpochId{});
  CHECK(settle(later, shards) == 1);
  CHECK(in_force(later) == EpochId{2});
}

TEST_CASE("what a source began to have served, another one completes") {
  std::vector<Shard> shards(3);
  ExpertRollout ends(3, map_of(1), {});
  ExpertRollout stays(3, map_of(1), {});
  say_all(ends, shards);
  settle(ends, shards);
  say_all(stays, shards);
  settle(stays, shards);
  ends.place({});
  for (const auto& order : ends.take_orders()) {
    ends.told(order.rank, shards[order.rank].hold(order));
  }
  const auto orders = ends.take_orders();
  REQUIRE(orders.size() == 3);
  stays.told(1, shards[1].hold(orders[1]));  // the only order that arrives
  settle(stays, shards);
  CHECK(in_force(stays) == EpochId{2});
}

TEST_CASE("whatever is lost on the way, both sources end with one placement that all serve") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<Shard> shards(1 + random() % 4);
    ExpertRollout sources[] = {{shards.size(), map_of(1), {0, 2}},
                               {shards.size(), map_of(1), {1, 2}}};
    const auto tell = [&](std::size_t rank, bool loses, const ExpertRollout::Told& said) {
      for (ExpertRollout& source : sources) {
        if (!loses || random() % 3 != 0) {
          source.told(rank, said);
        }
      }
    };
    for (int i = 0; i < 60; ++i) {
      const std::size_t rank = random() % shards.size();
      ExpertRollout& source = sources[random() % 2];
      switch (random() % 12) {
        case 0:
          shards[rank] = {};
          break;
        case 1:
          source.place({});  // of two that know nothing of each other
          break;
        case 2:
          source.lost(rank);
          break;
        case 3:
          source.doubt();
          break;
        case 4:
          tell(rank, true, shards[rank].say(random() % 2 == 0));
          break;
        case 5:
          source.ask_again();
          break;
        case 6:
          source.give_up();
          break;
        default:
          for (const auto& order : source.take_orders()) {
            if (random() % 4 != 0) {
              tell(order.rank, true, shards[order.rank].hold(order));
            }
          }
      }
    }
    // All links are new: everybody says what there is.
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      tell(rank, false, shards[rank].say(false));
    }
    int rounds = 0;
    for (bool busy = true; busy;) {
      busy = false;
      for (ExpertRollout& source : sources) {
        for (const auto& order : source.take_orders()) {
          tell(order.rank, false, shards[order.rank].hold(order));
          busy = true;
        }
      }
      REQUIRE(++rounds < 100);
    }
    CHECK(in_force(sources[0]) == in_force(sources[1]));
    CHECK(in_force(sources[0]) > EpochId{});
    for (const Shard& shard : shards) {
      CHECK(shard.served->epoch == in_force(sources[0]));
    }
  }
}

}  // namespace shoal
