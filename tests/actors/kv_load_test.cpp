// What a load comes to, whatever its blocks do meanwhile.
#include "actors/kv_load.h"

#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/actors/kv_shelf.h"

using namespace shoal;
using testing::KvPrompt;
using testing::KvShelf;

namespace {

constexpr Reach kReach{.window = 128, .encoder_layers = 1, .decoder_layers = 1};

struct Bed {
  explicit Bed(BasisMode mode = BasisMode::kBounded) : prompt(7, mode) { prompt.shelve(shelf); }

  // Of all that is found.
  KvLoad begin() {
    const KvFound found = search.find(prompt.submission, prompt.names, {}).found;
    auto placement = std::make_shared<Placement>();
    placement->submission = std::make_shared<const Submission>(prompt.submission);
    placement->kv = std::make_shared<const KvNames>(prompt.names);
    placement->span.reuse = found.reuse;
    placement->lineage = found.lineage;
    placement->tail = tail;
    KvLoad load(placement, 1, {});
    load.asked(shelf);
    return load;
  }

  // An answer of the store. `bad`: that block is not there, or damaged.
  static std::vector<transport::Loaded> answer(std::optional<std::size_t> bad = {},
                                               Code code = Code::kCorrupt) {
    std::vector<transport::Loaded> blocks(7);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      blocks[b] = KvPrompt::bytes(b);
    }
    if (bad) {
      blocks[*bad] = fail(code, "a test's");
    }
    return blocks;
  }

  KvPrompt prompt;
  KvShelf shelf;
  KvSearch search{shelf, kReach};
  std::optional<TailPlace> tail;
};

}  // namespace

TEST_CASE("what was found and read is what the attempt starts behind, each block looked up twice") {
  Bed bed;
  KvLoad load = bed.begin();
  bed.shelf.finds = 0;
  CHECK_FALSE(load.take(Bed::answer(), bed.shelf));
  REQUIRE(load.is_over());
  const KvLoaded loaded = std::move(load).result(bed.search);
  CHECK_FALSE(loaded.instead.has_value());
  CHECK(loaded.bytes.blocks.size() == 7);
  CHECK(bed.shelf.finds == 7);
}

TEST_CASE("where a block is damaged or missing the attempt starts behind those below it") {
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    for (const Code code : {Code::kCorrupt, Code::kNotFound, Code::kDeadline}) {
      Bed bed(mode);
      KvLoad load = bed.begin();
      CHECK(load.take(Bed::answer(5, code), bed.shelf)->code == code);
      const KvLoaded loaded = std::move(load).result(bed.search);
      REQUIRE(loaded.instead.has_value());
      CHECK(loaded.instead->sound == 640);
      CHECK(loaded.instead->cause.code == code);
      const KvFound& found = loaded.instead->found;
      CHECK(found.reuse.hit == 640);
      CHECK(found.basis.hit == 640);
      CHECK(found.basis.mode == mode);
      CHECK(found.lineage ==
            lineage_of(std::span(bed.prompt.names.keys).first(5), bed.prompt.infos(bed.shelf, 5)));
      CHECK(loaded.bytes.blocks.size() == 5);
    }
  }
}

TEST_CASE("where nothing can be loaded the attempt is computed whole") {
  Bed bed;
  KvLoad load = bed.begin();
  load.take(Bed::answer(0), bed.shelf);
  const KvLoaded loaded = std::move(load).result(bed.search);
  REQUIRE(loaded.instead.has_value());
  CHECK(loaded.instead->found.reuse.hit == 0);
  CHECK(loaded.instead->found.basis.hit == 0);
  CHECK(loaded.bytes.blocks.empty());
}

TEST_CASE("an answer with a gap waits for the second one, if the store was asked twice") {
  Bed bed;
  KvLoad load = bed.begin();
  load.asked(bed.shelf);
  CHECK_FALSE(load.take(Bed::answer(2), bed.shelf));
  CHECK_FALSE(load.is_over());
  CHECK_FALSE(load.take(Bed::answer(), bed.shelf));
  CHECK_FALSE(std::move(load).result(bed.search).instead.has_value());
}

TEST_CASE("records that took the place of others while they were read are not what was read") {
  Bed bed;
  KvLoad load = bed.begin();
  bed.shelf.blocks.at(bed.prompt.names.keys[3]).crc ^= 1;
  CHECK(load.take(Bed::answer(), bed.shelf)->code == Code::kPeerLost);
  const KvLoaded loaded = std::move(load).result(bed.search);
  REQUIRE(loaded.instead.has_value());
  CHECK(loaded.instead->found.reuse.hit == 384);
  CHECK(loaded.bytes.blocks.size() == 3);
}

TEST_CASE("records that took the place of others before are taken for what they are") {
  Bed bed;
  bed.prompt.shelve(bed.shelf, Provenance::kBounded);
  KvLoad planned = bed.begin();
  bed.prompt.shelve(bed.shelf, Provenance::kExact);
  KvLoad load(planned.placement(), 1, {});
  load.asked(bed.shelf);
  CHECK_FALSE(load.take(Bed::answer(), bed.shelf));
  const KvLoaded loaded = std::move(load).result(bed.search);
  REQUIRE(loaded.instead.has_value());
  CHECK(loaded.instead->found.reuse.hit == 896);
  CHECK(loaded.instead->found.lineage != planned.placement()->lineage);
  CHECK(loaded.bytes.blocks.size() == 7);
}

TEST_CASE("one that was not seen before it was read must have the bytes of the one seen after") {
  Bed bed;
  const KvLoad planned = bed.begin();
  for (const bool is_other : {false, true}) {
    const auto record = bed.shelf.blocks.extract(bed.prompt.names.keys[6]);
    KvLoad load(planned.placement(), 1, {});
    load.asked(bed.shelf);
    bed.shelf.blocks[record.key()] = record.mapped();
    bed.shelf.blocks[record.key()].crc ^= is_other ? 1 : 0;
    CHECK(load.take(Bed::answer(), bed.shelf).has_value() == is_other);
    CHECK(load.sound() == (is_other ? 6 : 7));
  }
}

TEST_CASE("without its tail an attempt starts behind the blocks") {
  Bed bed;
  bed.tail = TailPlace{NodeId{1}, BufferKey{1}};
  KvLoad load = bed.begin();
  load.take(Bed::answer(), bed.shelf);
  CHECK_FALSE(load.is_over());
  load.miss_tail(Error{Code::kNotFound, "a test's"});
  REQUIRE(load.is_over());
  const KvLoaded loaded = std::move(load).result(bed.search);
  REQUIRE(loaded.instead.has_value());
  CHECK(loaded.instead->sound == 896);
  CHECK(loaded.instead->found.reuse.hit == 896);
  CHECK_FALSE(loaded.instead->found.tail.has_value());
  CHECK(loaded.bytes.tail == nullptr);
}
