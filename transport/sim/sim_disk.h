// A simulated directory of files, shared by the stores of one world: what was written but not
// synced may be lost or torn, at any border of 512 bytes, and a hook refuses, corrupts or fills up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/block_store_params.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/lanes.h"

namespace shoal::transport {

enum class DiskCall : std::uint8_t { kOpen, kRead, kWrite, kSync, kRemove };

class SimDisk {
 public:
  // What becomes of a call: an error instead, or none. Not called under any lock of ours.
  using Verdict = std::function<std::optional<Error>(DiskCall)>;
  using Random = std::function<std::uint64_t(std::uint64_t below)>;

  // `now` is the clock of the file system.
  explicit SimDisk(WallClock now, Verdict verdict = nullptr);
  ~SimDisk();

  // A view of the directory for one process. After sever() all its calls fail.
  std::shared_ptr<FileIo> open();
  static void sever(FileIo& view);

  // The machine stops: of what was not synced each 512 bytes are there or not, as `random` says.
  // Open views see the files as they are then.
  void lose_power(const Random& random);

  // For damage: the files as they are. The content may be changed or swapped.
  std::vector<std::string> files() const;
  std::vector<std::byte>& content(const std::string& name) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

struct SimBlocksParts {
  BlockStoreParams params;
  std::shared_ptr<FileIo> disk;  // a view
  Scheduler scheduler;
  std::function<Nanos(Lane)> delay;  // of a job; none: at once
};

// The row `sim` of the block store: the row `file` without threads over a simulated disk.
std::unique_ptr<BlockStore> make_sim_blocks(SimBlocksParts parts);

}  // namespace shoal::transport
