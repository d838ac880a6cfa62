// What the row `rados` promises beyond the suite, on a real Ceph that is stopped and killed.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/block_samples.h"
#include "tests/transport/ceph_place.h"
#include "tests/transport/waits.h"
#include "transport/file_store/layout.h"
#include "transport/rados_store/rados_io.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using transport::BlockStore;
using transport::BlockStoreParams;
using transport::FileIo;
using transport::Loaded;
using transport::RadosPlace;

std::unique_ptr<BlockStore> open(const RadosPlace& place, std::uint64_t writer) {
  BlockStoreParams params = block_params();
  params.writer = IncarnationId{writer};
  params.rados = place;
  auto store = transport::open_block_store("rados", params);
  REQUIRE_MESSAGE(store.has_value(), store.error().message);
  return *std::move(store);
}

std::shared_ptr<FileIo> open_files(const RadosPlace& place) {
  auto cluster = transport::RadosCluster::connect(place);
  REQUIRE(cluster.has_value());
  auto files = std::make_shared<transport::RadosIo>(*std::move(cluster), clock_now);
  REQUIRE(files->make_directory().has_value());
  return files;
}

std::size_t stored(BlockStore& store, const BlockChain& chain) {
  const auto results = put(store, chain);
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(), [](const auto& r) { return r.has_value(); }));
}

// Blocks of one process come to another with its looks at the store, one a second.
std::size_t wait_loaded(BlockStore& store, const BlockChain& chain) {
  for (const Instant end = later(); clock_now() < end;) {
    if (loaded(store, chain) == chain.keys.size()) {
      return chain.keys.size();
    }
  }
  return 0;
}

// The OSD of the loopback cluster.
class Osd {
 public:
  void signal(int number) const { REQUIRE(::kill(pid(), number) == 0); }

  void start() const { REQUIRE(std::system(ceph_variable("SHOAL_CEPH_OSD").c_str()) == 0); }

 private:
  static pid_t pid() {
    std::ifstream file(ceph_variable("SHOAL_CEPH_OSD_PID"));
    pid_t pid = 0;
    REQUIRE((file >> pid));
    return pid;
  }
};

// A get that is answered within two seconds.
std::vector<Loaded> quick_get(BlockStore& store, const BlockChain& chain) {
  Inbox<std::vector<Loaded>> answers;
  const Instant began = clock_now();
  store.get(chain.wanted, began + std::chrono::seconds(2), [&answers](std::vector<Loaded> got) {
    answers.put(std::move(got));
  });
  auto got = answers.wait(1).at(0);
  CHECK(clock_now() - began < std::chrono::seconds(10));
  return got;
}

// Until Ceph is known to be away: the look of every second, or an operation, has timed out.
Error wait_away(BlockStore& store, const BlockChain& chain) {
  for (const Instant end = later(); clock_now() < end;) {
    const auto got = quick_get(store, chain);
    REQUIRE(!got[0].has_value());
    if (got[0].error().code == Code::kUnavailable) {
      return got[0].error();
    }
    CHECK(got[0].error().code == Code::kDeadline);
  }
  return {};
}

bool names_who_acts(const Error& error) {
  return error.message.find("whoever runs Ceph must bring") != std::string::npos;
}

void check_away_and_back(int down, const std::function<void(const Osd&)>& up) {
  const RadosPlace place = fresh_ceph_place();
  const auto store = open(place, 1);
  const BlockChain chain = make_chain(1, {20, 113'920});
  REQUIRE(stored(*store, chain) == 20);
  const Osd osd;
  osd.signal(down);
  const Instant began = clock_now();
  const auto failed = put(*store, make_chain(2, {20, 113'920}));
  CHECK(clock_now() - began < std::chrono::seconds(31));
  REQUIRE(!failed[0].has_value());
  CHECK(failed[0].error().code == Code::kUnavailable);
  CHECK_MESSAGE(names_who_acts(failed[0].error()), failed[0].error().message);
  CHECK(names_who_acts(wait_away(*store, chain)));
  CHECK(!store->use().writable);
  const Instant asked = clock_now();
  CHECK(quick_get(*store, chain)[0].error().code == Code::kUnavailable);
  CHECK(clock_now() - asked < std::chrono::seconds(1));
  up(osd);
  CHECK(wait_loaded(*store, chain) == 20);
  for (const Instant end = later(); clock_now() < end && !store->use().writable;) {
    stored(*store, make_chain(3, {1}));
  }
  CHECK(stored(*store, make_chain(2, {20, 113'920})) == 20);
  CHECK(wait_loaded(*open(place, 2), make_chain(2, {20, 113'920})) == 20);
}

}  // namespace

TEST_CASE("what one process wrote is there after a restart and for others") {
  const RadosPlace place = fresh_ceph_place();
  const BlockChain first = make_chain(1, {100, 113'920});
  const BlockChain second = make_chain(2, {10});
  {
    const auto store = open(place, 1);
    CHECK(stored(*store, first) == 100);
  }
  const auto a = open(place, 2);
  const auto b = open(place, 3);
  CHECK(loaded(*a, first) == 100);
  CHECK(stored(*a, second) == 10);
  CHECK(wait_loaded(*b, second) == 10);
}

TEST_CASE("stores of one pool do not see each other") {
  const auto a = open(fresh_ceph_place(), 1);
  const auto b = open(fresh_ceph_place(), 2);
  const BlockChain chain = make_chain(1, {5});
  CHECK(stored(*a, chain) == 5);
  CHECK(loaded(*b, chain) == 0);
}

TEST_CASE("a pool, user or configuration that is not there is named") {
  BlockStoreParams params = block_params();
  params.rados = fresh_ceph_place();
  params.rados.pool = "pond";
  const auto no_pool = transport::open_block_store("rados", params);
  REQUIRE(!no_pool.has_value());
  CHECK(no_pool.error().code == Code::kMisconfigured);
  CHECK(no_pool.error().message.find("ceph osd pool create pond") != std::string::npos);
  params.rados.conf = "/nowhere/ceph.conf";
  const auto no_conf = transport::open_block_store("rados", params);
  REQUIRE(!no_conf.has_value());
  CHECK(no_conf.error().code == Code::kMisconfigured);
  CHECK(no_conf.error().message.find("/nowhere/ceph.conf") != std::string::npos);
}

TEST_CASE("a cluster that is not there is refused in time, by name") {
  const test::TempDirectory directory;
  BlockStoreParams params = block_params();
  params.rados.conf = directory.write("ceph.conf",
                                      "[global]\nmon host = [v2:127.0.0.1:1]\n"
                                      "auth client required = none\nlog file =\n");
  const Instant began = clock_now();
  const auto store = transport::open_block_store("rados", params);
  CHECK(clock_now() - began < std::chrono::seconds(30));
  REQUIRE(!store.has_value());
  CHECK(store.error().code == Code::kUnavailable);
  CHECK(names_who_acts(store.error()));
}

TEST_CASE("a segment that somebody removed stays removed when its writer comes back") {
  const RadosPlace place = fresh_ceph_place();
  const auto writer = open_files(place);
  const auto other = open_files(place);
  const std::string name = to_string(transport::SegmentName{IncarnationId{7}});
  const auto file = writer->create(name);
  REQUIRE(file.has_value());
  const std::vector<std::byte> bytes(3 * transport::RadosIo::kStripe / 2);
  REQUIRE(writer->write(**file, 0, bytes).has_value());
  REQUIRE(writer->sync(**file).has_value());
  REQUIRE(other->facts(name)->bytes == bytes.size());
  CHECK(!writer->create(name).has_value());
  REQUIRE(other->remove(name).has_value());
  REQUIRE(writer->write(**file, bytes.size(), bytes).has_value());
  CHECK(writer->sync(**file).error().code == Code::kUnavailable);
  CHECK(!writer->truncate(**file, bytes.size()).has_value());
  CHECK(other->list()->empty());
  CHECK(other->facts(name).error().code == Code::kNotFound);
}

TEST_CASE("what is cut off a segment does not read, and is written anew") {
  const auto io = open_files(fresh_ceph_place());
  const std::string name = to_string(transport::SegmentName{IncarnationId{7}});
  const auto file = io->create(name);
  std::vector<std::byte> bytes(5 * transport::RadosIo::kStripe / 2, std::byte{1});
  REQUIRE(io->write(**file, 0, bytes).has_value());
  REQUIRE(io->truncate(**file, transport::RadosIo::kStripe + 4'096).has_value());
  CHECK(io->facts(name)->bytes == transport::RadosIo::kStripe + 4'096);
  std::vector<std::byte> back(8'192);
  FileIo::Read read{*file, transport::RadosIo::kStripe - 4'096, back, {}};
  io->read({&read, 1});
  CHECK(read.result.has_value());
  CHECK(back == std::vector<std::byte>(8'192, std::byte{1}));
  read.offset = transport::RadosIo::kStripe;
  io->read({&read, 1});
  CHECK(!read.result.has_value());
}

TEST_CASE("names are listed beyond what an OSD tells at once") {
  const RadosPlace place = fresh_ceph_place();
  const auto io = open_files(place);
  std::set<std::string> names;
  for (int i = 0; i < 2'300; ++i) {
    const std::string name = "file" + std::to_string(i);
    names.insert(name);
    REQUIRE(io->replace(name, "content").has_value());
  }
  const auto listed = open_files(place)->list();
  REQUIRE(listed.has_value());
  CHECK(std::set<std::string>(listed->begin(), listed->end()) == names);
  CHECK(*io->content("file77") == "content");
}

TEST_CASE("a cluster that hangs costs no request its deadline, and serves again when it is back") {
  check_away_and_back(SIGSTOP, [](const Osd& osd) { osd.signal(SIGCONT); });
}

TEST_CASE("an OSD that is killed costs no request its deadline, and loses nothing") {
  check_away_and_back(SIGKILL, [](const Osd& osd) { osd.start(); });
}
