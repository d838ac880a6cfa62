// What breaks in a world, and how all of it ends.
#include <algorithm>

#include "tests/sim/world.h"

namespace shoal::sim {

void World::break_part(NodeId node, const std::string& part) {
  if (alive(node)) {
    hosts_[node.value].life->node->end_part(part);
  }
}

void World::spoil_bulk(NodeId a, NodeId b, transport::Fate fate) {
  if (fate == transport::Fate::kDeliver) {
    spoiled_.erase(std::minmax(a, b));
  } else {
    spoiled_[std::minmax(a, b)] = fate;
  }
}

void World::slow_link(NodeId a, NodeId b, Nanos extra) {
  slowed_[std::minmax(a, b)] = extra;
}

void World::drift_clock(NodeId node, std::int64_t us_per_s) {
  hosts_.at(node.value).clock->drift(us_per_s);
}

void World::take_store_away(bool away) {
  store_away_ = away;
}

void World::cut(NodeId a, NodeId b) {
  network_.cut(a, b);
}

void World::mend(NodeId a, NodeId b) {
  network_.mend(a, b);
}

void World::mend_all() {
  for (std::uint32_t a = 0; a < hosts_.size(); ++a) {
    for (std::uint32_t b = a + 1; b < hosts_.size(); ++b) {
      network_.mend(NodeId{a}, NodeId{b});
    }
  }
}

void World::end_disturbances() {
  spoiled_.clear();
  slowed_.clear();
  store_away_ = false;
  mend_all();
  for (std::uint32_t n = 0; n < hosts_.size(); ++n) {
    if (hosts_[n].life && hosts_[n].draining) {
      kill(NodeId{n});
    }
    if (!hosts_[n].life) {
      restart(NodeId{n});
    }
    if (hosts_[n].paused) {
      pause(NodeId{n}, false);
    }
    drift_clock(NodeId{n}, 0);
    set_wall(NodeId{n}, std::chrono::milliseconds(0));
    set_mount(NodeId{n}, Mount::kWorks);
    hang_disk(NodeId{n}, false);
    slow_disk(NodeId{n}, Nanos{0});
    for (const auto& device : hosts_[n].life->devices) {
      device->hold(false);
      device->slow_down(1);
      device->fail_next(0);
    }
  }
}

}  // namespace shoal::sim
