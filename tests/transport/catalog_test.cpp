// What a file store knows of its segments, and what it forgets.
#include "transport/file_store/catalog.h"

#include <doctest/doctest.h>
#include <vector>

#include "tests/transport/block_samples.h"

using namespace shoal;
using namespace shoal::testing;
using namespace shoal::transport;

namespace {

constexpr SegmentName kFirst{IncarnationId{1}, TtlClass::kChat, 0};
constexpr SegmentName kSecond{IncarnationId{1}, TtlClass::kChat, 1};

BlockStoreParams params(std::uint64_t writer) {
  BlockStoreParams params = block_params();
  params.writer = IncarnationId{writer};
  return params;
}

IndexEntry block(const BlockChain& chain, std::size_t i, std::uint32_t page) {
  IndexEntry entry;
  entry.key = chain.keys[i];
  entry.number = static_cast<std::uint32_t>(i);
  entry.page = page;
  entry.pages = 2;
  return entry;
}

IndexEntry drop(const BlockKey& key, const SegmentName& from, std::uint32_t page) {
  IndexEntry entry;
  entry.kind = EntryKind::kDrop;
  entry.key = key;
  entry.dropped = from;
  entry.page = page;
  return entry;
}

bool is_busy(std::uint32_t /*id*/) {
  return false;
}

}  // namespace

TEST_CASE("catalog: segments that went are not kept, however many there were") {
  const BlockStoreParams of = params(2);
  Catalog catalog(of);
  const BlockChain chain = make_chain(1, {1});
  for (std::uint32_t n = 0; n < 1'000; ++n) {
    const std::uint32_t id = catalog.segment({IncarnationId{1}, TtlClass::kChat, n});
    catalog.apply(id, std::vector{block(chain, 0, 1)});
    CHECK(catalog.find(chain.keys[0])->segment.number == n);
    catalog.set_gone(id);
    catalog.forget_gone(is_busy);
    CHECK(catalog.segments().empty());
    CHECK(catalog.is_gone(id));
  }
  CHECK(catalog.blocks() == 0);
  CHECK(catalog.medium() == Bytes(0));
}

TEST_CASE("catalog: of a segment that went and that somebody is busy with the number holds") {
  const BlockStoreParams of = params(2);
  Catalog catalog(of);
  const std::uint32_t busy = catalog.segment(kFirst);
  catalog.set_gone(busy);
  catalog.forget_gone([busy](std::uint32_t id) { return id == busy; });
  CHECK(catalog.at(busy).name == kFirst);
  CHECK(catalog.is_gone(kFirst));
  catalog.forget_gone(is_busy);
  CHECK(catalog.segment(kSecond) != busy);
}

TEST_CASE("catalog: a drop counts before and after its block, and for that record alone") {
  const BlockStoreParams of = params(2);
  const BlockChain chain = make_chain(1, {1});
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    Catalog catalog(of);
    const std::vector<IndexEntry> drops{drop(chain.keys[0], kFirst, 1)};
    if (is_first) {
      catalog.apply(catalog.segment(kSecond), drops);
    }
    catalog.apply(catalog.segment(kFirst), std::vector{block(chain, 0, 1)});
    catalog.apply(catalog.segment(kSecond), drops);
    CHECK(!catalog.find(chain.keys[0]));
    catalog.apply(catalog.segment(kFirst), std::vector{block(chain, 0, 3)});
    CHECK(catalog.find(chain.keys[0])->place.page == 3);
  }
}

TEST_CASE("catalog: a drop from a place that cannot be takes no memory") {
  const BlockStoreParams of = params(2);
  Catalog catalog(of);
  const BlockChain chain = make_chain(1, {1});
  catalog.apply(catalog.segment(kSecond), std::vector{drop(chain.keys[0], kFirst, 0xFFFFFFFF)});
  CHECK(catalog.at(catalog.segment(kFirst)).dropped.empty());
}

TEST_CASE("catalog: a drop from a segment of this process that went makes no segment") {
  const BlockStoreParams of = params(1);
  Catalog catalog(of);
  catalog.note(catalog.segment(kSecond), drop({}, kFirst, 1));
  CHECK(catalog.segments().size() == 1);
}
