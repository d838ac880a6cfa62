// File stores of one or more processes over one directory, real or simulated, in virtual time: what
// blocks in production runs as steps here.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/transport/block_samples.h"
#include "tests/transport/step_scheduler.h"
#include "transport/file_store/file_store.h"
#include "transport/sim/sim_disk.h"

namespace shoal::testing {

inline constexpr WallMillis kBegin = 1'780'000'000'000;

class FileBed {
 public:
  // Wall time goes with the scheduler's, and jumps when told.
  WallMillis wall() const {
    return kBegin + jumped_ +
           std::chrono::duration_cast<std::chrono::milliseconds>(scheduler.now().time_since_epoch())
               .count();
  }

  void jump(std::chrono::hours hours) { jumped_ += std::chrono::milliseconds(hours).count(); }

  void pass(Nanos time) { scheduler.run_for(time); }

  transport::BlockStoreParams params(std::uint64_t writer);

  // A store over `io`, all of whose jobs run by the scheduler.
  std::unique_ptr<transport::BlockStore> open(std::shared_ptr<transport::FileIo> io,
                                              const transport::BlockStoreParams& params);

  // Both let time pass until the answer is there.
  std::vector<Result<void>> put(transport::BlockStore& store, const BlockChain& chain);
  std::vector<transport::Loaded> get(transport::BlockStore& store,
                                     const std::vector<KvWanted>& wanted);

  std::size_t stored(transport::BlockStore& store, const BlockChain& chain);
  std::size_t loaded(transport::BlockStore& store, const BlockChain& chain);

  StepScheduler scheduler;

 private:
  WallMillis jumped_ = 0;
};

// The same over a simulated disk.
class SimBed : public FileBed {
 public:
  std::unique_ptr<transport::BlockStore> open(const transport::BlockStoreParams& params) {
    return FileBed::open(disk.open(), params);
  }

  std::unique_ptr<transport::BlockStore> open(std::uint64_t writer) { return open(params(writer)); }

  // Segments that are there.
  std::vector<std::string> segments() const;
  std::int64_t bytes() const;

  // What the disk says to the next calls; null: it works.
  transport::SimDisk::Verdict verdict;
  transport::SimDisk disk{
      [this] { return wall(); },
      [this](transport::DiskCall call) { return verdict ? verdict(call) : std::nullopt; }};
};

}  // namespace shoal::testing
