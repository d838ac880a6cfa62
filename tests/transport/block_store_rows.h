// The rows that the suite of the block store runs over: ROWS, and of those QUEUEING_ROWS, where
// puts wait for a medium. With SHOAL_TEST_RADOS the row `rados` instead, on the Ceph of
// tests/transport/ceph_loopback.sh.
#pragma once

#include <doctest/doctest.h>
#include <memory>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/block_samples.h"
#include "tests/transport/ceph_place.h"
#include "tests/transport/waits.h"
#include "transport/registry.h"
#include "transport/sim/sim_disk.h"
#include "transport/thread_scheduler.h"

namespace shoal::testing {

class MemoryRow {
 public:
  std::unique_ptr<transport::BlockStore> open(const transport::BlockStoreParams& params) {
    auto store = transport::open_block_store("memory", params);
    REQUIRE(store.has_value());
    return *std::move(store);
  }
};

template <transport::FileWay way, bool direct>
class FileRow {
 public:
  std::unique_ptr<transport::BlockStore> open(transport::BlockStoreParams params) {
    params.directory = directory_.path() / "kv";
    params.way = way;
    params.direct = direct;
    auto store = transport::open_block_store("file", params);
    REQUIRE(store.has_value());
    return *std::move(store);
  }

 private:
  test::TempDirectory directory_;
};

using ThreadsRow = FileRow<transport::FileWay::kThreads, false>;
using DirectRow = FileRow<transport::FileWay::kThreads, true>;
// With io_uring where this system has it.
using AnyRow = FileRow<transport::FileWay::kAny, true>;

class SimRow {
 public:
  std::unique_ptr<transport::BlockStore> open(const transport::BlockStoreParams& params) {
    return transport::make_sim_blocks({params, disk_.open(), scheduler_.port(), nullptr});
  }

 private:
  transport::SimDisk disk_{[] { return WallMillis{1'780'000'000'000}; }};
  transport::ThreadScheduler scheduler_{clock_now};
};

class RadosRow {
 public:
  std::unique_ptr<transport::BlockStore> open(transport::BlockStoreParams params) {
    params.rados = place_;
    auto store = transport::open_block_store("rados", params);
    REQUIRE_MESSAGE(store.has_value(), store.error().message);
    return *std::move(store);
  }

 private:
  const transport::RadosPlace place_ = fresh_ceph_place();
};

}  // namespace shoal::testing

#ifdef SHOAL_TEST_RADOS
#define ROWS RadosRow
#define QUEUEING_ROWS RadosRow
#else
#define ROWS MemoryRow, ThreadsRow, DirectRow, AnyRow, SimRow
#define QUEUEING_ROWS ThreadsRow, AnyRow, SimRow
#endif
