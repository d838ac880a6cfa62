// Who is in: joins, deaths, other lives, and that a life left out never comes back.
#include "actors/policy/membership.h"

#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <utility>

using namespace shoal;
using std::chrono::milliseconds;

namespace {

constexpr MembershipLimits kLimits{milliseconds(100), 3, 10};
constexpr NodeId kA{0};
constexpr NodeId kB{1};
constexpr IncarnationId kFirst{7};
constexpr IncarnationId kSecond{8};

Instant at(int ms) {
  return Instant{milliseconds(100'000 + ms)};
}

// Publishes what the policy wants next; false: nothing.
bool publish(Membership& members, Instant now) {
  auto next = members.next(now);
  if (next) {
    members.publish(*std::move(next));
  }
  return next.has_value();
}

}  // namespace

TEST_CASE("a node that is heard is let in by the next view, once") {
  Membership members(kLimits);
  CHECK_FALSE(publish(members, at(0)));
  members.heard(kA, kFirst, at(0));
  CHECK(publish(members, at(0)));
  CHECK(members.view().epoch == EpochId{1});
  CHECK(members.view().has(kA, kFirst));
  CHECK(members.view().find(kA)->joined == EpochId{1});
  members.heard(kA, kFirst, at(50));
  CHECK_FALSE(publish(members, at(60)));
}

TEST_CASE("a silent member is left out after the dead limit, not before") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  CHECK_FALSE(publish(members, at(1'000)));
  CHECK(publish(members, at(1'001)));
  CHECK(members.view().members.empty());
}

TEST_CASE(
    "a member that said it would end is told apart from one that was lost, until it is back") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  members.heard(kB, kFirst, at(0));
  publish(members, at(0));
  members.left(kA, at(10));
  members.unlinked(kB, at(10));
  CHECK(publish(members, at(311)));
  CHECK(members.view().members.empty());
  CHECK(members.view().has_left(kA));
  CHECK_FALSE(members.view().has_left(kB));
  members.heard(kA, kSecond, at(400));
  CHECK(publish(members, at(400)));
  CHECK(members.view().has(kA, kSecond));
  CHECK_FALSE(members.view().has_left(kA));
}

TEST_CASE("a member whose link comes back while it drains is not out") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  members.left(kA, at(10));
  members.linked(kA);
  CHECK_FALSE(publish(members, at(400)));
}

TEST_CASE("a member without a link is left out after the suspect limit, unless it is heard again") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  members.unlinked(kA, at(10));
  CHECK_FALSE(publish(members, at(300)));
  members.heard(kA, kFirst, at(300));
  CHECK_FALSE(publish(members, at(600)));
  members.unlinked(kA, at(600));
  CHECK(publish(members, at(901)));
}

TEST_CASE("a life that was left out is fenced for good, another life may come") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  publish(members, at(2'000));
  members.heard(kA, kFirst, at(2'100));
  CHECK_FALSE(publish(members, at(2'100)));
  members.heard(kA, kSecond, at(2'200));
  CHECK(publish(members, at(2'200)));
  CHECK(members.view().has(kA, kSecond));
  CHECK(members.view().find(kA)->joined == members.view().epoch);
}

TEST_CASE("two processes under one name do not take turns: the one that is heard stays") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  for (int ms = 0; ms < 5'000; ms += 50) {
    members.heard(kA, kFirst, at(ms));
    members.heard(kA, kSecond, at(ms + 10));
    CHECK_FALSE(publish(members, at(ms + 20)));
  }
  CHECK(members.view().has(kA, kFirst));
}

TEST_CASE("a node started again at once replaces its dead life as soon as the link is gone") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  members.unlinked(kA, at(5));
  members.heard(kA, kSecond, at(20));
  CHECK(publish(members, at(20)));
  CHECK(members.view().has(kA, kSecond));
}

TEST_CASE("an owner that comes back waits for the members it finds in the record") {
  Membership members(kLimits);
  members.restore(View{EpochId{5}, {{kA, kFirst, EpochId{2}}, {kB, kFirst, EpochId{3}}}, {}},
                  at(0));
  CHECK_FALSE(publish(members, at(900)));
  members.heard(kA, kFirst, at(900));
  CHECK(publish(members, at(1'001)));
  CHECK(members.view().epoch == EpochId{6});
  CHECK(members.view().has(kA, kFirst));
  CHECK(members.view().find(kA)->joined == EpochId{2});
  CHECK_FALSE(members.view().has(kB, kFirst));
}

TEST_CASE("an owner that was away itself gives every member its time again, and no more") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  members.heard(kB, kFirst, at(0));
  publish(members, at(0));
  members.was_away(at(5'000));
  CHECK_FALSE(publish(members, at(5'000)));
  members.unlinked(kA, at(5'001));
  members.unlinked(kB, at(5'001));
  CHECK_FALSE(publish(members, at(5'900)));
  members.heard(kA, kFirst, at(5'900));
  CHECK(publish(members, at(6'001)));
  CHECK(members.view().has(kA, kFirst));
  CHECK_FALSE(members.view().has(kB, kFirst));
}

TEST_CASE("a member whose other life is heard is left out while the owner is patient, too") {
  Membership members(kLimits);
  members.heard(kA, kFirst, at(0));
  publish(members, at(0));
  members.was_away(at(5'000));
  members.heard(kA, kSecond, at(5'100));
  CHECK(publish(members, at(5'100)));
  CHECK(members.view().has(kA, kSecond));
}

TEST_CASE("in any history epochs rise by one and no life joins twice") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Membership members(kLimits);
    std::map<NodeId, std::uint64_t> life;
    std::set<std::pair<NodeId, IncarnationId>> left;
    int now = 0;
    for (int step = 0; step < 300; ++step) {
      now += static_cast<int>(random() % 120);
      const NodeId node{static_cast<std::uint32_t>(random() % 4)};
      switch (random() % 8) {
        case 0:
          members.unlinked(node, at(now));
          break;
        case 1:
          ++life[node];
          break;
        case 2:
          now += 1'500;
          break;
        default:
          members.heard(node, IncarnationId{life[node] + 1}, at(now));
      }
      const View before = members.view();
      if (!publish(members, at(now))) {
        continue;
      }
      const View& after = members.view();
      REQUIRE(after.epoch.value == before.epoch.value + 1);
      for (const Member& member : before.members) {
        if (!after.has(member.node, member.incarnation)) {
          left.insert({member.node, member.incarnation});
        }
      }
      for (const Member& member : after.members) {
        CHECK_FALSE(left.contains({member.node, member.incarnation}));
      }
    }
  }
}
