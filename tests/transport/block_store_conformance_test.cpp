// What every row of the block store promises.
#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <thread>

#include "schemas/checksum.h"
#include "tests/transport/block_samples.h"
#include "tests/transport/block_store_rows.h"
#include "tests/transport/waits.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using transport::BlockStore;
using transport::BlockStoreParams;
using transport::Loaded;

bool all_stored(const std::vector<Result<void>>& results) {
  return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.has_value(); });
}

Code code_of(const Loaded& loaded) {
  REQUIRE(!loaded.has_value());
  return loaded.error().code;
}

}  // namespace

TEST_CASE_TEMPLATE("what was put is found and comes back as it was", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain chain = make_chain(1, {50, 9'000});
  CHECK(all_stored(put(*store, chain)));
  for (const BlockKey& key : chain.keys) {
    REQUIRE(store->find(key).has_value());
    CHECK(store->find(key)->ttl == TtlClass::kChat);
    CHECK(store->find(key)->provenance == Provenance::kExact);
  }
  CHECK(loaded(*store, chain) == 50);
  CHECK(store->use().blocks == 50);
  CHECK(store->use().bytes == Bytes(50 * kv_record_bytes(9'000)));
  CHECK(store->use().queued == Bytes(0));
  CHECK(!store->durable().empty());
}

TEST_CASE_TEMPLATE("a load sums each byte of its records once", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain chain = make_chain(1, {40, 9'000});
  CHECK(all_stored(put(*store, chain)));
  const std::int64_t before = checksum_work().bytes;
  CHECK(loaded(*store, chain) == 40);
  CHECK(checksum_work().bytes - before == 40 * (kKvHeaderBytes + 9'000));
}

TEST_CASE_TEMPLATE("payloads of all sizes, and several classes at once", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  std::uint64_t seed = 1;
  for (const std::size_t payload : {0, 1, 3'328, 3'329, 113'920}) {
    for (const TtlClass ttl : {TtlClass::kAgent, TtlClass::kChat, TtlClass::kPinned}) {
      const BlockChain chain = make_chain(++seed, {3, payload, ttl});
      CHECK(all_stored(put(*store, chain)));
      CHECK(loaded(*store, chain) == 3);
      CHECK(store->find(chain.keys[0])->ttl == ttl);
    }
  }
}

TEST_CASE_TEMPLATE("what is not there is a miss among hits", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  BlockChain chain = make_chain(1, {4});
  const BlockChain other = make_chain(2);
  CHECK(all_stored(put(*store, chain)));
  std::vector<KvWanted> wanted = chain.wanted;
  wanted.insert(wanted.begin() + 1, other.wanted[0]);
  const auto got = get(*store, wanted);
  CHECK(code_of(got[1]) == Code::kNotFound);
  CHECK(got[0].has_value());
  CHECK(got[4].has_value());
  CHECK(!store->find(other.keys[0]).has_value());
  CHECK(store->use().misses == 1);
  CHECK(get(*store, {}).empty());
}

TEST_CASE_TEMPLATE("a block asked for as another's is corrupt, counted and forgotten", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain chain = make_chain(1, {3});
  CHECK(all_stored(put(*store, chain)));
  std::vector<KvWanted> wanted = chain.wanted;
  wanted[0].parent.bytes[0] ^= std::byte{1};
  wanted[1].layout += 1;
  const auto got = get(*store, wanted);
  CHECK(code_of(got[0]) == Code::kCorrupt);
  CHECK(code_of(got[1]) == Code::kCorrupt);
  CHECK(got[2].has_value());
  CHECK(store->use().corrupt == 2);
  CHECK(store->use().blocks == 1);
  CHECK(!store->find(chain.keys[0]).has_value());
}

TEST_CASE_TEMPLATE("a damaged record is refused and never visible", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  BlockChain chain = make_chain(1, {4});
  chain.records[1][kKvHeaderBytes + 5] ^= std::byte{1};
  chain.records[2][20] ^= std::byte{1};
  chain.records[3].clear();
  const auto results = put(*store, chain);
  CHECK(results[0].has_value());
  for (const std::size_t i : {1, 2, 3}) {
    REQUIRE(!results[i].has_value());
    CHECK(results[i].error().code == Code::kCorrupt);
    CHECK(!store->find(chain.keys[i]).has_value());
  }
}

TEST_CASE_TEMPLATE("a block that is there is not written again", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain chain = make_chain(1, {8});
  CHECK(all_stored(put(*store, chain)));
  const auto before = store->use();
  CHECK(all_stored(put(*store, chain)));
  CHECK(all_stored(put(*store, make_chain(1, {8, 3'000, TtlClass::kChat, Provenance::kBounded}))));
  CHECK(store->use().bytes == before.bytes);
  CHECK(store->use().garbage == before.garbage);
  CHECK(loaded(*store, chain) == 8);
}

TEST_CASE_TEMPLATE("an exact record takes a bounded one's place, never the reverse", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain bounded = make_chain(1, {3, 3'000, TtlClass::kChat, Provenance::kBounded});
  const BlockChain exact = make_chain(1, {3});
  REQUIRE(bounded.keys == exact.keys);
  CHECK(all_stored(put(*store, bounded)));
  CHECK(store->find(exact.keys[1])->provenance == Provenance::kBounded);
  CHECK(longest_hit(*store, exact.keys, true) == 0);
  CHECK(longest_hit(*store, exact.keys, false) == 3);
  CHECK(all_stored(put(*store, exact)));
  CHECK(store->find(exact.keys[1])->provenance == Provenance::kExact);
  CHECK(loaded(*store, exact) == 3);
  CHECK(all_stored(put(*store, bounded)));
  CHECK(loaded(*store, exact) == 3);
  CHECK(longest_hit(*store, exact.keys, true) == 3);
  CHECK(store->use().blocks == 3);
}

TEST_CASE_TEMPLATE("a dropped block is gone and may come again", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  const BlockChain chain = make_chain(1, {3});
  CHECK(all_stored(put(*store, chain)));
  CHECK(store->drop(chain.keys[2]));
  CHECK(!store->drop(chain.keys[2]));
  CHECK(!store->find(chain.keys[2]).has_value());
  CHECK(code_of(get(*store, {chain.wanted[2]}).at(0)) == Code::kNotFound);
  CHECK(all_stored(put(*store, chain)));
  CHECK(loaded(*store, chain) == 3);
}

TEST_CASE_TEMPLATE("a block past its lifetime is not there until it is written again", Row, ROWS) {
  Row row;
  BlockStoreParams params = block_params();
  const auto wall = std::make_shared<std::atomic<WallMillis>>(params.wall());
  params.wall = [wall] { return wall->load(); };
  const auto store = row.open(params);
  const BlockChain agent = make_chain(1, {5, 3'000, TtlClass::kAgent});
  const BlockChain leased = make_chain(2, {5, 3'000, TtlClass::kAgent});
  CHECK(all_stored(put(*store, agent)));
  CHECK(all_stored(put(*store, leased)));
  store->hold(leased.keys[3], std::chrono::hours(100));
  *wall += WallMillis{73} * 3'600'000;
  CHECK_FALSE(store->find(agent.keys[0]).has_value());
  CHECK(transport::longest_hit(*store, agent.keys, false) == 0);
  CHECK(loaded(*store, agent) == 0);
  CHECK(loaded(*store, leased) == 4);
  store->touch(agent.keys[4], 0);
  CHECK(loaded(*store, agent) == 0);
  CHECK(all_stored(put(*store, agent)));
  CHECK(loaded(*store, agent) == 5);
}

TEST_CASE_TEMPLATE("the longest hit is the number of leading blocks", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  for (std::size_t blocks = 0; blocks <= 9; ++blocks) {
    const BlockChain there = make_chain(10 + blocks, {blocks});
    CHECK(all_stored(put(*store, there)));
    CHECK(longest_hit(*store, make_chain(10 + blocks, {9}).keys, false) == blocks);
  }
  CHECK(longest_hit(*store, {}, false) == 0);
}

TEST_CASE_TEMPLATE("what waits to be written has a ceiling", Row, QUEUEING_ROWS) {
  Row row;
  BlockStoreParams params = block_params();
  params.limits.queued = Bytes(10 * kv_record_bytes(3'000));
  const auto store = row.open(params);
  const auto results = put(*store, make_chain(1, {15}));
  CHECK(std::count_if(
            results.begin(), results.end(), [](const auto& r) { return r.has_value(); }) == 10);
  CHECK(results[14].error().code == Code::kNoCapacity);
  CHECK(all_stored(put(*store, make_chain(2, {10}))));
}

TEST_CASE_TEMPLATE("gets over the ceiling of what is loading wait and are answered", Row, ROWS) {
  Row row;
  BlockStoreParams params = block_params();
  params.limits.loading = Bytes(4 * kv_record_bytes(3'000));
  const auto store = row.open(params);
  const BlockChain chain = make_chain(1, {10});
  CHECK(all_stored(put(*store, chain)));
  Inbox<std::size_t> answers;
  for (int i = 0; i < 20; ++i) {
    store->get(chain.wanted, later(), [&](const std::vector<Loaded>& got) {
      answers.put(equal(got, chain));
    });
  }
  CHECK(answers.wait(20) == std::vector<std::size_t>(20, 10));
}

TEST_CASE_TEMPLATE("the number of blocks has a ceiling", Row, MemoryRow) {
  Row row;
  BlockStoreParams params = block_params();
  params.limits.blocks = 5;
  const auto store = row.open(params);
  CHECK(all_stored(put(*store, make_chain(1, {9}))));
  CHECK(store->use().blocks == 5);
  CHECK(store->use().evicted == 4);
}

TEST_CASE_TEMPLATE("what was asked is answered once also when the store stops", Row, ROWS) {
  for (int round = 0; round < 20; ++round) {
    Row row;
    const auto store = row.open(block_params());
    const BlockChain chain = make_chain(1, {5});
    std::atomic<int> puts = 0;
    std::atomic<int> gets = 0;
    for (int i = 0; i < 10; ++i) {
      store->put(chain.records,
                 [&puts](const std::vector<Result<void>>& r) { puts += r.size() == 5; });
      store->get(
          chain.wanted, later(), [&gets](const std::vector<Loaded>& r) { gets += r.size() == 5; });
    }
    store->stop();
    CHECK(puts == 10);
    CHECK(gets == 10);
    store->stop();
  }
}

TEST_CASE_TEMPLATE("a stopped store refuses on the caller's thread", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  store->stop();
  const BlockChain chain = make_chain(1, {2});
  std::vector<Result<void>> stored;
  std::vector<Loaded> got;
  store->put(chain.records, [&stored](std::vector<Result<void>> r) { stored = std::move(r); });
  store->get(chain.wanted, later(), [&got](std::vector<Loaded> r) { got = std::move(r); });
  REQUIRE(stored.size() == 2);
  CHECK(stored[0].error().code == Code::kUnavailable);
  REQUIRE(got.size() == 2);
  CHECK(code_of(got[0]) == Code::kUnavailable);
  CHECK(!store->drop(chain.keys[0]));
  store->touch(chain.keys[0], 0);
}

TEST_CASE_TEMPLATE("many threads put and get the same and different blocks", Row, ROWS) {
  Row row;
  const auto store = row.open(block_params());
  constexpr int kThreads = 6;
  std::atomic<std::size_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&store, &wrong, t] {
      for (std::uint64_t i = 0; i < 12; ++i) {
        const BlockChain shared = make_chain(i, {6});
        const BlockChain own =
            make_chain(1'000 + i * kThreads + static_cast<std::uint64_t>(t), {3});
        wrong += !all_stored(put(*store, shared)) || !all_stored(put(*store, own));
        store->touch(shared.keys.back(), 0);
        wrong += loaded(*store, shared) != 6 || loaded(*store, own) != 3;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(store->use().blocks == 12 * 6 + 12 * kThreads * 3);
}

TEST_CASE("a row that does not exist is named") {
  const auto store = transport::open_block_store("paper", block_params());
  REQUIRE(!store.has_value());
  CHECK(store.error().code == Code::kMisconfigured);
  CHECK(store.error().message.find("'paper'") != std::string::npos);
}
