// Which tail serves a request, and what the request runs then.
#include "actors/policy/session_tails.h"

#include <doctest/doctest.h>
#include <functional>
#include <numeric>
#include <string>

using namespace shoal;

namespace {

constexpr Reach kReach{.window = 128, .encoder_layers = 3, .decoder_layers = 3};
constexpr Instant kNow{};
constexpr TailPlace kPlace{NodeId{2}, BufferKey{7}};

BlockKey key(int number) {
  BlockKey made;
  made.bytes[0] = std::byte(number);
  return made;
}

std::vector<TokenId> numbers(Position count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 1000);
  return tokens;
}

// Of a sequence whose whole blocks are named key(1), key(2), ... behind key(0).
SessionTail tail_of(const std::vector<TokenId>& tokens, Basis basis = {}, Position sampled = 1) {
  const auto blocks = tokens.size() / kBlockTokens;
  return {key(static_cast<int>(blocks)),
          {tokens.begin() + static_cast<std::ptrdiff_t>(blocks * kBlockTokens), tokens.end()},
          static_cast<Position>(tokens.size()),
          sampled,
          basis,
          key(blocks > 0 ? 1 : 0)};
}

struct Bed {
  TailDirectory directory{4};

  std::optional<TailHit> find(const std::vector<TokenId>& tokens, ReuseAsk ask = {}) const {
    ask.prompt = ask.prompt == 0 ? std::ssize(tokens) : ask.prompt;
    ask.total = std::ssize(tokens);
    std::vector<BlockKey> keys;
    for (int b = 1; b <= std::ssize(tokens) / kBlockTokens; ++b) {
      keys.push_back(key(b));
    }
    return directory.find(
        ask,
        key(0),
        keys,
        [&tokens](Position p) { return tokens.at(static_cast<std::size_t>(p)); },
        may_be);
  }

  std::function<bool(const SessionTail&)> may_be = [](const SessionTail&) { return true; };
};

}  // namespace

TEST_CASE("the next turn goes on where the answer before it ended") {
  Bed bed;
  bed.directory.add(tail_of(numbers(300)), kPlace, kNow);
  const auto hit = bed.find(numbers(500));
  REQUIRE(hit.has_value());
  CHECK(hit->position == 300);
  CHECK(hit->place == kPlace);
}

TEST_CASE("a prompt that is the same again leaves its last token") {
  Bed bed;
  bed.directory.add(tail_of(numbers(300)), kPlace, kNow);
  CHECK(bed.find(numbers(300))->position == 299);
}

TEST_CASE("a turn that differs within the last positions goes on before them, else from no tail") {
  Bed bed;
  bed.directory.add(tail_of(numbers(300)), kPlace, kNow);
  for (const Position differs : {Position{293}, Position{299}}) {
    std::vector<TokenId> tokens = numbers(500);
    tokens[static_cast<std::size_t>(differs)] = 5;
    CHECK(bed.find(tokens)->position == differs);
  }
  std::vector<TokenId> tokens = numbers(500);
  tokens[292] = 5;
  CHECK_FALSE(bed.find(tokens).has_value());
}

TEST_CASE("a tail at a block's border serves no other block") {
  Bed bed;
  bed.directory.add(tail_of(numbers(384)), kPlace, kNow);
  CHECK(bed.find(numbers(500))->position == 384);
  CHECK_FALSE(bed.find(numbers(384)).has_value());
}

TEST_CASE("of several tails the one that reaches furthest serves") {
  Bed bed;
  bed.directory.add(tail_of(numbers(200)), {NodeId{1}, BufferKey{1}}, kNow);
  bed.directory.add(tail_of(numbers(310)), kPlace, kNow);
  bed.directory.add(tail_of(numbers(304)), {NodeId{1}, BufferKey{2}}, kNow);
  CHECK(bed.find(numbers(500))->place == kPlace);
  CHECK(bed.find(numbers(306))->position == 305);
}

TEST_CASE("where the best tail is not allowed, the next best serves") {
  Bed bed;
  SessionTail tail = tail_of(numbers(310));
  for (std::uint64_t lineage = 1; lineage < 4; ++lineage) {
    tail.lineage = lineage;
    bed.directory.add(tail, {NodeId{1}, BufferKey{lineage}}, kNow);
  }
  bed.directory.add(tail_of(numbers(130)), kPlace, kNow);
  bed.may_be = [](const SessionTail& one) { return one.lineage == 2; };
  CHECK(bed.find(numbers(500))->place.buffer == BufferKey{2});
  bed.may_be = [](const SessionTail& one) { return one.lineage == 0; };
  CHECK(bed.find(numbers(500))->place == kPlace);
}

TEST_CASE("a session without a whole block is found, beside those that have some") {
  Bed bed;
  bed.directory.add(tail_of(numbers(100)), kPlace, kNow);
  bed.directory.add(tail_of(numbers(400)), {NodeId{1}, BufferKey{1}}, kNow);
  CHECK(bed.find(numbers(120))->position == 100);
  CHECK(bed.find(numbers(300))->position == 100);
  CHECK(bed.find(numbers(600))->position == 400);
}

TEST_CASE("another mode, and for a later attempt another basis, is not served") {
  Bed bed;
  const Basis basis = first_basis(BasisMode::kBounded, 280, 128);
  bed.directory.add(tail_of(numbers(300), basis), kPlace, kNow);
  CHECK_FALSE(bed.find(numbers(500), {.mode = BasisMode::kExact}).has_value());
  CHECK(bed.find(numbers(400), {.prompt = 280, .basis = basis}).has_value());
  const Basis other = first_basis(BasisMode::kBounded, 290, 128);
  CHECK_FALSE(bed.find(numbers(400), {.prompt = 290, .basis = other}).has_value());
}

TEST_CASE("nothing goes on from within what its session took from blocks") {
  Bed bed;
  Basis basis = first_basis(BasisMode::kBounded, 300, 128, {256, 128, 128, 172, 172}, 1);
  bed.directory.add(tail_of(numbers(260), basis), kPlace, kNow);
  std::vector<TokenId> tokens = numbers(400);
  CHECK(bed.find(tokens)->position == 260);
  basis.hit = 384;
  bed.directory.add(tail_of(numbers(260), basis), kPlace, kNow);
  CHECK_FALSE(bed.find(tokens).has_value());
}

TEST_CASE("nothing is sampled before the session's first token, whose rows alone were whole") {
  Bed bed;
  bed.directory.add(tail_of(numbers(300), {}, 300), kPlace, kNow);
  CHECK_FALSE(bed.find(numbers(299)).has_value());
  CHECK(bed.find(numbers(300))->position == 299);
}

TEST_CASE("tails end with their time, their node, and when there are too many") {
  Bed bed;
  for (std::uint64_t b = 0; b < 5; ++b) {
    bed.directory.add(tail_of(numbers(200 + static_cast<Position>(b))),
                      {NodeId{static_cast<std::uint32_t>(b % 2)}, BufferKey{b}},
                      kNow + Nanos{static_cast<std::int64_t>(b)});
  }
  CHECK(bed.directory.size() == 4);
  bed.directory.expire(kNow + Nanos{1});
  CHECK(bed.directory.size() == 3);
  bed.directory.drop_if([](NodeId node) { return node == NodeId{1}; });
  CHECK(bed.directory.size() == 2);
  bed.directory.drop({NodeId{0}, BufferKey{4}});
  bed.directory.drop({NodeId{0}, BufferKey{4}});
  CHECK(bed.directory.size() == 1);
  CHECK(bed.find(numbers(500))->place.buffer == BufferKey{2});
}

TEST_CASE("a long turn begins the decoder half anew, a short one goes on with both halves") {
  const Basis before = first_basis(BasisMode::kBounded, 280, 128);
  const TailHit tail{kPlace, 300, before};
  const ReuseAsk far{BasisMode::kBounded, 428, 428, {}};
  CHECK(plan_tail(far, tail, kReach) == KvReuse{256, 300, 300, 300, 300});
  CHECK(tail_basis(far, tail, kReach).tail_start == 300);
  const ReuseAsk farther{BasisMode::kBounded, 1000, 1000, {}};
  CHECK(plan_tail(farther, tail, kReach) == KvReuse{256, 300, 300, 872, 872});
  CHECK(tail_basis(farther, tail, kReach).tail_start == 872);
  const ReuseAsk near{BasisMode::kBounded, 427, 427, {}};
  CHECK(plan_tail(near, tail, kReach) == KvReuse{256, 300, 300, 300, 300});
  CHECK(tail_basis(near, tail, kReach) == before);
}

TEST_CASE("a later attempt and an exact request go on with both halves") {
  const Basis basis = first_basis(BasisMode::kBounded, 280, 128);
  const TailHit tail{kPlace, 300, basis};
  CHECK(plan_tail({BasisMode::kBounded, 280, 900, basis}, tail, kReach).decoder_start == 300);
  const Basis exact = first_basis(BasisMode::kExact, 280, 128);
  const ReuseAsk ask{BasisMode::kExact, 900, 900, {}};
  CHECK(plan_tail(ask, {kPlace, 300, exact}, kReach).decoder_start == 300);
  CHECK(tail_basis(ask, {kPlace, 300, exact}, kReach) == exact);
}
