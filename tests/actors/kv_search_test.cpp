// What a request takes of the blocks and tails that are there.
#include "actors/kv_search.h"

#include <doctest/doctest.h>
#include <memory>
#include <vector>

#include "actors/placement.h"
#include "tests/actors/kv_shelf.h"

using namespace shoal;
using testing::KvPrompt;
using testing::KvShelf;

namespace {

constexpr Reach kReach{.window = 128, .encoder_layers = 1, .decoder_layers = 1};
constexpr Instant kNow{};

Placement placed(const KvPrompt& prompt, const KvFound& found) {
  Placement placement;
  placement.submission = std::make_shared<const Submission>(prompt.submission);
  placement.kv = std::make_shared<const KvNames>(prompt.names);
  placement.span.reuse = found.reuse;
  placement.tail = found.tail;
  return placement;
}

// Of a session that took `hit` tokens of the shelf's blocks, and computed all the others.
SessionTail tail_behind(const KvPrompt& prompt,
                        const KvShelf& shelf,
                        Position hit,
                        std::size_t blocks) {
  const auto infos = prompt.infos(shelf, blocks);
  const auto lineages = lineages_of(std::span(prompt.names.keys).first(blocks), infos);
  SessionTail tail;
  tail.last = prompt.names.keys[blocks - 1];
  tail.end = static_cast<Position>(blocks) * kBlockTokens;
  tail.sampled = tail.end;
  tail.first = prompt.names.keys[0];
  tail.basis.hit = hit;
  tail.basis.replay_floor = hit;
  tail.basis.lineage = lineages[static_cast<std::size_t>(hit / kBlockTokens)];
  tail.lineage = lineages.back();
  return tail;
}

}  // namespace

TEST_CASE("a search looks every leading block up once, and few others, whatever tails are kept") {
  KvShelf shelf;
  const KvPrompt prompt(8'000);
  prompt.shelve(shelf);
  KvSearch search(shelf, kReach);
  for (std::uint32_t t = 0; t < 1'000; ++t) {
    SessionTail other = tail_behind(prompt, shelf, 0, 1 + 7 * t);
    other.first.bytes[0] ^= std::byte{1};
    other.last.bytes[0] ^= std::byte{1};
    search.tails().add(other, {NodeId{1}, BufferKey{t + 1}}, kNow);
  }
  shelf.finds = 0;
  CHECK(search.find(prompt.submission, prompt.names, kNow).found.reuse.hit == 8'000 * kBlockTokens);
  CHECK(shelf.finds <= 8'000 + 14);
  search.tails().add(tail_behind(prompt, shelf, 0, 7'000), {NodeId{1}, BufferKey{9'999}}, kNow);
  shelf.finds = 0;
  CHECK(search.find(prompt.submission, prompt.names, kNow).found.tail.has_value());
  CHECK(shelf.finds <= 8'000 + 14);
}

TEST_CASE(
    "a damaged block ends hits for a while or until it is stored anew, a missing one does not") {
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    KvShelf shelf;
    const KvPrompt prompt(7, mode);
    prompt.shelve(shelf);
    KvSearch search(shelf, kReach);
    const KvHit whole = search.find(prompt.submission, prompt.names, kNow);
    CHECK(whole.found.reuse.hit == 896);
    const Placement placement = placed(prompt, whole.found);
    search.avoid(placement, 640, Code::kNotFound, kNow);
    CHECK(search.find(prompt.submission, prompt.names, kNow).found.reuse.hit == 896);
    search.avoid(placement, 640, Code::kCorrupt, kNow);
    const KvHit shortened = search.find(prompt.submission, prompt.names, kNow);
    CHECK(shortened.found.reuse.hit == 640);
    CHECK(shortened.found.basis.hit == 640);
    CHECK(shortened.blocks.size() == 5);
    auto& info = shelf.blocks.at(prompt.names.keys[5]);
    ++info.last_use;  // stored anew
    CHECK(search.find(prompt.submission, prompt.names, kNow).found.reuse.hit == 896);
    --info.last_use;
    const Instant later = kNow + std::chrono::seconds(11);
    CHECK(search.find(prompt.submission, prompt.names, later).found.reuse.hit == 896);
  }
}

TEST_CASE("a tail behind a bounded hit is served with the blocks of its session, and no others") {
  KvShelf shelf;
  const KvPrompt prompt(7);
  prompt.shelve(shelf, Provenance::kBounded);
  KvSearch search(shelf, kReach);
  const SessionTail tail = tail_behind(prompt, shelf, 256, 6);
  search.tails().add(tail, {NodeId{1}, BufferKey{1}}, kNow);
  const KvHit hit = search.find(prompt.submission, prompt.names, kNow);
  REQUIRE(hit.found.tail.has_value());
  CHECK(hit.found.lineage == tail.lineage);
  // A session with another floor computed the same tokens, and its block was stored first.
  shelf.blocks.at(prompt.names.keys[4]).crc ^= 1;
  CHECK_FALSE(search.find(prompt.submission, prompt.names, kNow).found.tail.has_value());
  // That session's own tail is served.
  search.tails().add(tail_behind(prompt, shelf, 384, 6), {NodeId{1}, BufferKey{2}}, kNow);
  CHECK(search.find(prompt.submission, prompt.names, kNow).found.tail->buffer == BufferKey{2});
  // An exact record is not what it computed either.
  shelf.blocks.at(prompt.names.keys[4]).provenance = Provenance::kExact;
  CHECK_FALSE(search.find(prompt.submission, prompt.names, kNow).found.tail.has_value());
}

TEST_CASE("a tail of a session that looked back without bounds is served with exact blocks") {
  KvShelf shelf;
  const KvPrompt prompt(7);
  prompt.shelve(shelf);
  KvSearch search(shelf, kReach);
  search.tails().add(tail_behind(prompt, shelf, 0, 6), {NodeId{1}, BufferKey{1}}, kNow);
  CHECK(search.find(prompt.submission, prompt.names, kNow).found.tail.has_value());
  shelf.blocks.at(prompt.names.keys[3]).provenance = Provenance::kBounded;
  CHECK_FALSE(search.find(prompt.submission, prompt.names, kNow).found.tail.has_value());
}

TEST_CASE("a tail that failed is not found again, its blocks are") {
  KvShelf shelf;
  const KvPrompt prompt(7);
  prompt.shelve(shelf);
  KvSearch search(shelf, kReach);
  search.tails().add(tail_behind(prompt, shelf, 0, 6), {NodeId{1}, BufferKey{1}}, kNow);
  const KvHit hit = search.find(prompt.submission, prompt.names, kNow);
  REQUIRE(hit.found.tail.has_value());
  search.avoid(placed(prompt, hit.found), hit.found.reuse.hit, Code::kNotFound, kNow);
  const KvHit next = search.find(prompt.submission, prompt.names, kNow);
  CHECK_FALSE(next.found.tail.has_value());
  CHECK(next.found.reuse.hit == 896);
}

TEST_CASE(
    "a search says why it takes what it takes: nothing there, too short, bounded only, a hit") {
  const auto found = [](std::size_t blocks, BasisMode mode, const auto& change) {
    KvShelf shelf;
    KvPrompt prompt(blocks, mode);
    change(shelf, prompt);
    return KvSearch(shelf, kReach).find(prompt.submission, prompt.names, kNow).found;
  };
  const auto nothing = [](KvShelf&, KvPrompt&) {};
  const auto exact = [](KvShelf& shelf, KvPrompt& prompt) { prompt.shelve(shelf); };
  const auto bounded = [](KvShelf& shelf, KvPrompt& prompt) {
    prompt.shelve(shelf, Provenance::kBounded);
  };
  const auto lost_basis = [](KvShelf& shelf, KvPrompt& prompt) {
    prompt.shelve(shelf);
    prompt.submission.basis = Basis{.mode = BasisMode::kBounded, .hit = 256, .lineage = 99};
  };
  CHECK(found(4, BasisMode::kBounded, nothing).why == KvReason::kNothingStored);
  CHECK(found(0, BasisMode::kBounded, nothing).why == KvReason::kNoWholeBlock);
  CHECK(found(1, BasisMode::kBounded, exact).why == KvReason::kWindowOnly);
  CHECK(found(4, BasisMode::kExact, bounded).why == KvReason::kBoundedOnly);
  CHECK(found(4, BasisMode::kExact, bounded).stored == 4 * kBlockTokens);
  CHECK(found(4, BasisMode::kBounded, lost_basis).why == KvReason::kBasisGone);
  CHECK(found(4, BasisMode::kBounded, bounded).why == KvReason::kBlocks);
  CHECK(found(4, BasisMode::kBounded, exact).stored == 4 * kBlockTokens);
}
