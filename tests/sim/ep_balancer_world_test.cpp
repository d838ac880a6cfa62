// The balancer of experts in a world: it follows what the gate chooses, moves what pays and no
// more, and neither its death nor a placement that goes wrong harms anything.
#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

#include "actors/policy/expert_plan.h"
#include "tests/sim/cluster_setup.h"
#include "tests/sim/event_line.h"
#include "tests/sim/expert_group.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Nanos kWindow = seconds(2);
constexpr NodeId kOnly{0};

// Half of the rows go to two experts, which share a rank at first: `first` says which.
std::vector<double> skewed(std::size_t first) {
  std::vector<double> popularity(16, 1.0);
  popularity[first] = 7;
  popularity[(first + 1) % 16] = 7;
  return popularity;
}

// One node whose experts are on four made-up shards.
struct Bed {
  explicit Bed(const std::string& policy = "ours", std::uint64_t seed = 3) {
    WorldSetup setup = setup_of({kAllRoles}, seed);
    setup.configure = [policy](Config& config) {
      config.mutable_log()->set_level("debug");
      config::Experts& experts = *config.mutable_experts();
      experts.set_policy(policy);
      experts.set_window_ms(std::chrono::duration_cast<milliseconds>(kWindow).count());
      experts.set_place_ms(5'000);
      experts.set_layer_us(1'000);
    };
    setup.experts = [this](NodeId, const transport::Scheduler& scheduler) {
      groups.push_back(std::make_unique<SimExpertGroup>(ExpertGroupSetup{}, scheduler));
      return ExpertBalanceParts{groups.back().get(), scheduler};
    };
    world = std::make_unique<World>(setup);
    REQUIRE(world->run_until_whole());
  }

  SimExpertGroup& group() { return *groups.back(); }

  std::string metric(const std::string& name) {
    const std::string text = world->node(kOnly).metrics_text();
    const std::size_t at = text.find("\n" + name + " ");
    REQUIRE(at != std::string::npos);
    const std::size_t value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  std::string plans(const std::string& end) {
    return metric("shoal_expert_plans_total{end=\"" + end + "\"}");
  }

  std::vector<std::string> events(std::string_view name) const {
    std::vector<std::string> found;
    std::ranges::copy_if(world->events(), std::back_inserter(found), [name](const auto& line) {
      return event_name(line) == name;
    });
    return found;
  }

  std::vector<std::unique_ptr<SimExpertGroup>> groups;  // outlive the world
  std::unique_ptr<World> world;
};

bool are_served(const ExpertPlacementMap& placement) {
  return std::ranges::all_of(placement.layers, [](const ExpertLayer& layer) {
    return serves_all(layer.shape, layer.expert_at);
  });
}

bool are_equal(const ExpertPlacementMap& a, const ExpertPlacementMap& b) {
  return a.epoch == b.epoch &&
         std::ranges::equal(a.layers, b.layers, [](const ExpertLayer& x, const ExpertLayer& y) {
           return x.shape == y.shape && x.expert_at == y.expert_at;
         });
}

}  // namespace

TEST_CASE("a change of domain is followed within one window, and what it moved is counted") {
  Bed bed;
  bed.world->run_for(3 * kWindow);
  for (const std::size_t domain : {5, 14, 11}) {
    CAPTURE(domain);
    bed.group().choose(skewed(domain));
    const double before = bed.group().imbalance();
    // The window under way ends, then a whole one of the new domain, then it is loaded.
    bed.world->run_for(2 * kWindow + seconds(1));
    CHECK(before > 1.10);
    CHECK(bed.group().imbalance() < 1.05);
  }
  CHECK(bed.group().placement().epoch.value >= 4);
  CHECK(bed.metric("shoal_expert_epoch") == std::to_string(bed.group().placement().epoch.value));
  const std::int64_t moves = std::stoll(bed.metric("shoal_expert_moves_total"));
  CHECK(moves >= 3);
  CHECK(bed.metric("shoal_expert_moved_bytes_total") == std::to_string(1'000 * moves));
  CHECK(std::stoll(bed.metric("shoal_expert_place_ns_total")) >= 3 * 150'000'000);
  bed.world->run_for(2 * kWindow);
  CHECK(std::stod(bed.metric("shoal_expert_moe_lb{layer=\"2\"}")) < 1.05);
  CHECK(bed.metric("shoal_expert_top{layer=\"0\",place=\"1\"}") == "11");
  const auto planned = bed.events("experts.planned");
  REQUIRE_FALSE(planned.empty());
  CHECK(event_field(planned.back(), "policy") == "ours");
  CHECK(std::ranges::any_of(planned, [](const std::string& line) {
    return event_field(line, "reason") == "moves pay" &&
           std::stoi(event_field(line, "imbalance_permille")) >
               std::stoi(event_field(line, "planned_permille"));
  }));
}

TEST_CASE("where nothing is gained nothing moves") {
  Bed bed;
  // What steps will be like is not known at first.
  bed.world->run_for(3 * kWindow);
  const std::int64_t at_first = bed.group().asked();
  CHECK(at_first <= 1);
  bed.world->run_for(10 * kWindow);
  CHECK(bed.group().asked() == at_first);
  CHECK(std::stoll(bed.plans("kept")) >= 10);
  CHECK(event_field(bed.events("experts.planned").back(), "reason") == "no move pays");

  bed.group().choose(skewed(4));
  bed.world->run_for(5 * kWindow);
  const std::int64_t asked = bed.group().asked();
  CHECK(asked > 0);
  bed.world->run_for(10 * kWindow);
  CHECK(bed.group().asked() == asked);
}

TEST_CASE("a placement that fails, is late or is not heard of changes nothing and is counted") {
  struct Case {
    PlaceFate fate;
    std::string end;
  };

  for (const Case& c : {Case{PlaceFate::kFails, "failed"},
                        Case{PlaceFate::kLate, "failed"},
                        Case{PlaceFate::kLost, "lost"}}) {
    CAPTURE(c.end);
    Bed bed;
    const ExpertPlacementMap before = bed.group().placement();
    bed.group().next({c.fate});
    bed.group().choose(skewed(2));
    REQUIRE(bed.world->run([&] { return bed.group().asked() == 1; }, 4 * kWindow));
    bed.world->run([&] { return bed.group().asked() == 2; }, seconds(20));
    CHECK(are_equal(bed.group().placement(), before));
    CHECK(bed.plans(c.end) == "1");
    bed.world->run_for(3 * kWindow);
    CHECK(bed.plans(c.end) == "1");
    CHECK(bed.plans("placed") != "0");
    CHECK(bed.group().imbalance() < 1.05);
    CHECK(bed.group().overlapping() == 0);
    CHECK(bed.events("experts.not_placed").size() == (c.end == "failed" ? 1 : 0));
  }
}

TEST_CASE("a placement in force that nobody hears of is planned on from") {
  Bed bed;
  bed.group().next({PlaceFate::kAnswerLost});
  bed.group().choose(skewed(2));
  bed.world->run_for(2 * kWindow + seconds(1));
  CHECK(bed.group().placement().epoch == EpochId{2});
  bed.world->run_for(5 * kWindow);
  CHECK(bed.plans("lost") == "1");
  CHECK(std::stoll(bed.plans("kept")) > 0);
  CHECK(bed.metric("shoal_expert_epoch") == std::to_string(bed.group().placement().epoch.value));
  CHECK(bed.group().imbalance() < 1.05);
}

TEST_CASE("a balancer that dies at any moment of a plan is replaced, and nobody notices") {
  int while_loading = 0;
  for (int after = 0; after < 24; ++after) {
    CAPTURE(after);
    Bed bed("ours", 10 + static_cast<std::uint64_t>(after));
    bed.group().choose(skewed(7));
    const RequestId asked = bed.world->clients(kOnly).ask(testing::wanted(1, 300, 20));
    bed.world->run_for(kWindow - milliseconds(200));
    // From before the window ends until behind the placement, and again.
    for (int again = 0; again < 2; ++again) {
      bed.world->run_for(milliseconds(1 + after * 25));
      const bool was_asked = bed.group().asked() > 0;
      const bool was_placed = bed.group().placement().epoch > EpochId{1};
      while_loading += was_asked && !was_placed ? 1 : 0;
      bed.world->node(kOnly).end_part("ep_balancer");
    }
    bed.world->run_for(4 * kWindow);
    CHECK(bed.events("part.lost").size() == 2);
    CHECK(bed.events("pipeline.rebuilt").empty());
    CHECK(bed.group().overlapping() == 0);
    CHECK(are_served(bed.group().placement()));
    CHECK(bed.group().imbalance() < 1.05);
    CHECK(bed.plans("lost") == "0");
    CHECK(std::stoll(bed.plans("placed")) + 1 ==
          static_cast<std::int64_t>(bed.group().placement().epoch.value));
    REQUIRE(bed.world->run_until_all_over(seconds(60)));
    CHECK_FALSE(bed.world->clients(kOnly).answer(asked).error.has_value());
  }
  CHECK(while_loading > 0);
}

TEST_CASE("each placement of a run lost in turn, by the way there or back, harms nothing") {
  for (const PlaceFate fate : {PlaceFate::kLost, PlaceFate::kAnswerLost}) {
    for (std::size_t lost = 0; lost < 4; ++lost) {
      CAPTURE(lost);
      Bed bed;
      std::vector<PlaceFate> fates(lost, PlaceFate::kWorks);
      fates.push_back(fate);
      bed.group().next(fates);
      for (std::size_t domain = 0; domain < 5; ++domain) {
        bed.group().choose(skewed(3 * domain));
        bed.world->run_for(3 * kWindow);
        CHECK(are_served(bed.group().placement()));
      }
      bed.world->run_for(5 * kWindow);
      CHECK(bed.plans("lost") == "1");
      CHECK(bed.group().overlapping() == 0);
      CHECK(bed.group().imbalance() < 1.05);
    }
  }
}

TEST_CASE("every row of the planners can be chosen, serves all experts and comes to rest") {
  for (const ExpertPlanRow& row : expert_planners()) {
    CAPTURE(row.name);
    Bed bed(std::string(row.name));
    bed.group().choose(skewed(9));
    bed.world->run_for(6 * kWindow);
    CHECK(bed.group().asked() > 0);
    CHECK(are_served(bed.group().placement()));
    CHECK(event_field(bed.events("experts.planned").back(), "policy") == row.name);
    const std::int64_t asked = bed.group().asked();
    bed.world->run_for(5 * kWindow);
    CHECK(bed.group().asked() == asked);
  }
}

TEST_CASE("the same seed balances the same way") {
  const auto run = [] {
    Bed bed("ours", 8);
    bed.group().choose(skewed(3));
    bed.world->run_for(4 * kWindow);
    bed.world->node(kOnly).end_part("ep_balancer");
    bed.world->run_for(4 * kWindow);
    return bed.world->hash();
  };
  CHECK(run() == run());
}

TEST_CASE("a node that dies and comes back balances its new experts") {
  Bed bed;
  bed.group().choose(skewed(3));
  bed.world->run_for(kWindow + milliseconds(50));
  bed.world->kill(kOnly);
  bed.world->run_for(seconds(5));
  bed.world->restart(kOnly);
  REQUIRE(bed.groups.size() == 2);
  CHECK(bed.group().placement().epoch == EpochId{1});
  bed.group().choose(skewed(3));
  bed.world->run_for(3 * kWindow + seconds(1));
  CHECK(bed.group().placement().epoch > EpochId{1});
  CHECK(bed.group().imbalance() < 1.05);
}
