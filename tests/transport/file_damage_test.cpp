// A file store whose files are damaged, cut, swapped, or whose disk refuses, fills up, hangs or
// loses power: every visible block verifies, and every operation is called back.
#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <sys/mount.h>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/file_bed.h"
#include "tests/transport/forwarding_io.h"
#include "tests/transport/waits.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using namespace std::chrono_literals;
using shoal::test::TempDirectory;
using transport::BlockStore;
using transport::BlockStoreParams;
using transport::DiskCall;
using transport::Loaded;

// A store that was written and stopped; each look at it is by a new process.
struct Written {
  SimBed bed;
  BlockChain chain = make_chain(1, {60, 4'000});
  std::uint64_t processes = 1;

  Written() {
    const auto store = bed.open(1);
    for (std::size_t at = 0; at < chain.records.size(); at += 7) {
      BlockChain some;
      for (std::size_t i = at; i < std::min(at + 7, chain.records.size()); ++i) {
        some.records.push_back(chain.records[i]);
        some.keys.push_back(chain.keys[i]);
      }
      REQUIRE(bed.stored(*store, some) == some.keys.size());
    }
  }

  std::vector<std::byte>& file() { return bed.disk.content(bed.segments().at(0)); }

  // How many blocks a new process gets back; what it gets must be right. What it wrote about
  // damage is taken away again.
  std::size_t good() {
    const std::size_t there = look();
    const auto io = bed.disk.open();
    while (bed.segments().size() > 1) {
      REQUIRE(io->remove(bed.segments().back()).has_value());
    }
    return there;
  }

  std::size_t look() {
    const auto store = bed.open(++processes);
    const auto got = bed.get(*store, chain.wanted);
    std::size_t there = 0;
    for (const Loaded& loaded : got) {
      there += loaded.has_value();
    }
    CHECK(equal(got, chain) == there);
    corrupt = store->use().corrupt;
    return there;
  }

  std::int64_t corrupt = 0;
};

// By a new process that has read everything, so also what was dropped.
std::size_t loaded_once_open(Written& written) {
  const auto store = written.bed.open(++written.processes);
  written.bed.pass(1s);
  REQUIRE(!store->use().opening);
  const std::size_t loaded = written.bed.loaded(*store, written.chain);
  CHECK(store->use().corrupt == 0);
  return loaded;
}

std::optional<Error> full(DiskCall call) {
  return call == DiskCall::kWrite
             ? std::optional(Error{Code::kNoCapacity, "simulated disk: no space left"})
             : std::nullopt;
}

}  // namespace

TEST_CASE("a bit flipped anywhere in a segment costs blocks, never a wrong one") {
  Written written;
  REQUIRE(written.good() == 60);
  const std::size_t size = written.file().size();
  for (std::size_t at = 11; at < size; at += 997) {
    written.file()[at] ^= std::byte{4};
    // A damaged index page hides the group before it, a damaged header nothing.
    CHECK(written.good() >= (at < 4'096 ? 60 : 60 - 7));
    written.file()[at] ^= std::byte{4};
  }
  CHECK(written.good() == 60);
  CHECK(written.corrupt == 0);
}

TEST_CASE("a flipped bit in a record costs that block, and is counted") {
  Written written;
  written.file()[4'096 + 900] ^= std::byte{1};
  CHECK(written.good() == 59);
  CHECK(written.corrupt == 1);
}

TEST_CASE("a damaged block that one process found is written again by any other, and stays") {
  Written written;
  const auto finder = written.bed.open(++written.processes);
  const auto other = written.bed.open(++written.processes);
  REQUIRE(written.bed.loaded(*finder, written.chain) == 60);
  REQUIRE(written.bed.loaded(*other, written.chain) == 60);
  written.file()[4'096 + 900] ^= std::byte{1};
  CHECK(written.bed.loaded(*finder, written.chain) == 59);
  written.bed.pass(3s);
  CHECK(!other->find(written.chain.keys[0]).has_value());
  CHECK(written.bed.stored(*other, written.chain) == 60);
  CHECK(written.bed.loaded(*other, written.chain) == 60);
  CHECK(other->use().corrupt == 0);
  written.bed.pass(3s);
  CHECK(written.bed.loaded(*finder, written.chain) == 60);
  CHECK(loaded_once_open(written) == 60);
}

TEST_CASE("a damaged block that is put again in the group that drops it is there after a restart") {
  Written written;
  {
    const auto store = written.bed.open(++written.processes);
    written.file()[4'096 + 900] ^= std::byte{1};
    CHECK(written.bed.loaded(*store, written.chain) == 59);
    CHECK(written.bed.stored(*store, written.chain) == 60);
    written.bed.pass(3s);
  }
  CHECK(loaded_once_open(written) == 60);
}

TEST_CASE("a good block that is asked for as another's is not dropped for others") {
  Written written;
  const auto asker = written.bed.open(++written.processes);
  const auto other = written.bed.open(++written.processes);
  std::vector<KvWanted> wanted = written.chain.wanted;
  wanted[0].layout += 1;
  CHECK(!written.bed.get(*asker, wanted)[0].has_value());
  written.bed.pass(30s);
  CHECK(written.bed.loaded(*other, written.chain) == 60);
}

TEST_CASE("a damaged index page costs no block of another") {
  Written written;
  // Pages of 42 entries: the first full one is followed by others. Damage each page in turn.
  const std::size_t pages = written.file().size() / 4'096;
  std::size_t worst = 60;
  for (std::size_t page = 1; page < pages; ++page) {
    written.file()[page * 4'096 + 100] ^= std::byte{1};
    worst = std::min(worst, written.good());
    written.file()[page * 4'096 + 100] ^= std::byte{1};
  }
  // The last page covers at most its own group on top of what an earlier one says.
  CHECK(worst >= 60 - 7);
}

TEST_CASE("a segment cut anywhere gives what was before the cut") {
  Written written;
  const std::vector<std::byte> whole = written.file();
  std::size_t last = 0;
  for (std::size_t size = 0; size <= whole.size(); size += 1'536) {
    written.file() = whole;
    written.file().resize(size);
    const std::size_t good = written.good();
    CHECK(good >= last);
    last = good;
  }
  written.file() = whole;
  CHECK(written.good() == 60);
}

TEST_CASE("swapped segments and a segment under another's name are refused") {
  SimBed bed;
  const BlockChain first = make_chain(1, {5});
  const BlockChain second = make_chain(2, {5});
  for (std::uint64_t writer : {1, 2}) {
    const auto store = bed.open(writer);
    REQUIRE(bed.stored(*store, writer == 1 ? first : second) == 5);
  }
  const auto names = bed.segments();
  REQUIRE(names.size() == 2);
  std::swap(bed.disk.content(names[0]), bed.disk.content(names[1]));
  const auto store = bed.open(3);
  CHECK(bed.loaded(*store, first) == 0);
  CHECK(bed.loaded(*store, second) == 0);
  CHECK(store->use().corrupt == 2);
}

TEST_CASE("records swapped under valid index pages are refused one by one") {
  Written written;
  auto& file = written.file();
  std::swap_ranges(file.begin() + 4'096, file.begin() + 12'288, file.begin() + 12'288);
  CHECK(written.good() == 58);
  CHECK(written.corrupt == 2);
}

TEST_CASE("blocks of another model or layout are never hit") {
  Written written;
  const auto store = written.bed.open(9);
  std::vector<KvWanted> wanted = written.chain.wanted;
  for (KvWanted& want : wanted) {
    want.layout ^= 1;
  }
  const auto got = written.bed.get(*store, wanted);
  CHECK(std::none_of(got.begin(), got.end(), [](const Loaded& l) { return l.has_value(); }));
  CHECK(store->use().corrupt == 60);
}

TEST_CASE("a full disk fails puts by name, reads go on, and it recovers by itself") {
  SimBed bed;
  const auto store = bed.open(1);
  const BlockChain before = make_chain(1, {5});
  REQUIRE(bed.stored(*store, before) == 5);
  bed.verdict = full;
  const auto failed = bed.put(*store, make_chain(2, {5}));
  for (const auto& result : failed) {
    REQUIRE(!result.has_value());
    CHECK(result.error().code == Code::kNoCapacity);
    CHECK(result.error().message.find("no space left") != std::string::npos);
  }
  CHECK(!store->use().writable);
  CHECK(store->use().failed >= 1);
  CHECK(store->use().queued == Bytes(0));
  CHECK(bed.loaded(*store, before) == 5);
  CHECK(!bed.put(*store, make_chain(3, {5})).at(0).has_value());
  bed.verdict = nullptr;
  bed.pass(3s);
  CHECK(store->use().writable);
  CHECK(bed.stored(*store, make_chain(2, {5})) == 5);
  const auto again = bed.open(2);
  CHECK(bed.loaded(*again, before) == 5);
  CHECK(bed.loaded(*again, make_chain(2, {5})) == 5);
  CHECK(bed.loaded(*again, make_chain(3, {5})) == 0);
}

TEST_CASE("whichever call of a put fails, it is not acknowledged, and the next one works") {
  for (const DiskCall failing : {DiskCall::kWrite, DiskCall::kSync}) {
    for (int nth = 0; nth < 8; ++nth) {
      SimBed bed;
      const auto store = bed.open(1);
      bed.pass(1s);
      const BlockChain chain = make_chain(1, {3});
      int calls = 0;
      bed.verdict = [&](DiskCall call) {
        const bool fails = call == failing && calls++ == nth;
        return fails ? std::optional(Error{Code::kUnavailable, "simulated disk: I/O error"})
                     : std::nullopt;
      };
      const std::size_t stored = bed.stored(*store, chain);
      bed.verdict = nullptr;
      CHECK((stored == 0 || calls <= nth));
      CHECK(bed.loaded(*store, chain) == stored);
      bed.pass(3s);
      CHECK(bed.stored(*store, chain) == 3);
      CHECK(bed.loaded(*bed.open(2), chain) == 3);
    }
  }
}

TEST_CASE("a disk that fails reads gives errors, and its blocks are still there afterwards") {
  SimBed bed;
  const auto store = bed.open(1);
  const BlockChain chain = make_chain(1, {5});
  REQUIRE(bed.stored(*store, chain) == 5);
  bed.verdict = [](DiskCall call) {
    return call == DiskCall::kRead
               ? std::optional(Error{Code::kUnavailable, "simulated disk: I/O error"})
               : std::nullopt;
  };
  for (const Loaded& loaded : bed.get(*store, chain.wanted)) {
    REQUIRE(!loaded.has_value());
    CHECK(loaded.error().code == Code::kUnavailable);
  }
  CHECK(store->use().failed == 5);
  bed.verdict = nullptr;
  CHECK(bed.loaded(*store, chain) == 5);
}

TEST_CASE("power loss at any moment: what was acknowledged is there, what is there verifies") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::uint64_t n) { return random() % n; };
    SimBed bed;
    std::map<std::uint64_t, bool> acknowledged;  // by the seed of a chain
    for (std::uint64_t life = 0; life < 3; ++life) {
      auto disk = bed.disk.open();
      auto store = static_cast<FileBed&>(bed).open(disk, bed.params(life + 1));
      for (std::uint64_t i = 0; i < 6; ++i) {
        const std::uint64_t name = 100 * life + i;
        acknowledged[name] = false;
        store->put(make_chain(name, {3}).records, [&, name](const std::vector<Result<void>>& r) {
          acknowledged[name] = std::all_of(
              r.begin(), r.end(), [](const auto& result) { return result.has_value(); });
        });
      }
      // From one of its calls on the disk does nothing any more.
      std::uint64_t calls_left = below(40);
      bed.verdict = [&](DiskCall) {
        calls_left -= calls_left > 0;
        return calls_left == 0 ? std::optional(Error{Code::kUnavailable, "power is lost"})
                               : std::nullopt;
      };
      bed.pass(std::chrono::milliseconds(below(50)));
      transport::SimDisk::sever(*disk);
      const auto before = acknowledged;
      store.reset();
      acknowledged = before;
      bed.verdict = nullptr;
      bed.disk.lose_power(below);
    }
    const auto again = bed.open(9);
    for (const auto& [name, was_acknowledged] : acknowledged) {
      const BlockChain chain = make_chain(name, {3});
      const auto got = bed.get(*again, chain.wanted);
      std::size_t there = 0;
      for (const Loaded& loaded : got) {
        there += loaded.has_value();
      }
      INFO("seed " << seed << " chain " << name);
      CHECK(equal(got, chain) == there);
      CHECK((!was_acknowledged || there == 3));
    }
    CHECK(again->use().corrupt == 0);
  }
}

TEST_CASE("a mount that hangs: every operation is called back by its deadline") {
  FileBed bed;
  transport::SimDisk disk([&bed] { return bed.wall(); });
  bool hangs = false;
  std::vector<std::function<void()>> hanging;
  const auto store = transport::make_file_store(
      bed.params(1), disk.open(), bed.scheduler.port(), [&](transport::Lane, auto job) {
        hangs ? hanging.push_back(job) : bed.scheduler.port().defer(Nanos(0), job);
      });
  const BlockChain chain = make_chain(1, {5});
  REQUIRE(bed.stored(*store, chain) == 5);
  hangs = true;
  std::vector<Loaded> got;
  std::vector<Result<void>> stored;
  store->get(chain.wanted, bed.scheduler.now() + 3s, [&](std::vector<Loaded> r) { got = r; });
  store->put(make_chain(2).records, [&](std::vector<Result<void>> r) { stored = std::move(r); });
  bed.pass(2'999ms);
  CHECK(got.empty());
  bed.pass(1ms);
  REQUIRE(got.size() == 5);
  CHECK(got[0].error().code == Code::kDeadline);
  CHECK(store->use().loading == Bytes(std::ssize(chain.records[0]) * 5));
  bed.pass(30s);
  REQUIRE(stored.size() == 1);
  CHECK(stored[0].error().code == Code::kDeadline);
  CHECK(store->find(chain.keys[0]).has_value());
  // It comes back: what hung is done, late, and the store works.
  hangs = false;
  for (const auto& job : hanging) {
    job();
  }
  bed.pass(5s);
  CHECK(bed.loaded(*store, chain) == 5);
  CHECK(bed.stored(*store, make_chain(3)) == 1);
  CHECK(store->use().queued == Bytes(0));
  CHECK(store->use().loading == Bytes(0));
}

TEST_CASE(
    "a block's lifetime begins when it is put, however long the mount hangs, whatever clocks do") {
  FileBed bed;
  transport::SimDisk disk([&bed] { return bed.wall(); });
  std::optional<std::vector<std::function<void()>>> hanging;
  const auto store = transport::make_file_store(
      bed.params(1), disk.open(), bed.scheduler.port(), [&](transport::Lane, auto job) {
        hanging ? hanging->push_back(job) : bed.scheduler.port().defer(Nanos(0), job);
      });
  bed.pass(1s);
  hanging.emplace();
  const BlockChain first = make_chain(1, {2});
  const BlockChain second = make_chain(2, {2});
  store->put(first.records, [](const std::vector<Result<void>>&) {});
  bed.pass(10ms);
  store->put(second.records, [](const std::vector<Result<void>>&) {});  // behind the first group
  bed.jump(180h);
  const auto held = *std::exchange(hanging, std::nullopt);
  for (const auto& job : held) {
    job();
  }
  bed.pass(100ms);
  CHECK(bed.loaded(*store, first) == 0);
  CHECK(bed.loaded(*store, second) == 0);
  CHECK(bed.stored(*store, second) == 2);
  CHECK(bed.loaded(*store, second) == 2);
}

TEST_CASE("a mount that hangs is counted as long as it does, one that nobody asks is not") {
  FileBed bed;
  transport::SimDisk disk([&bed] { return bed.wall(); });
  bool hangs = false;
  std::vector<std::function<void()>> hanging;
  const auto store = transport::make_file_store(
      bed.params(1), disk.open(), bed.scheduler.port(), [&](transport::Lane, auto job) {
        hangs ? hanging.push_back(job) : bed.scheduler.port().defer(Nanos(0), job);
      });
  bed.pass(60s);
  CHECK(store->use().failed == 0);
  hangs = true;
  bed.pass(5s);
  CHECK(store->use().failed == 1);
  CHECK(!store->use().answers);
  bed.pass(9s);
  CHECK(store->use().failed == 4);
  CHECK(!store->use().answers);
  hangs = false;
  for (const auto& job : hanging) {
    job();
  }
  bed.pass(2s);
  CHECK(store->use().answers);
  bed.pass(58s);
  CHECK(store->use().failed == 4);
}

TEST_CASE("a small disk that fills up, then is read-only") {
  const TempDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
    MESSAGE("skipped: this process may not mount a small tmpfs");
    return;
  }
  {
    BlockStoreParams params = block_params();
    params.directory = directory.path();
    auto store = transport::open_block_store("file", params);
    REQUIRE(store.has_value());
    const BlockChain first = make_chain(1, {3, 100'000});
    for (const auto& result : put(**store, first)) {
      CHECK(result.has_value());
    }
    const auto results = put(**store, make_chain(2, {30, 100'000}));
    REQUIRE(!results[0].has_value());
    CHECK(results[0].error().code == Code::kNoCapacity);
    CHECK(!(*store)->use().writable);
    CHECK(loaded(**store, first) == 3);
    store->reset();
    REQUIRE(::mount("tmpfs", directory.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0);
    params.writer = IncarnationId{2};
    store = transport::open_block_store("file", params);
    REQUIRE(store.has_value());
    CHECK(loaded(**store, first) == 3);
    const auto refused = put(**store, make_chain(3));
    REQUIRE(!refused[0].has_value());
    CHECK(refused[0].error().code == Code::kUnavailable);
    CHECK(refused[0].error().message.find("Read-only") != std::string::npos);
    CHECK(!(*store)->use().writable);
    CHECK(loaded(**store, first) == 3);
  }
  CHECK(::umount(directory.path().c_str()) == 0);
}

namespace {

// A disk whose reads hang until the gate opens; shared, since they outlive the store.
class HangingIo final : public ForwardingIo {
 public:
  using ForwardingIo::ForwardingIo;

  int depth() const override { return 1; }

  void read(std::span<Read> reads) override {
    gate.pass();
    ForwardingIo::read(reads);
  }

  Gate gate;
};

}  // namespace

TEST_CASE("threads that hang in the system hold neither gets nor the end of the store") {
  transport::SimDisk disk([] { return WallMillis{1'780'000'000'000}; });
  const auto io = std::make_shared<HangingIo>(disk.open());
  const BlockChain chain = make_chain(1, {5});
  const auto store = transport::make_file_store(block_params(), io);
  for (const auto& result : put(*store, chain)) {
    CHECK(result.has_value());
  }
  Inbox<std::vector<Loaded>> answers;
  for (int i = 0; i < 10; ++i) {
    store->get(chain.wanted, clock_now() + 20ms, [&answers](std::vector<Loaded> loaded) {
      answers.put(std::move(loaded));
    });
  }
  for (const auto& loaded : answers.wait(10)) {
    REQUIRE(loaded.size() == 5);
    CHECK(loaded[0].error().code == Code::kDeadline);
  }
  CHECK(store->find(chain.keys[0]).has_value());
  store->stop();
  io->gate.open();
}
