// A member is dead when it was silent for too long, when its link is gone and did not come back, or
// when another life of its node speaks.
#include "actors/policy/membership.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal {

const Member* View::find(NodeId node) const {
  const auto found = std::find_if(
      members.begin(), members.end(), [node](const Member& m) { return m.node == node; });
  return found == members.end() ? nullptr : &*found;
}

bool View::has_left(NodeId node) const {
  return std::find(left.begin(), left.end(), node) != left.end();
}

std::string View::members_text() const {
  std::string text;
  for (const Member& member : members) {
    text += (text.empty() ? "" : " ") + std::to_string(member.node.value) + ":" +
            std::to_string(member.incarnation.value);
  }
  return text;
}

void Membership::restore(View view, Instant now) {
  view_ = std::move(view);
  for (const Member& member : view_.members) {
    pulses_[member.node] = {member.incarnation, now, {}};
  }
}

// A second life of a node that is still heard waits: two processes under one name must not take
// turns.
void Membership::heard(NodeId node, IncarnationId incarnation, Instant now) {
  if (is_fenced(node, incarnation)) {
    return;
  }
  const auto known = pulses_.find(node);
  const bool other_life = known != pulses_.end() && known->second.incarnation != incarnation;
  if (other_life && !known->second.unlinked &&
      now - known->second.heard < limits_.heartbeat * limits_.suspect) {
    return;
  }
  Pulse& pulse = pulses_[node];
  pulse.incarnation = incarnation;
  pulse.heard = now;
  pulse.unlinked.reset();
  pulse.left = false;
}

void Membership::linked(NodeId node) {
  if (const auto known = pulses_.find(node); known != pulses_.end()) {
    known->second.unlinked.reset();
    known->second.left = false;
  }
}

void Membership::unlinked(NodeId node, Instant now) {
  if (const auto known = pulses_.find(node); known != pulses_.end() && !known->second.unlinked) {
    known->second.unlinked = now;
  }
}

void Membership::left(NodeId node, Instant now) {
  unlinked(node, now);
  if (const auto known = pulses_.find(node); known != pulses_.end()) {
    known->second.left = true;
  }
}

bool Membership::has_left(const Member& member) const {
  const auto known = pulses_.find(member.node);
  return known != pulses_.end() && known->second.incarnation == member.incarnation &&
         known->second.left;
}

bool Membership::is_dead(const Member& member, Instant now) const {
  const auto known = pulses_.find(member.node);
  if (known == pulses_.end() || known->second.incarnation != member.incarnation) {
    return true;
  }
  if (now <= patient_until_) {
    return false;
  }
  const Pulse& pulse = known->second;
  return now - pulse.heard > limits_.heartbeat * limits_.dead ||
         (pulse.unlinked && now - *pulse.unlinked > limits_.heartbeat * limits_.suspect);
}

bool Membership::is_fenced(NodeId node, IncarnationId incarnation) const {
  return std::any_of(view_.fenced.begin(), view_.fenced.end(), [&](const Member& life) {
    return life.node == node && life.incarnation == incarnation;
  });
}

std::optional<View> Membership::next(Instant now) const {
  View next{EpochId{view_.epoch.value + 1}, {}, view_.fenced, view_.left};
  for (const Member& member : view_.members) {
    if (is_dead(member, now)) {
      next.fenced.push_back(member);
      if (has_left(member)) {
        next.left.push_back(member.node);
      }
    } else {
      next.members.push_back(member);
    }
  }
  for (const auto& [node, pulse] : pulses_) {
    const bool silent = now - pulse.heard > limits_.heartbeat * limits_.dead || pulse.unlinked;
    const bool fenced =
        std::any_of(next.fenced.begin(), next.fenced.end(), [&](const Member& life) {
          return life.node == node && life.incarnation == pulse.incarnation;
        });
    if (!silent && !fenced && next.find(node) == nullptr) {
      next.members.push_back({node, pulse.incarnation, next.epoch});
    }
  }
  std::sort(next.members.begin(), next.members.end(), [](const Member& a, const Member& b) {
    return a.node < b.node;
  });
  std::erase_if(next.left, [&next](NodeId node) { return next.find(node) != nullptr; });
  if (next.members == view_.members) {
    return std::nullopt;
  }
  if (next.fenced.size() > kFenced) {
    next.fenced.erase(next.fenced.begin(),
                      next.fenced.end() - static_cast<std::ptrdiff_t>(kFenced));
  }
  return next;
}

}  // namespace shoal
