// One process's KV store over the disk that all processes of a world share: the production row
// `file`, its threads as events of virtual time, and what breaks between the process and the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tests/sim/node_clock.h"
#include "tests/sim/timeline.h"
#include "transport/block_store_params.h"
#include "transport/sim/sim_disk.h"

namespace shoal::sim {

// What the process's calls to the disk come to.
enum class Mount : std::uint8_t { kWorks, kAway, kReadOnly, kFull };

struct NodeStoreParts {
  transport::SimDisk& disk;
  Timeline& timeline;
  NodeClock& clock;
  transport::SimDisk::Random random;
  bool syncs = true;  // false: a defect, what is synced is not
};

class NodeStore {
 public:
  // What the parts refer to outlives it and its store.
  explicit NodeStore(NodeStoreParts parts);

  // Clocks are the process's; the rest as `params` say.
  std::unique_ptr<transport::BlockStore> open(transport::BlockStoreParams params);

  void set_mount(Mount mount);
  // No call returns while it hangs.
  void hang(bool hangs);
  // Calls take that much longer.
  void slow_down(Nanos extra);
  // As SIGSTOP and SIGCONT.
  void stop(bool stopped);
  // As kill -9: what was being written ends anywhere.
  void die();

  bool is_dead() const;

  // For how long no call has returned, and nothing else was broken or mended; 0: calls return.
  Nanos hangs_for() const;

  // Nothing was broken, stopped or set for so long that the store's rounds have seen it.
  bool is_settled() const;

 private:
  struct State;
  class Disk;

  std::shared_ptr<State> state_;
};

}  // namespace shoal::sim
