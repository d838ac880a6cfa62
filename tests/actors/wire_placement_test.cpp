// Where a request starts and how its blocks are named goes to another process and comes out equal;
// what cannot be is refused.
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "actors/wire_messages.h"
#include "schemas/wire.pb.h"

using namespace shoal;
using std::chrono::seconds;

namespace {

constexpr Instant kNow{seconds(500)};

std::shared_ptr<Placement> placement_behind_a_hit() {
  auto submission = std::make_shared<Submission>();
  submission->request = RequestId{7};
  submission->attempt = AttemptId{2};
  std::vector<TokenId> prompt(700);
  std::iota(prompt.begin(), prompt.end(), 3);
  submission->prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
  submission->forced = {8, 9};
  submission->deadline = kNow + seconds(10);
  submission->ttl = TtlClass::kAgent;
  auto placement = std::make_shared<Placement>();
  placement->basis = Basis{BasisMode::kBounded, 640, 512, 572, 99};
  placement->span = {700, 702, BasisMode::kBounded, {640, 512, 512, 572, 572}};
  placement->kv = std::make_shared<const KvNames>(
      name_blocks(root_key({"m", "w", "l", "t", "somebody"}), *submission));
  placement->submission = std::move(submission);
  placement->cached = 640;
  placement->lineage = 5;
  return placement;
}

Code refusal(const wire::Placement& damaged) {
  const auto got = wire_codec::decode<PlacePrefill>(damaged.SerializeAsString(), kNow);
  REQUIRE_FALSE(got.has_value());
  return got.error().code;
}

}  // namespace

TEST_CASE("a placement behind a hit survives the wire, all but what its tokens tell") {
  const auto sent = placement_behind_a_hit();
  const auto got =
      wire_codec::decode<PlacePrefill>(wire_codec::encode(PlacePrefill{sent}, kNow), kNow);
  REQUIRE(got.has_value());
  const Placement& placement = *got->placement;
  CHECK(placement.basis == sent->basis);
  CHECK(placement.span.reuse == sent->span.reuse);
  CHECK(placement.cached == 640);
  CHECK(placement.lineage == 5);
  REQUIRE(placement.kv != nullptr);
  CHECK(placement.kv->root == sent->kv->root);
  CHECK(placement.submission->ttl == TtlClass::kAgent);
  CHECK(placement.kv->keys.empty());
  CHECK(name_blocks(placement.kv->root, *placement.submission).keys == sent->kv->keys);
}

TEST_CASE("a placement behind a tail survives the wire, within the block that it goes on in") {
  auto sent = *placement_behind_a_hit();
  sent.span.reuse = {640, 690, 690, 690, 690};
  sent.tail = TailPlace{NodeId{3}, BufferKey{9}, 77};
  const PlacePrefill message{std::make_shared<const Placement>(sent)};
  const std::string bytes = wire_codec::encode(message, kNow);
  const auto got = wire_codec::decode<PlacePrefill>(bytes, kNow);
  REQUIRE(got.has_value());
  CHECK(got->placement->tail == sent.tail);
  CHECK(got->placement->span.reuse == sent.span.reuse);
  wire::Placement damaged;
  REQUIRE(damaged.ParseFromString(bytes));
  damaged.set_start(639);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged.set_start(690);
  damaged.set_tail_buffer(0);
  CHECK(refusal(damaged) == Code::kCorrupt);
}

TEST_CASE("a hand-over tells where the names of its blocks go on") {
  const auto placement = placement_behind_a_hit();
  Handover sent;
  sent.placement = placement;
  sent.buffer = BufferKey{5};
  sent.position = 702;
  sent.answered = 3;
  sent.chain = chain_of(*placement->kv, *placement->submission, 31);
  REQUIRE(sent.chain.open.size() == 62);
  const auto joined =
      wire_codec::decode<JoinDecode>(wire_codec::encode(JoinDecode{sent, 0, {}}, kNow), kNow);
  REQUIRE(joined.has_value());
  CHECK(joined->handover.chain.last == placement->kv->keys.back());
  CHECK(joined->handover.chain.first == placement->kv->keys.front());
  CHECK(joined->handover.chain.lineage == 31);
  CHECK(joined->handover.chain.open == sent.chain.open);
  const auto done =
      wire_codec::decode<PrefillDone>(wire_codec::encode(PrefillDone{sent}, kNow), kNow);
  REQUIRE(done.has_value());
  CHECK(done->handover.chain.open == sent.chain.open);
}

TEST_CASE("a hand-over of less than a block names its root alone") {
  auto submission = *placement_behind_a_hit()->submission;
  submission.prompt = std::make_shared<const std::vector<TokenId>>(100, 5);
  submission.forced.clear();
  auto placement = *placement_behind_a_hit();
  placement.span = {100, 100, BasisMode::kBounded, {}};
  const KvNames names{placement.kv->root};
  placement.submission = std::make_shared<const Submission>(submission);
  Handover sent;
  sent.placement = std::make_shared<const Placement>(placement);
  sent.buffer = BufferKey{5};
  sent.position = 100;
  sent.answered = 1;
  sent.chain = chain_of(names, submission, 0);
  const std::string bytes = wire_codec::encode(PrefillDone{sent}, kNow);
  const auto done = wire_codec::decode<PrefillDone>(bytes, kNow);
  REQUIRE(done.has_value());
  CHECK_FALSE(done->handover.chain.first.has_value());
  CHECK(done->handover.chain.last == names.root);
  wire::Handover damaged;
  REQUIRE(damaged.ParseFromString(bytes));
  damaged.set_kv_first(damaged.kv_last());
  CHECK_FALSE(wire_codec::decode<PrefillDone>(damaged.SerializeAsString(), kNow).has_value());
}

TEST_CASE("a shortened hit survives the wire, one that is out of order does not") {
  KvShortened sent;
  sent.found.key = {RequestId{7}, AttemptId{2}};
  sent.found.reuse = {256, 128, 128, 572, 572};
  sent.found.basis = Basis{BasisMode::kBounded, 256, 128, 572, 98};
  sent.found.lineage = 98;
  sent.sound = 384;
  sent.cause = Error{Code::kCorrupt, "damaged"};
  const std::string bytes = wire_codec::encode(sent, kNow);
  const auto got = wire_codec::decode<KvShortened>(bytes, kNow);
  REQUIRE(got.has_value());
  CHECK(got->found.key == sent.found.key);
  CHECK(got->found.reuse == sent.found.reuse);
  CHECK(got->found.basis == sent.found.basis);
  CHECK(got->found.lineage == 98);
  CHECK(got->sound == 384);
  CHECK(got->cause == sent.cause);
  wire::KvShortened damaged;
  REQUIRE(damaged.ParseFromString(bytes));
  damaged.set_start(300);
  CHECK_FALSE(wire_codec::decode<KvShortened>(damaged.SerializeAsString(), kNow).has_value());
}

TEST_CASE("a hit that no placement can have is corrupt") {
  wire::Placement whole;
  REQUIRE(whole.ParseFromString(wire_codec::encode(PlacePrefill{placement_behind_a_hit()}, kNow)));
  wire::Placement damaged = whole;
  damaged.set_start(641);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.set_loaded(768);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.set_loaded(639);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.set_encoder_whole(511);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.set_decoder_start(702);
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.clear_kv_root();
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.set_kv_root("short");
  CHECK(refusal(damaged) == Code::kCorrupt);
  damaged = whole;
  damaged.mutable_submission()->set_ttl(9);
  CHECK(refusal(damaged) == Code::kCorrupt);
}

TEST_CASE("what a group learned of its steps survives the wire, and nonsense is bounded") {
  PrefillLoad sent;
  sent.cost = {{.step = Nanos{1},
                .row_ps = 2,
                .pair_fs = 3,
                .near_fs = 4,
                .deep_row_ps = 5,
                .deep_pair_fs = 6},
               7,
               8};
  const auto got = wire_codec::decode<PrefillLoad>(wire_codec::encode(sent, kNow), kNow);
  REQUIRE(got.has_value());
  CHECK(CostModel(got->cost.coefficients).chunk(1'000, 1'000) ==
        CostModel(sent.cost.coefficients).chunk(1'000, 1'000));
  CHECK(got->cost.coefficients.deep_pair_fs == 6);
  CHECK(got->cost.late_ppm == 7);
  CHECK(got->cost.steps == 8);
  sent.cost.coefficients.row_ps = INT64_MIN;
  sent.cost.coefficients.pair_fs = INT64_MAX;
  sent.cost.late_ppm = INT64_MAX;
  sent.cost.steps = -1;
  const auto bounded = wire_codec::decode<PrefillLoad>(wire_codec::encode(sent, kNow), kNow);
  REQUIRE(bounded.has_value());
  CHECK(bounded->cost.coefficients.row_ps == 1);
  CHECK(bounded->cost.coefficients.pair_fs == kMostCost.pair_fs);
  CHECK(bounded->cost.late_ppm == kMostLatePpm);
  CHECK(bounded->cost.steps == 0);
}
