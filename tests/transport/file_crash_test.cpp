// SIGKILL of a writing process at random moments: afterwards nothing acknowledged is missing and
// everything visible verifies. SHOAL_CRASHES sets how often, SHOAL_CRASH_SEED where it begins.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <poll.h>
#include <random>
#include <string>
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

constexpr std::uint64_t kChainsOfLife = 100'000;
constexpr std::uint64_t kAtOnce = 4;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

BlockStoreParams params(const TempDirectory& directory, std::uint64_t writer) {
  BlockStoreParams params = block_params();
  params.directory = directory.path();
  params.writer = IncarnationId{writer};
  params.way = writer % 2 == 0 ? transport::FileWay::kThreads : transport::FileWay::kAny;
  return params;
}

BlockChain chain_of(std::uint64_t life, std::uint64_t number) {
  const std::uint64_t seed = life * kChainsOfLife + number;
  const auto ttl = static_cast<TtlClass>(seed % kTtlClasses);
  return make_chain(seed, {1 + seed % 5, 1'000 + seed % 7 * 9'000, ttl});
}

// The child: writes chains for ever, and says which are acknowledged.
[[noreturn]] void write_chains(const TempDirectory& directory, std::uint64_t life, int pipe) {
  auto store = transport::open_block_store("file", params(directory, life));
  if (!store) {
    ::_exit(1);
  }
  Inbox<bool> answers;
  for (std::uint64_t number = 0;; ++number) {
    (*store)->put(chain_of(life, number).records,
                  [&answers, pipe, number](const std::vector<Result<void>>& results) {
                    const bool stored = std::all_of(results.begin(),
                                                    results.end(),
                                                    [](const auto& r) { return r.has_value(); });
                    if (stored && ::write(pipe, &number, sizeof number) != sizeof number) {
                      ::_exit(2);
                    }
                    answers.put(stored);
                  });
    if (number >= kAtOnce) {
      answers.wait(number - kAtOnce);
    }
  }
}

// The numbers of the chains that were acknowledged by a process that was killed: at some moment
// after `enough` of them.
std::vector<std::uint64_t> live_and_die(const TempDirectory& directory,
                                        std::uint64_t life,
                                        std::uint64_t enough,
                                        timespec longer) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    write_chains(directory, life, ends[1]);
  }
  ::close(ends[1]);
  std::vector<std::uint64_t> acknowledged;
  std::uint64_t number = 0;
  while (acknowledged.size() < enough && ::read(ends[0], &number, sizeof number) > 0) {
    acknowledged.push_back(number);
  }
  REQUIRE(acknowledged.size() == enough);
  ::ppoll(nullptr, 0, &longer, nullptr);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  while (::read(ends[0], &number, sizeof number) > 0) {
    acknowledged.push_back(number);
  }
  ::close(ends[0]);
  return acknowledged;
}

void check_life(BlockStore& store, std::uint64_t life, const std::vector<std::uint64_t>& known) {
  const std::uint64_t last = *std::max_element(known.begin(), known.end());
  for (std::uint64_t number = 0; number <= last + 2 * kAtOnce; ++number) {
    const BlockChain chain = chain_of(life, number);
    const auto got = get(store, chain.wanted);
    const auto there = static_cast<std::size_t>(
        std::count_if(got.begin(), got.end(), [](const auto& l) { return l.has_value(); }));
    CHECK(equal(got, chain) == there);
    const bool is_known = std::find(known.begin(), known.end(), number) != known.end();
    CHECK((!is_known || there == got.size()));
  }
}

}  // namespace

TEST_CASE("a writer killed at any moment loses nothing acknowledged and shows nothing torn") {
  const TempDirectory directory;
  const std::uint64_t crashes = setting("SHOAL_CRASHES", 30);
  const std::uint64_t seed = setting("SHOAL_CRASH_SEED", 1);
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::uint64_t>> known{{}};
  for (std::uint64_t life = 1; life <= crashes; ++life) {
    INFO("seed " << seed << ", life " << life);
    const std::uint64_t enough = 1 + random() % 20;
    const timespec longer{0, static_cast<long>(random() % 3'000'000)};
    known.push_back(live_and_die(directory, life, enough, longer));
    auto store = transport::open_block_store("file", params(directory, 1'000'000 + life));
    REQUIRE(store.has_value());
    check_life(**store, life, known.back());
    CHECK((*store)->use().corrupt == 0);
  }
  auto store = transport::open_block_store("file", params(directory, 2'000'000));
  REQUIRE(store.has_value());
  for (std::uint64_t life = 1; life <= crashes; ++life) {
    check_life(**store, life, known[life]);
  }
  CHECK((*store)->use().corrupt == 0);
}
