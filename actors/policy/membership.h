// Who belongs to the cluster: judged by one owner from heartbeats and links, one view after the
// other. A life of a node that was left out is fenced for good: the node may only come back as
// another life, with nothing of what it held.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct Member {
  NodeId node;
  IncarnationId incarnation;
  EpochId joined;  // the view that let it in

  friend bool operator==(const Member&, const Member&) = default;
};

struct View {
  EpochId epoch;
  std::vector<Member> members;  // by node
  std::vector<Member> fenced;   // newest last
  std::vector<NodeId> left{};   // were told to end, and did; not back yet

  const Member* find(NodeId node) const;

  // "0:65537 2:131073": nodes and their lives.
  std::string members_text() const;

  bool has_left(NodeId node) const;

  bool has(NodeId node, IncarnationId incarnation) const {
    const Member* member = find(node);
    return member != nullptr && member->incarnation == incarnation;
  }

  friend bool operator==(const View&, const View&) = default;
};

struct MembershipLimits {
  Nanos heartbeat{0};
  std::int64_t suspect = 3;  // heartbeats missed; a member without a link is dead by then
  std::int64_t dead = 10;    // heartbeats missed
};

class Membership {
 public:
  // Fenced lives that are remembered.
  static constexpr std::size_t kFenced = 256;

  explicit Membership(const MembershipLimits& limits) : limits_(limits) {}

  // What an earlier owner published. Its members have until `now` + dead to be heard.
  void restore(View view, Instant now);

  void heard(NodeId node, IncarnationId incarnation, Instant now);
  void linked(NodeId node);
  void unlinked(NodeId node, Instant now);
  // It had said that it would end, and its link is gone: no loss, if it does not come back.
  void left(NodeId node, Instant now);

  // The owner itself did not run until `now`, so it says nothing about a member that it did not
  // hear: each has until `now` + dead.
  void was_away(Instant now) { patient_until_ = now + limits_.heartbeat * limits_.dead; }

  // The view to publish next, if the current one is not right any more.
  std::optional<View> next(Instant now) const;

  void publish(View view) { view_ = std::move(view); }

  const View& view() const { return view_; }

 private:
  struct Pulse {
    IncarnationId incarnation;
    Instant heard;
    std::optional<Instant> unlinked;
    bool left = false;
  };

  bool is_dead(const Member& member, Instant now) const;
  bool has_left(const Member& member) const;
  bool is_fenced(NodeId node, IncarnationId incarnation) const;

  MembershipLimits limits_;
  View view_;
  Instant patient_until_{};
  std::map<NodeId, Pulse> pulses_;  // one life a node: the last heard
};

}  // namespace shoal
