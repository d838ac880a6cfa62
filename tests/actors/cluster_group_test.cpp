// The experts of a cluster as its balancer sees them: counts of all sources, and one placement at a
// time, which is in force when all use it.
#include "actors/cluster_group.h"

#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

namespace shoal {
namespace {

using std::chrono::seconds;

constexpr NodeId kA{3};
constexpr NodeId kB{7};

std::shared_ptr<const ExpertPlacementMap> map_of(std::uint64_t epoch) {
  ExpertPlacementMap map{EpochId{epoch}, {}};
  map.layers.push_back({{.experts = 2, .ranks = 2, .slots = 1, .node_ranks = 2}, {0, 1}});
  return std::make_shared<const ExpertPlacementMap>(std::move(map));
}

struct Bed {
  Bed() { group.reach({kA, kB}); }

  static ExpertReport report(NodeId node, std::uint64_t epoch) {
    return {.node = node,
            .epoch = EpochId{epoch},
            .map = map_of(epoch),
            .settled = true,
            .whole = true,
            .expert = Bytes{10}};
  }

  void both_use(std::uint64_t epoch) {
    group.told(report(kA, epoch));
    group.told(report(kB, epoch));
  }

  // The number of the plan.
  std::uint64_t place() {
    group.place(map_of(9)->layers, now + seconds(5), [this](const Result<EpochId>& outcome) {
      ended.push_back(outcome ? "epoch " + std::to_string(outcome->value)
                              : std::string(to_string(outcome.error().code)));
    });
    const auto order = group.take_order();
    REQUIRE(order.has_value());
    CHECK(order->source == kA);
    return order->order->plan;
  }

  Instant now{};
  ClusterGroup group{[this] { return now; }, 100};
  std::vector<std::string> ended;
};

}  // namespace

TEST_CASE("what sources were given adds up, and a lost report makes it less") {
  Bed bed;
  ExpertReport report = Bed::report(kA, 1);
  report.traffic = {{2, {3, 4}, {5, 2}}};
  bed.group.told(report);
  report.node = kB;
  bed.group.told(report);
  CHECK(bed.group.traffic()[0].exchanges == 4);
  CHECK(bed.group.traffic()[0].experts == std::vector<std::int64_t>{6, 8});
  CHECK(bed.group.traffic()[0].ranks == std::vector<std::int64_t>{10, 4});
  CHECK(bed.group.expert_bytes() == Bytes{10});
  // Of a node that is not reached, and of other layers.
  report.node = NodeId{1};
  bed.group.told(report);
  report.node = kB;
  report.traffic = {{1, {3, 4, 5}, {5, 2}}};
  bed.group.told(report);
  CHECK(bed.group.traffic()[0].exchanges == 4);
}

TEST_CASE("a placement is planned where all sources use the one before, whole and settled") {
  Bed bed;
  CHECK_FALSE(bed.group.is_ready());
  bed.group.told(Bed::report(kA, 5));
  CHECK_FALSE(bed.group.is_ready());
  bed.group.told(Bed::report(kB, 4));
  CHECK_FALSE(bed.group.is_ready());
  CHECK_FALSE(bed.group.settled().has_value());
  CHECK(bed.group.placement().epoch == EpochId{5});
  bed.both_use(5);
  CHECK(bed.group.is_ready());
  CHECK(bed.group.settled() == EpochId{5});
  ExpertReport report = Bed::report(kB, 5);
  report.settled = false;
  bed.group.told(report);
  CHECK_FALSE(bed.group.settled().has_value());
  report.settled = true;
  report.whole = false;
  bed.group.told(report);
  CHECK(bed.group.settled() == EpochId{5});
  CHECK_FALSE(bed.group.is_ready());
  bed.both_use(5);
  bed.group.reach({});
  CHECK_FALSE(bed.group.is_ready());
}

TEST_CASE("a placement is in force when its source says so and all use it") {
  Bed bed;
  bed.both_use(5);
  ExpertReport report = Bed::report(kA, 5);
  report.plan = bed.place();
  report.plan_state = ExpertPlanState::kUnderWay;
  bed.group.told(report);
  CHECK_FALSE(bed.group.is_ready());
  CHECK_FALSE(bed.group.settled().has_value());
  report.epoch = EpochId{9};
  report.map = map_of(9);
  report.plan_state = ExpertPlanState::kInForce;
  bed.group.told(report);
  CHECK(bed.ended.empty());
  bed.group.told(Bed::report(kB, 9));
  CHECK(bed.ended == std::vector<std::string>{"epoch 9"});
  CHECK(bed.group.placement().epoch == EpochId{9});
}

TEST_CASE("a placement that fails, is late or whose node is lost ends, and the next one is tried") {
  Bed bed;
  bed.both_use(5);
  ExpertReport report = Bed::report(kA, 5);
  report.plan = bed.place();
  report.plan_state = ExpertPlanState::kFailed;
  bed.group.told(report);
  CHECK(bed.ended.back() == to_string(Code::kUnavailable));
  const std::uint64_t late = bed.place();
  CHECK(late > report.plan);
  bed.now += seconds(6);
  bed.group.tick();
  CHECK(bed.ended.back() == to_string(Code::kDeadline));
  bed.place();
  bed.group.reach({kB});
  CHECK(bed.ended.back() == to_string(Code::kPeerLost));
  CHECK(bed.ended.size() == 3);
  CHECK(bed.group.is_ready());
}

TEST_CASE("where all experts began anew, the placement of before is forgotten") {
  Bed bed;
  bed.both_use(5);
  bed.both_use(1);
  CHECK(bed.group.placement().epoch == EpochId{1});
  CHECK(bed.group.is_ready());
}

}  // namespace shoal
