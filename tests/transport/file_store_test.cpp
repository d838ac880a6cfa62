// What a file store promises beyond the conformance suite: restarts, shared directories, lifetimes,
// ceilings, cleaning up.
#include <algorithm>
#include <doctest/doctest.h>
#include <set>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/file_bed.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace std::chrono_literals;
using shoal::test::TempDirectory;
using transport::BlockStore;
using transport::BlockStoreParams;

// Real files, everything else virtual.
class RealBed : public FileBed {
 public:
  std::unique_ptr<BlockStore> open(std::uint64_t writer) {
    BlockStoreParams params = this->params(writer);
    params.directory = directory.path();
    auto io = transport::open_file_io(params);
    REQUIRE(io.has_value());
    return FileBed::open(*io, params);
  }

  TempDirectory directory;
};

// One chain of four blocks a seed.
std::vector<BlockChain> chains(std::uint64_t from,
                               std::uint64_t to,
                               const ChainShape& shape = {4}) {
  std::vector<BlockChain> all;
  for (std::uint64_t seed = from; seed < to; ++seed) {
    all.push_back(make_chain(seed, shape));
  }
  return all;
}

std::size_t loaded(FileBed& bed, BlockStore& store, const std::vector<BlockChain>& all) {
  std::size_t count = 0;
  for (const BlockChain& chain : all) {
    count += bed.loaded(store, chain);
  }
  return count;
}

void put(FileBed& bed, BlockStore& store, const std::vector<BlockChain>& all) {
  for (const BlockChain& chain : all) {
    REQUIRE(bed.stored(store, chain) == chain.keys.size());
  }
}

}  // namespace

TEST_CASE_TEMPLATE("a restart finds all that was acknowledged", Bed, SimBed, RealBed) {
  Bed bed;
  const auto written = chains(0, 40);
  {
    const auto store = bed.open(1);
    put(bed, *store, written);
  }
  const auto again = bed.open(2);
  CHECK(again->use().opening);
  CHECK(loaded(bed, *again, written) == 160);
  CHECK(!again->use().opening);
  CHECK(again->use().blocks == 160);
  CHECK(again->use().corrupt == 0);
  CHECK(again->find(written[7].keys[3])->provenance == Provenance::kExact);
}

TEST_CASE_TEMPLATE("stores that share a directory see each other's blocks within two seconds",
                   Bed,
                   SimBed,
                   RealBed) {
  Bed bed;
  const auto a = bed.open(1);
  const auto b = bed.open(2);
  bed.pass(1s);
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto of_a = chains(10 * round, 10 * round + 5);
    const auto of_b = chains(10 * round + 5, 10 * round + 10);
    put(bed, *a, of_a);
    put(bed, *b, of_b);
    bed.pass(2s);
    CHECK(loaded(bed, *b, of_a) == 20);
    CHECK(loaded(bed, *a, of_b) == 20);
  }
  CHECK(a->use().blocks == 200);
  CHECK(b->use().blocks == 200);
}

TEST_CASE_TEMPLATE("a get finds what became durable just before it", Bed, SimBed, RealBed) {
  Bed bed;
  const auto a = bed.open(1);
  const auto b = bed.open(2);
  bed.pass(1s);
  for (std::uint64_t round = 0; round < 5; ++round) {
    const BlockChain chain = make_chain(round, {4});
    REQUIRE(bed.stored(*a, chain) == 4);
    const Instant begun = bed.scheduler.now();
    CHECK(bed.loaded(*b, chain) == 4);
    CHECK(bed.scheduler.now() - begun < 200ms);
  }
  CHECK(b->use().misses == 0);
}

TEST_CASE("a store that is told so sees what others wrote, looking no oftener than it may") {
  SimBed bed;
  const auto a = bed.open(1);
  const auto b = bed.open(2);
  bed.pass(1s);
  const BlockChain chain = make_chain(1, {4});
  REQUIRE(bed.stored(*a, chain) == 4);
  std::int64_t opened = 0;
  bed.verdict = [&opened](transport::DiskCall call) -> std::optional<Error> {
    opened += call == transport::DiskCall::kOpen ? 1 : 0;
    return std::nullopt;
  };
  b->refresh();
  bed.pass(200ms);
  CHECK(b->find(chain.keys.back()).has_value());
  for (int i = 0; i < 500; ++i) {
    b->refresh();
    bed.pass(2ms);
  }
  CHECK(opened < 100);
}

TEST_CASE("blocks of segments that filled up between two looks are seen") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(16 << 20);  // segments of a quarter mebibyte
  const auto writer = bed.open(params);
  const auto reader = bed.open(2);
  for (std::uint64_t round = 0; round < 4; ++round) {
    const auto some = chains(20 * round, 20 * round + 20, {4, 30'000});
    put(bed, *writer, some);
    bed.pass(2s);
    CHECK(loaded(bed, *reader, some) == 80);
  }
  CHECK(bed.segments().size() > 8);
}

TEST_CASE("a directory that somebody emptied is a store without blocks that goes on") {
  SimBed bed;
  const auto store = bed.open(1);
  put(bed, *store, {make_chain(1)});
  auto hand = bed.disk.open();
  for (const std::string& name : bed.segments()) {
    CHECK(hand->remove(name).has_value());
  }
  bed.pass(3s);
  CHECK(store->use().blocks == 0);
  put(bed, *store, {make_chain(1), make_chain(2)});
  CHECK(bed.segments().size() == 1);
  const auto again = bed.open(2);
  CHECK(loaded(bed, *again, {make_chain(1), make_chain(2)}) == 2);
}

TEST_CASE("after a restart at the ceiling what is used stays, too") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(24 << 20);
  const auto hot = chains(0, 20, {8, 30'000});
  for (std::uint64_t life = 1; life < 6; ++life) {
    params.writer = IncarnationId{life};
    const auto store = bed.open(params);
    bed.pass(2s);
    if (life == 1) {
      put(bed, *store, hot);
    }
    for (const BlockChain& chain : chains(1'000 * life, 1'000 * life + 100, {8, 30'000})) {
      put(bed, *store, {chain});
      bed.pass(200ms);
      CHECK(bed.bytes() <= (24 << 20) + (2 << 20));
      for (const BlockChain& used : hot) {
        store->touch(used.keys.back(), 0);
      }
    }
    CHECK(loaded(bed, *store, hot) == 160);
  }
}

TEST_CASE("what two stores wrote both is there once for everybody") {
  SimBed bed;
  const auto a = bed.open(1);
  const auto b = bed.open(2);
  bed.pass(1s);
  const auto both = chains(0, 3);
  put(bed, *a, both);
  put(bed, *b, both);
  bed.pass(2s);
  const auto c = bed.open(3);
  CHECK(loaded(bed, *c, both) == 12);
  CHECK(c->use().blocks == 12);
}

TEST_CASE("a dropped or replaced record stays so after a restart") {
  SimBed bed;
  const BlockChain bounded = make_chain(1, {4, 3'000, TtlClass::kChat, Provenance::kBounded});
  const BlockChain exact = make_chain(1, {4});
  const BlockChain other = make_chain(2, {4});
  {
    const auto store = bed.open(1);
    put(bed, *store, {bounded, other});
    put(bed, *store, {exact});
    CHECK(store->drop(other.keys[3]));
    bed.pass(20s);
  }
  const auto again = bed.open(2);
  CHECK(bed.loaded(*again, exact) == 4);
  CHECK(bed.loaded(*again, other) == 3);
  CHECK(again->drop(exact.keys[3]));
  bed.pass(20s);
  const auto third = bed.open(3);
  bed.pass(1s);
  CHECK(bed.loaded(*third, exact) == 3);
  // What was dropped may be written again.
  CHECK(bed.stored(*third, other) == 4);
  const auto fourth = bed.open(4);
  CHECK(bed.loaded(*fourth, other) == 4);
}

TEST_CASE("blocks expire by class after their last use, and the files go") {
  SimBed bed;
  const auto store = bed.open(1);
  const auto agent = make_chain(1, {4, 3'000, TtlClass::kAgent});
  const auto chat = make_chain(2, {4, 3'000, TtlClass::kChat});
  const auto pinned = make_chain(3, {4, 3'000, TtlClass::kPinned});
  put(bed, *store, {agent, chat, pinned});
  CHECK(bed.segments().size() == 3);
  bed.jump(71h);
  bed.pass(30s);
  CHECK(store->use().blocks == 12);
  bed.jump(2h);
  bed.pass(30s);
  CHECK(store->use().blocks == 8);
  CHECK(bed.loaded(*store, agent) == 0);
  CHECK(bed.segments().size() == 2);
  bed.jump(100h);
  bed.pass(30s);
  CHECK(bed.loaded(*store, chat) == 0);
  CHECK(bed.loaded(*store, pinned) == 4);
  CHECK(bed.segments().size() == 1);
  CHECK(store->use().expired == 8);
}

TEST_CASE("a touched leaf keeps all before it, over restarts and for others") {
  SimBed bed;
  const auto kept = make_chain(1, {6, 3'000, TtlClass::kAgent});
  const auto left = make_chain(2, {6, 3'000, TtlClass::kAgent});
  {
    const auto store = bed.open(1);
    put(bed, *store, {kept, left});
    const auto toucher = bed.open(2);
    bed.pass(2s);
    bed.jump(60h);
    toucher->touch(kept.keys[3], 0);
    bed.pass(20s);
    bed.jump(20h);
    bed.pass(30s);
    CHECK(bed.loaded(*store, kept) == 4);
    CHECK(bed.loaded(*store, left) == 0);
  }
  const auto again = bed.open(3);
  bed.pass(30s);
  CHECK(bed.loaded(*again, kept) == 4);
  bed.jump(60h);
  bed.pass(30s);
  CHECK(bed.loaded(*again, kept) == 0);
}

TEST_CASE("a touch outlives the segment it was written in") {
  SimBed bed;
  const auto kept = make_chain(1, {4});
  {
    const auto writer = bed.open(1);
    put(bed, *writer, {kept});
  }
  {
    const auto toucher = bed.open(2);
    bed.pass(2s);
    bed.jump(160h);
    toucher->touch(kept.keys[3], 0);
    bed.pass(20s);
  }
  // The toucher is dead, and its segment holds nothing but the touch.
  const auto cleaner = bed.open(3);
  put(bed, *cleaner, {make_chain(2)});
  bed.pass(100s);
  const auto files = bed.disk.files();
  CHECK(std::none_of(files.begin(), files.end(), [](const auto& name) {
    return name.starts_with("0000000000000002");
  }));
  bed.jump(100h);
  bed.pass(30s);
  CHECK(bed.loaded(*cleaner, kept) == 4);
  const auto again = bed.open(4);
  bed.pass(30s);
  CHECK(bed.loaded(*again, kept) == 4);
}

TEST_CASE("others' segments are cleaned up only once their writer is dead") {
  SimBed bed;
  const auto old = make_chain(1, {4, 3'000, TtlClass::kAgent});
  auto killed_disk = bed.disk.open();
  auto killed = static_cast<FileBed&>(bed).open(killed_disk, bed.params(1));
  put(bed, *killed, {old});
  transport::SimDisk::sever(*killed_disk);
  const auto cleaner = bed.open(2);
  put(bed, *cleaner, {make_chain(2)});
  CHECK(bed.loaded(*cleaner, old) == 4);
  bed.pass(300s);
  CHECK(bed.loaded(*cleaner, old) == 4);
  CHECK(bed.segments().size() == 2);
  bed.pass(400s);
  CHECK(bed.loaded(*cleaner, old) == 4);
  bed.jump(80h);
  bed.pass(100s);
  CHECK(bed.segments().size() == 1);
  CHECK(bed.disk.files().size() == 2);  // segment, heartbeat; the dead one's is gone, too
}

TEST_CASE("a living writer's segments are left alone, however old") {
  SimBed bed;
  const auto old = make_chain(1, {4, 3'000, TtlClass::kAgent});
  const auto writer = bed.open(1);
  put(bed, *writer, {old});
  // Its own wall clock stands: it does not find anything expired itself.
  const auto cleaner = bed.open(2);
  put(bed, *cleaner, {make_chain(2)});
  bed.pass(700s);
  CHECK(bed.segments().size() == 2);
}

TEST_CASE("a store stopped in order leaves its segments to others at once") {
  SimBed bed;
  const auto old = make_chain(1, {4, 3'000, TtlClass::kAgent});
  {
    const auto store = bed.open(1);
    put(bed, *store, {old});
  }
  const auto cleaner = bed.open(2);
  put(bed, *cleaner, {make_chain(2)});
  CHECK(bed.loaded(*cleaner, old) == 4);
  bed.jump(80h);
  bed.pass(100s);
  CHECK(bed.segments().size() == 1);
}

TEST_CASE("files stay below the ceiling, and what is used stays") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(24 << 20);
  const auto store = bed.open(params);
  const auto hot = chains(0, 20, {8, 30'000});  // 5 MiB
  put(bed, *store, hot);
  for (std::uint64_t round = 0; round < 30; ++round) {
    for (const BlockChain& chain : chains(1'000 + 20 * round, 1'020 + 20 * round, {8, 30'000})) {
      put(bed, *store, {chain});
      bed.pass(200ms);
      CHECK(bed.bytes() <= (24 << 20) + (2 << 20));
    }
    for (const BlockChain& chain : hot) {
      store->touch(chain.keys.back(), 0);
    }
  }
  CHECK(loaded(bed, *store, hot) == 160);
  CHECK(store->use().evicted > 0);
  CHECK(store->use().bytes.value < 24 << 20);
  CHECK(store->use().corrupt == 0);
  // Copies are as good as what they were copied from.
  const auto again = bed.open(2);
  CHECK(loaded(bed, *again, hot) == 160);
}

TEST_CASE("blocks that their writer copied together are there for others, too") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(24 << 20);
  const auto writer = bed.open(params);
  const auto reader = bed.open(2);
  const auto hot = chains(0, 20, {8, 30'000});
  put(bed, *writer, hot);
  for (std::uint64_t seed = 1'000; seed < 1'300; ++seed) {
    put(bed, *writer, {make_chain(seed, {8, 30'000})});
    bed.pass(200ms);
    for (const BlockChain& chain : hot) {
      writer->touch(chain.keys.back(), 0);
    }
  }
  REQUIRE(loaded(bed, *writer, hot) == 160);
  bed.pass(3s);
  CHECK(loaded(bed, *reader, hot) == 160);
}

namespace {

// What is put at once, of which nobody waits for anything.
class Burst {
 public:
  Burst(BlockStore& store, std::uint64_t seed, std::uint64_t count) : count_(count) {
    for (const BlockChain& chain : chains(seed, seed + count, {8, 30'000})) {
      store.put(chain.records, [this](const std::vector<Result<void>>& results) {
        ++answered_;
        refused_ += std::count_if(results.begin(), results.end(), [](const Result<void>& result) {
          return !result.has_value();
        });
      });
    }
  }

  bool is_over() const { return answered_ == count_; }

  // Blocks.
  std::int64_t refused() const { return refused_; }

 private:
  std::uint64_t count_;
  std::uint64_t answered_ = 0;
  std::int64_t refused_ = 0;
};

}  // namespace

TEST_CASE("stores that share a directory keep its ceiling together, however fast they write") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(16 << 20);
  const auto a = bed.open(params);
  params.writer = IncarnationId{2};
  const auto b = bed.open(params);
  bed.pass(1s);
  const Burst of_a(*a, 0, 70);  // 17 MiB
  const Burst of_b(*b, 1'000, 70);
  while (!of_a.is_over() || !of_b.is_over()) {
    bed.pass(1ms);
    CHECK(bed.bytes() <= transport::most_files(params.limits, 2).value);
  }
  CHECK(of_a.refused() + of_b.refused() == 0);
  bed.pass(2s);
  CHECK(bed.bytes() <= (16 << 20) + (1 << 20));
}

TEST_CASE(
    "the files of one process stay below its ceiling, however small, and keep what is newest") {
  for (const std::int64_t ceiling : {1 << 20, 2 << 20, 24 << 20}) {
    CAPTURE(ceiling);
    SimBed bed;
    BlockStoreParams params = bed.params(1);
    params.limits.bytes = Bytes(ceiling);
    const auto store = bed.open(params);
    REQUIRE(transport::most_files(params.limits, 1).value <= ceiling);
    std::int64_t most = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Burst burst(*store, 100 * seed, 4);
      while (!burst.is_over()) {
        bed.pass(1ms);
        most = std::max(most, bed.bytes());
      }
      CHECK(burst.refused() == 0);
      CHECK(bed.loaded(*store, make_chain(100 * seed + 3, {2, 30'000})) == 2);
    }
    CHECK(most <= ceiling);
  }
}

TEST_CASE("a store makes room once it sees what another wrote, before it refuses anything") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(16 << 20);
  const auto store = bed.open(params);
  const auto other = bed.open(2);
  put(bed, *store, chains(0, 56, {8, 30'000}));  // 14 MiB
  bed.pass(2s);
  put(bed, *other, chains(1'000, 1'040, {8, 30'000}));
  CHECK(bed.loaded(*store, make_chain(1'039, {8, 30'000})) == 8);
  CHECK(bed.stored(*store, make_chain(56, {8, 30'000})) == 8);
}

TEST_CASE("beside others' files over its ceiling a store keeps what is newest, and they theirs") {
  SimBed bed;
  const auto other = bed.open(1);
  const auto before = chains(0, 40, {8, 30'000});
  put(bed, *other, before);
  BlockStoreParams params = bed.params(2);
  params.limits.bytes = Bytes(2 << 20);
  const auto store = bed.open(params);
  bed.pass(2s);
  for (std::uint64_t seed = 1'000; seed < 1'100; ++seed) {
    const BlockChain newest = make_chain(seed, {2, 30'000});
    CHECK(bed.stored(*store, newest) == 2);
    CHECK(bed.loaded(*store, newest) == 2);
  }
  bed.pass(2s);
  CHECK(bed.bytes() <= (40 * 8 * 32'768) + (6 << 20));
  CHECK(loaded(bed, *other, before) == 320);
}

TEST_CASE("over the ceiling for good, puts are refused by name") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(8 << 20);
  const auto store = bed.open(params);
  bed.verdict = [](transport::DiskCall call) {
    return call == transport::DiskCall::kRemove
               ? std::optional(Error{Code::kUnavailable, "nobody may remove"})
               : std::nullopt;
  };
  std::optional<Error> refusal;
  for (std::uint64_t seed = 0; seed < 100 && !refusal; ++seed) {
    const auto results = bed.put(*store, make_chain(seed, {8, 30'000}));
    if (!results[0]) {
      refusal = results[0].error();
    }
  }
  REQUIRE(refusal.has_value());
  CHECK(refusal->code == Code::kNoCapacity);
  CHECK(bed.bytes() <= (8 << 20) + (10 << 20));
}

TEST_CASE("who may not remove for a while loses no more by that than there is no room for") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.bytes = Bytes(8 << 20);
  const auto store = bed.open(params);
  bed.verdict = [](transport::DiskCall call) {
    return call == transport::DiskCall::kRemove
               ? std::optional(Error{Code::kUnavailable, "nobody may remove"})
               : std::nullopt;
  };
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    static_cast<void>(bed.put(*store, make_chain(seed, {8, 30'000})));
  }
  bed.pass(20s);
  bed.verdict = nullptr;
  bed.pass(3s);
  CHECK(bed.bytes() <= 8 << 20);
  CHECK(bed.bytes() >= (8 << 20) - (4 << 20));
  put(bed, *store, chains(1'000, 1'010, {8, 30'000}));
}

namespace {

// More chains than there is room for, of four blocks each.
std::vector<BlockChain> put_too_many(SimBed& bed, BlockStore& store) {
  const auto all = chains(0, 300, {4, 30'000});  // 37 MB
  for (const BlockChain& chain : all) {
    put(bed, store, {chain});
    bed.pass(100ms);
  }
  return all;
}

BlockStoreParams with_room(SimBed& bed, std::uint64_t writer, std::int64_t bytes) {
  BlockStoreParams params = bed.params(writer);
  params.limits.bytes = Bytes(bytes);
  return params;
}

}  // namespace

TEST_CASE("what a store evicted is not there for others nor after a restart") {
  SimBed bed;
  auto store = bed.open(with_room(bed, 1, 24 << 20));
  const auto all = put_too_many(bed, *store);
  bed.pass(15s);
  REQUIRE(store->use().evicted > 100);
  const auto other = bed.open(2);
  bed.pass(2s);
  CHECK(other->use().blocks == store->use().blocks);
  const std::size_t kept = loaded(bed, *store, all);
  store.reset();
  const auto again = bed.open(3);
  CHECK(loaded(bed, *again, all) == kept);
  CHECK(again->use().misses + static_cast<std::int64_t>(kept) == 1'200);
}

TEST_CASE("evictions that were not written before a crash are blocks that are there again, whole") {
  SimBed bed;
  auto disk = bed.disk.open();
  const auto store = static_cast<FileBed&>(bed).open(disk, with_room(bed, 1, 24 << 20));
  const auto all = put_too_many(bed, *store);
  const auto before = store->use().blocks;
  transport::SimDisk::sever(*disk);
  bed.pass(5s);
  const auto again = bed.open(3);
  bed.pass(2s);
  CHECK(again->use().blocks >= before);
  CHECK(static_cast<std::int64_t>(loaded(bed, *again, all)) == again->use().blocks);
  CHECK(again->use().corrupt == 0);
}

TEST_CASE("evictions take few writes and little room, and none without evictions") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.blocks = 4;
  {
    const auto writer = bed.open(1);
    put(bed, *writer, chains(0, 250));
  }
  std::int64_t writes = 0;
  bed.verdict = [&writes](transport::DiskCall call) -> std::optional<Error> {
    writes += call == transport::DiskCall::kWrite ? 1 : 0;
    return std::nullopt;
  };
  const std::int64_t before = bed.bytes();
  params.writer = IncarnationId{2};
  const auto store = bed.open(params);
  bed.pass(60s);
  CHECK(store->use().evicted == 996);
  CHECK(writes < 10);
  CHECK(bed.bytes() - before < 996 * 110 + 2 * 4'096);
  writes = 0;
  bed.pass(30s);
  CHECK(writes <= 1);  // its heartbeat
}

TEST_CASE("what a store with less room forgets of a living writer stays for others") {
  SimBed bed;
  const auto writer = bed.open(1);
  const auto all = chains(0, 5);
  put(bed, *writer, all);
  BlockStoreParams small = bed.params(2);
  small.limits.blocks = 4;
  const auto reader = bed.open(small);
  bed.pass(30s);
  CHECK(reader->use().blocks == 4);
  CHECK(loaded(bed, *writer, all) == 20);
  const auto third = bed.open(3);
  CHECK(loaded(bed, *third, all) == 20);
}

TEST_CASE("the number of blocks in the index has a ceiling") {
  SimBed bed;
  BlockStoreParams params = bed.params(1);
  params.limits.blocks = 10;
  const auto store = bed.open(params);
  put(bed, *store, chains(0, 5));
  bed.pass(2s);
  CHECK(store->use().blocks == 10);
  CHECK(store->use().evicted == 10);
}

TEST_CASE("a directory of another version is refused by name") {
  const TempDirectory directory;
  directory.write("shoal-kv", "shoal KV store, format 9\n");
  BlockStoreParams params = block_params();
  params.directory = directory.path();
  const auto store = transport::open_block_store("file", params);
  REQUIRE(!store.has_value());
  CHECK(store.error().code == Code::kMisconfigured);
  CHECK(store.error().message.find(directory.path().string()) != std::string::npos);
  CHECK(store.error().message.find("format 1") != std::string::npos);
}

TEST_CASE("a directory that cannot be is named") {
  const TempDirectory directory;
  directory.write("file", "");
  BlockStoreParams params = block_params();
  params.directory = directory.path() / "file" / "kv";
  const auto store = transport::open_block_store("file", params);
  REQUIRE(!store.has_value());
  CHECK(store.error().code == Code::kMisconfigured);
  CHECK(store.error().message.find("file/kv cannot be a directory") != std::string::npos);
}

TEST_CASE("files of others in the directory do not matter") {
  RealBed bed;
  bed.directory.write("README.txt", "hello");
  bed.directory.write("zz-chat-000001.kv", "not ours");
  bed.directory.write("0000000000000009-chat-000000.kv", "named like one of ours");
  bed.directory.write("0000000000000009-chat-000001.kv", std::string(20'000, 'x'));
  const auto store = bed.open(1);
  put(bed, *store, chains(0, 2));
  bed.pass(5s);
  bed.pass(100s);
  CHECK(loaded(bed, *store, chains(0, 2)) == 8);
  CHECK(store->use().corrupt == 0);
  CHECK(std::filesystem::exists(bed.directory.path() / "0000000000000009-chat-000001.kv"));
}
