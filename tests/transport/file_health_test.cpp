// What a file store says of itself: whether it is written, whether it answers, what was damaged,
// and whether it has the room that it was given.
#include <algorithm>
#include <doctest/doctest.h>
#include <limits>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/file_bed.h"
#include "tests/transport/forwarding_io.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace std::chrono_literals;
using shoal::test::TempDirectory;
using transport::BlockStore;
using transport::BlockStoreParams;
using transport::DiskCall;

constexpr std::size_t kAllRoom = std::numeric_limits<std::size_t>::max();

// Takes no more than `room` at a time, as a full disk of which a page or two are free.
class NarrowIo final : public ForwardingIo {
 public:
  using ForwardingIo::ForwardingIo;

  Result<void> write(File& file, std::uint64_t at, std::span<const std::byte> bytes) override {
    TRY_VOID(take(bytes.size()));
    return ForwardingIo::write(file, at, bytes);
  }

  Result<void> replace(const std::string& name, std::string_view text) override {
    TRY_VOID(take(text.size()));
    return ForwardingIo::replace(name, text);
  }

  std::size_t room = kAllRoom;

 private:
  Result<void> take(std::size_t bytes) const {
    return bytes <= room ? Result<void>() : fail(Code::kNoCapacity, "no space left");
  }
};

std::optional<Error> io_error() {
  return Error{Code::kUnavailable, "simulated disk: I/O error"};
}

// A segment of ten groups; its writer was killed, or stopped in order.
void write_segment(SimBed& bed, bool is_killed) {
  auto disk = bed.disk.open();
  const auto store = static_cast<FileBed&>(bed).open(disk, bed.params(1));
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    REQUIRE(bed.stored(*store, make_chain(seed, {2})) == 2);
  }
  if (is_killed) {
    transport::SimDisk::sever(*disk);
  }
}

}  // namespace

TEST_CASE("a full disk refuses writes until it takes as much as it refused") {
  SimBed bed;
  const auto io = std::make_shared<NarrowIo>(bed.disk.open());
  const auto store = static_cast<FileBed&>(bed).open(io, bed.params(1));
  REQUIRE(bed.stored(*store, make_chain(1)) == 1);
  io->room = 8'192;
  REQUIRE(bed.stored(*store, make_chain(2, {5, 30'000})) == 0);
  for (int look = 0; look < 40; ++look) {
    bed.pass(100ms);
    CHECK(!store->use().writable);
  }
  // It is not taken for dead meanwhile.
  const auto beat = bed.disk.open()->facts("0000000000000001.alive");
  CHECK(bed.wall() - beat->modified <= 3'000);
  io->room = kAllRoom;
  bed.pass(3s);
  CHECK(store->use().writable);
  CHECK(bed.stored(*store, make_chain(2, {5, 30'000})) == 5);
  CHECK(bed.disk.files().size() == 3);  // a heartbeat, two segments, nothing to probe with
}

TEST_CASE("a file that a process probed the disk with when it ended goes with the next writer") {
  SimBed bed;
  REQUIRE(bed.disk.open()->create("0000000000000009.probe").has_value());
  const auto store = bed.open(1);
  REQUIRE(bed.stored(*store, make_chain(1)) == 1);
  bed.pass(3s);
  CHECK(bed.disk.files().size() == 2);
}

TEST_CASE("a full disk that takes a block again takes writes again") {
  SimBed bed;
  const auto io = std::make_shared<NarrowIo>(bed.disk.open());
  const auto store = static_cast<FileBed&>(bed).open(io, bed.params(1));
  io->room = 8'192;
  REQUIRE(bed.stored(*store, make_chain(1, {5, 30'000})) == 0);
  bed.pass(3s);
  CHECK(bed.stored(*store, make_chain(2)) == 1);
  CHECK(store->use().writable);
}

TEST_CASE("a store whose files do not read says so until one does") {
  SimBed bed;
  const auto store = bed.open(1);
  const BlockChain chain = make_chain(1, {3});
  REQUIRE(bed.stored(*store, chain) == 3);
  CHECK(store->use().answers);
  bed.verdict = [](DiskCall call) { return call == DiskCall::kRead ? io_error() : std::nullopt; };
  CHECK(bed.loaded(*store, chain) == 0);
  bed.pass(2s);
  CHECK(!store->use().answers);
  bed.verdict = nullptr;
  CHECK(bed.loaded(*store, chain) == 3);
  CHECK(store->use().answers);
}

TEST_CASE("a directory that cannot be looked at is told until it can") {
  SimBed bed;
  const auto store = bed.open(1);
  bed.verdict = [](DiskCall call) { return call == DiskCall::kOpen ? io_error() : std::nullopt; };
  bed.pass(2s);
  CHECK(!store->use().answers);
  bed.pass(20s);
  CHECK(!store->use().answers);
  bed.verdict = nullptr;
  bed.pass(1'500ms);
  CHECK(store->use().answers);
}

TEST_CASE("a segment that was cut is counted once, whether blocks of it are left or not") {
  for (const std::size_t left : {std::size_t{0}, std::size_t{3'000}, std::size_t{50'000}}) {
    CAPTURE(left);
    SimBed bed;
    write_segment(bed, false);
    auto& file = bed.disk.content(bed.segments().at(0));
    REQUIRE(file.size() > left);
    file.resize(left);
    const auto store = bed.open(2);
    bed.pass(30s);
    CHECK(store->use().broken == 1);
    CHECK(store->use().corrupt == 0);
  }
}

TEST_CASE("what a writer that died leaves behind its last whole group is no damage") {
  SimBed bed;
  write_segment(bed, true);
  auto& file = bed.disk.content(bed.segments().at(0));
  file.resize(file.size() - 4'096);  // the last group's index
  const auto store = bed.open(2);
  bed.pass(30s);
  CHECK(store->use().broken == 0);
  CHECK(bed.loaded(*store, make_chain(8, {2})) == 2);
  CHECK(bed.loaded(*store, make_chain(9, {2})) == 0);
}

TEST_CASE("a store that others' files leave none of its ceiling says so, and they do not") {
  SimBed bed;
  const auto other = bed.open(1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    REQUIRE(bed.stored(*other, make_chain(seed, {8, 30'000})) == 8);
  }
  BlockStoreParams params = bed.params(2);
  params.limits.bytes = Bytes(2 << 20);
  const auto store = bed.open(params);
  bed.pass(3s);
  CHECK(store->use().cramped.find("kv.store_bytes: 2 MB") != std::string::npos);
  CHECK(other->use().cramped.empty());
  params.writer = IncarnationId{3};
  params.limits.bytes = Bytes(16 << 20);
  const auto large = bed.open(params);
  bed.pass(3s);
  CHECK(large->use().cramped.empty());
}

TEST_CASE("a store over its ceiling that may not remove files says that nothing is stored") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(4 << 20);
  const auto store = bed.open(params);
  bed.verdict = [](DiskCall call) { return call == DiskCall::kRemove ? io_error() : std::nullopt; };
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    static_cast<void>(bed.put(*store, make_chain(seed, {8, 30'000})));
  }
  bed.pass(30s);
  CHECK(store->use().cramped.find("nothing is stored") != std::string::npos);
  bed.verdict = nullptr;
  bed.pass(5s);
  CHECK(store->use().cramped.empty());
  CHECK(store->use().answers);
  CHECK(bed.stored(*store, make_chain(100)) == 1);
}

TEST_CASE("a damaged version file is told from another version, and without it all is there") {
  const TempDirectory directory;
  BlockStoreParams params = block_params();
  params.directory = directory.path();
  const BlockChain chain = make_chain(1, {3});
  {
    const auto store = transport::open_block_store("file", params);
    REQUIRE(store.has_value());
    REQUIRE(put(**store, chain).at(2).has_value());
  }
  for (const std::string text : {"",
                                 "shoal KV store, for",
                                 "shoal KV store, format 1",
                                 "shoal KV "
                                 "store, format x\n"}) {
    CAPTURE(text);
    directory.write("shoal-kv", text);
    const auto store = transport::open_block_store("file", params);
    REQUIRE(!store.has_value());
    CHECK(store.error().code == Code::kMisconfigured);
    CHECK(store.error().message.find("another version") == std::string::npos);
    CHECK(store.error().message.find("remove that file alone") != std::string::npos);
  }
  REQUIRE(std::filesystem::remove(directory.path() / "shoal-kv"));
  params.writer = IncarnationId{2};
  const auto store = transport::open_block_store("file", params);
  REQUIRE(store.has_value());
  CHECK(loaded(**store, chain) == 3);
}
