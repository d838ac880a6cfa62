// A store whose medium is away, comes, goes and comes again.
#include "transport/patient_store.h"

#include <atomic>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/block_samples.h"
#include "tests/transport/waits.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace std::chrono_literals;
using shoal::test::TempDirectory;
using transport::BlockStore;

using Opened = Result<std::unique_ptr<BlockStore>>;

// Memory stores, once `there`.
struct Medium {
  std::atomic<bool> there = false;
  std::atomic<int> tries = 0;
  Inbox<std::string> told;

  transport::PatientParams params() {
    return {.open = [this]() -> Opened {
              ++tries;
              if (!there) {
                return fail(Code::kUnavailable, "nobody is home");
              }
              return transport::open_block_store("memory", block_params());
            },
            .told = [this](const std::string& why) { told.put(why); },
            .first_pause = 1ms,
            .longest_pause = 4ms,
            .look = 1ms};
  }
};

template <class Holds>
bool comes_true(const Holds& holds) {
  for (const Instant limit = later(); clock_now() < limit;) {
    if (holds()) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("while its medium is away a store finds nothing, refuses at once and says why") {
  Medium medium;
  const auto store = transport::open_patient_store(medium.params());
  REQUIRE(store.has_value());
  const BlockChain chain = make_chain(1, {2});
  CHECK(!(*store)->find(chain.keys[0]));
  for (const auto& result : put(**store, chain)) {
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Code::kUnavailable);
    CHECK(result.error().message.find("nobody is home") != std::string::npos);
  }
  CHECK(loaded(**store, chain) == 0);
  CHECK((*store)->use().away == "nobody is home");
  CHECK(!(*store)->use().writable);
  CHECK(comes_true([&] { return medium.tries > 3; }));
}

TEST_CASE("a store that was away is used when it is there, without a restart") {
  Medium medium;
  const auto store = transport::open_patient_store(medium.params());
  REQUIRE(store.has_value());
  medium.there = true;
  const auto told = medium.told.wait(2);
  CHECK(told == std::vector<std::string>{"nobody is home", ""});
  REQUIRE(comes_true([&] { return (*store)->use().away.empty(); }));
  const BlockChain chain = make_chain(1, {2});
  CHECK(put(**store, chain).at(1).has_value());
  CHECK(loaded(**store, chain) == 2);
}

TEST_CASE("what can never be a store is refused at the start") {
  transport::PatientParams params;
  params.open = []() -> Opened { return fail(Code::kMisconfigured, "that is a file"); };
  const auto store = transport::open_patient_store(params);
  REQUIRE(!store.has_value());
  CHECK(store.error().message == "that is a file");
}

TEST_CASE("a directory that was removed under its store is made again, and counts go on") {
  const TempDirectory place;
  std::atomic<std::uint64_t> writers = 0;
  transport::PatientParams patient;
  patient.look = 1ms;
  patient.open = [&] {
    transport::BlockStoreParams params = block_params();
    params.directory = place.path() / "kv";
    params.writer = IncarnationId{++writers};
    return transport::open_block_store("file", std::move(params));
  };
  const auto store = transport::open_patient_store(patient);
  REQUIRE(store.has_value());
  CHECK(put(**store, make_chain(1, {3})).at(2).has_value());
  std::filesystem::remove_all(place.path() / "kv");
  REQUIRE(comes_true([&] { return writers == 2 && (*store)->use().away.empty(); }));
  CHECK(loaded(**store, make_chain(1, {3})) == 0);
  CHECK(put(**store, make_chain(2, {3})).at(2).has_value());
  CHECK(loaded(**store, make_chain(2, {3})) == 3);
  CHECK((*store)->use().puts == 6);
}

TEST_CASE("a store that is away stops at once, also while it is being opened") {
  // The try that hangs outlives the store.
  struct Hang {
    Gate gate;
    std::atomic<int> tries = 0;
  };

  const auto hang = std::make_shared<Hang>();
  transport::PatientParams patient;
  patient.first_pause = 1ms;
  patient.open = [hang]() -> Opened {
    if (++hang->tries > 1) {
      hang->gate.pass();
    }
    return fail(Code::kUnavailable, "it hangs");
  };
  auto store = transport::open_patient_store(patient);
  REQUIRE(store.has_value());
  REQUIRE(comes_true([&] { return hang->tries == 2; }));
  const Instant before = clock_now();
  (*store)->stop();
  CHECK(clock_now() - before < kPatience / 2);
  CHECK(put(**store, make_chain(1)).at(0).error().message.find("stopped") != std::string::npos);
  hang->gate.open();
}
