// Two processes over one directory: one evicts, compacts and removes as fast as it can, the other
// reads what that wrote. SHOAL_SHARED_READS sets how often.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <doctest/doctest.h>
#include <new>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/block_samples.h"
#include "tests/transport/waits.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using shoal::test::TempDirectory;
using transport::BlockStore;
using transport::BlockStoreParams;
using transport::Loaded;

constexpr Bytes kFewSegments(4 << 20);
constexpr std::uint64_t kOwn = 1'000'000;  // seeds of the reader's chains

BlockStoreParams params(const TempDirectory& directory, std::uint64_t writer, Bytes ceiling) {
  BlockStoreParams params = block_params();
  params.directory = directory.path();
  params.writer = IncarnationId{writer};
  params.limits.bytes = ceiling;
  return params;
}

BlockChain chain_of(std::uint64_t number) {
  return make_chain(number, {4, 5'000});
}

// Chains that the child has acknowledged; in memory that both have.
using Acknowledged = std::atomic<std::uint64_t>;

// The child: a ceiling of a few segments, so that what it writes soon goes.
[[noreturn]] void churn(const TempDirectory& directory, Acknowledged& acknowledged) {
  auto store = transport::open_block_store("file", params(directory, 2, kFewSegments));
  while (store) {
    const auto results = put(**store, chain_of(acknowledged));
    if (std::any_of(results.begin(), results.end(), [](const auto& r) { return !r.has_value(); })) {
      break;
    }
    ++acknowledged;
  }
  ::_exit(1);
}

class Churning {
 public:
  explicit Churning(const TempDirectory& directory) {
    void* shared = ::mmap(
        nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    acknowledged_ = new (shared) Acknowledged(0);
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      churn(directory, *acknowledged_);
    }
  }

  ~Churning() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::munmap(acknowledged_, sizeof(Acknowledged));
  }

  Churning(const Churning&) = delete;
  Churning& operator=(const Churning&) = delete;

  // The last chain that was acknowledged by now, one that was not known before.
  std::uint64_t next() {
    const Instant end = later();
    while (*acknowledged_ == known_ && clock_now() < end) {
      ::sched_yield();
    }
    REQUIRE(*acknowledged_ > known_);
    known_ = *acknowledged_;
    return known_ - 1;
  }

 private:
  Acknowledged* acknowledged_ = nullptr;
  std::uint64_t known_ = 0;
  pid_t child_ = 0;
};

struct Seen {
  std::size_t right = 0;
  std::size_t gone = 0;
  std::size_t wrong = 0;  // bytes, or an error that is no miss
};

void look(BlockStore& store, const BlockChain& chain, Seen& seen) {
  const std::vector<Loaded> got = get(store, chain.wanted);
  const std::size_t right = equal(got, chain);
  const auto gone = static_cast<std::size_t>(std::count_if(got.begin(), got.end(), [](auto& l) {
    return !l.has_value() && l.error().code == Code::kNotFound;
  }));
  seen.right += right;
  seen.gone += gone;
  seen.wrong += got.size() - right - gone;
}

}  // namespace

TEST_CASE("what another process removes while it is read is the right bytes or a miss") {
  const TempDirectory directory;
  const char* reads = std::getenv("SHOAL_SHARED_READS");
  const std::uint64_t rounds = reads == nullptr ? 80 : std::stoull(reads);
  Churning other(directory);
  auto opened = transport::open_block_store("file", params(directory, 1, Bytes(1 << 30)));
  REQUIRE(opened.has_value());
  BlockStore& store = **opened;
  const BlockChain own = chain_of(kOwn);
  put(store, own);
  store.hold(own.keys.back(), std::chrono::hours(1));
  Seen seen;
  std::uint64_t last = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    last = other.next();
    look(store, chain_of(last), seen);
    look(store, chain_of(last - std::min(last, round * 7 % 150)), seen);
  }
  CHECK(seen.wrong == 0);
  CHECK(seen.right > rounds);
  CHECK(seen.gone > 0);
  CHECK(loaded(store, own) == own.keys.size());
  CHECK(store.use().corrupt == 0);
  CHECK(store.use().broken == 0);
  CHECK(store.use().failed == 0);
}

TEST_CASE("what a process acknowledged is there for it, however fast another fills the directory") {
  const TempDirectory directory;
  Churning other(directory);
  auto opened = transport::open_block_store("file", params(directory, 1, kFewSegments));
  REQUIRE(opened.has_value());
  Seen seen;
  for (std::uint64_t round = 0; round < 30; ++round) {
    CAPTURE(round);
    put(**opened, chain_of(kOwn + round));
    CHECK(loaded(**opened, chain_of(kOwn + round)) == 4);
    look(**opened, chain_of(other.next()), seen);
  }
  CHECK(seen.wrong == 0);
  CHECK(seen.right > seen.gone);
  CHECK((*opened)->use().corrupt == 0);
}
