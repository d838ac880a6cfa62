// The replay against a plain LRU list of its own, on excerpts of recorded requests; and what the
// eviction that is shipped must never do, on drawn ones.
#include "tests/sim/kv_replay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <doctest/doctest.h>
#include <list>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "actors/kv_eviction.h"
#include "schemas/units.h"
#include "transport/block_index.h"

using namespace shoal;
using namespace shoal::sim;

namespace {

constexpr const char* kExcerpts[] = {
    "agentic-600.jsonl.gz", "chat-800.jsonl.gz", "mixed-600.jsonl.gz"};

const std::vector<TraceRequest>& excerpt(const char* name) {
  static std::map<std::string, std::vector<TraceRequest>> read;
  auto& requests = read[name];
  if (requests.empty()) {
    auto trace = read_trace(std::string(SHOAL_TRACES) + "/" + name, 0);
    REQUIRE_MESSAGE(trace.has_value(), trace.error().message);
    requests = *std::move(trace);
  }
  return requests;
}

// Room for one of `part` different blocks.
std::int64_t capacity_of(const char* name, std::int64_t part) {
  static std::map<std::string, std::int64_t> distinct;
  const auto [known, is_new] = distinct.try_emplace(name, 0);
  if (is_new) {
    known->second = distinct_blocks(excerpt(name));
  }
  return known->second / part;
}

// Several tests look at one replay: it runs once.
const KvReplay& replay(const char* name, std::int64_t part, KvEviction eviction) {
  static std::map<std::tuple<std::string, std::int64_t, KvEviction>, KvReplay> done;
  const auto [known, is_new] = done.try_emplace({name, part, eviction});
  if (is_new) {
    known->second = replay_kv(excerpt(name), capacity_of(name, part), eviction);
  }
  return known->second;
}

// Blocks as a list, the one used last in front; of a prompt the first block last.
class LruList {
 public:
  explicit LruList(std::int64_t capacity) : capacity_(capacity) {}

  std::int64_t hit_blocks(const std::vector<std::int64_t>& ids) {
    std::int64_t hits = 0;
    while (hits < std::ssize(ids) && places_.contains(ids[static_cast<std::size_t>(hits)])) {
      ++hits;
    }
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      use(*id);
    }
    return hits;
  }

 private:
  void use(std::int64_t id) {
    if (const auto place = places_.find(id); place != places_.end()) {
      order_.erase(place->second);
    }
    order_.push_front(id);
    places_[id] = order_.begin();
    if (std::ssize(order_) > capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
  }

  std::int64_t capacity_;
  std::list<std::int64_t> order_;
  std::unordered_map<std::int64_t, std::list<std::int64_t>::iterator> places_;
};

double lru_hit_rate(const std::vector<TraceRequest>& requests, std::int64_t capacity) {
  LruList list(capacity);
  std::int64_t hits = 0;
  std::int64_t tokens = 0;
  for (const TraceRequest& request : requests) {
    std::vector<std::int64_t> ids;
    for (const BlockRun& run : request.blocks) {
      for (std::int64_t id = run.first; id < run.first + run.count; ++id) {
        ids.push_back(id);
      }
    }
    hits += std::min(list.hit_blocks(ids), (request.input_tokens - 1) / kBlockTokens);
    tokens += request.input_tokens;
  }
  return static_cast<double>(hits * kBlockTokens) / static_cast<double>(tokens);
}

}  // namespace

TEST_CASE("an index of unlimited size hits what was there before") {
  for (const char* name : kExcerpts) {
    CAPTURE(std::string(name));
    const std::int64_t blocks = capacity_of(name, 1);
    const KvReplay& all = replay(name, 1, KvEviction::kLru);
    CHECK(all.blocks == blocks);
    CHECK(all.hit_rate() == doctest::Approx(lru_hit_rate(excerpt(name), blocks)).epsilon(1e-9));
    CHECK(all.hit_tokens == replay(name, 1, KvEviction::kOptimal).hit_tokens);
  }
}

TEST_CASE("with the last use as worth, the index is an LRU list") {
  for (const char* name : kExcerpts) {
    CAPTURE(std::string(name));
    for (const std::int64_t part : {50, 20, 10, 5, 2}) {
      CAPTURE(part);
      CHECK(replay(name, part, KvEviction::kLru).hit_rate() ==
            doctest::Approx(lru_hit_rate(excerpt(name), capacity_of(name, part))).epsilon(1e-9));
    }
  }
}

// Any change of these numbers is a change of the policy: measure the whole traces again.
TEST_CASE("excerpts hit what they hit when the policy was measured") {
  struct Measured {
    const char* name;
    std::int64_t part;  // of the different blocks
    std::int64_t lru;   // blocks
    std::int64_t ours;
    std::int64_t optimal;
  };

  for (const Measured& m : {Measured{kExcerpts[0], 10, 153'165, 193'841, 263'119},
                            {kExcerpts[1], 10, 3'650, 4'477, 16'832},
                            {kExcerpts[1], 5, 6'362, 6'177, 16'832},
                            {kExcerpts[2], 5, 2'115, 2'251, 6'559}}) {
    CAPTURE(std::string(m.name));
    CAPTURE(m.part);
    CHECK(replay(m.name, m.part, KvEviction::kLru).hit_tokens == m.lru * kBlockTokens);
    CHECK(replay(m.name, m.part, KvEviction::kWorth).hit_tokens == m.ours * kBlockTokens);
    CHECK(replay(m.name, m.part, KvEviction::kOptimal).hit_tokens == m.optimal * kBlockTokens);
  }
}

TEST_CASE("what is shipped hits at most a few sequences less than LRU, and on the whole more") {
  std::int64_t lru = 0;
  std::int64_t ours = 0;
  for (const char* name : kExcerpts) {
    CAPTURE(std::string(name));
    for (const std::int64_t part : {20, 5}) {
      CAPTURE(part);
      const KvReplay& least = replay(name, part, KvEviction::kLru);
      const KvReplay& shipped = replay(name, part, KvEviction::kWorth);
      const std::int64_t sequence = least.input_tokens / least.requests;
      CHECK(shipped.blocks <= capacity_of(name, part));
      CHECK(shipped.hit_tokens >= least.hit_tokens - 3 * sequence);
      lru += least.hit_tokens;
      ours += shipped.hit_tokens;
    }
  }
  CHECK(ours > lru);
}

namespace {

// Conversations that go on, end, or start from another's beginning; every fifth is pinned.
class Prompts {
 public:
  explicit Prompts(std::uint64_t seed) : random_(seed) {}

  struct Prompt {
    std::vector<std::uint64_t> ids;  // of whole prefixes
    TtlClass ttl = TtlClass::kChat;
  };

  Prompt next() {
    const std::size_t one = random_() % kOpen;
    Prompt& open = open_[one];
    if (open.ids.empty() || random_() % 6 == 0) {
      const Prompt& other = open_[random_() % kOpen];
      open = {.ids = {}, .ttl = one % 5 == 0 ? TtlClass::kPinned : TtlClass::kAgent};
      if (other.ttl == open.ttl && random_() % 2 == 0) {
        open.ids.assign(other.ids.begin(), other.ids.begin() + std::ssize(other.ids) / 2);
      }
    }
    for (std::uint64_t more = 1 + random_() % 8; more > 0; --more) {
      open.ids.push_back(++last_);
    }
    return open;
  }

  std::uint64_t draw() { return random_(); }

 private:
  static constexpr std::size_t kOpen = 20;
  std::mt19937_64 random_;
  std::array<Prompt, kOpen> open_;
  std::uint64_t last_ = 0;
};

BlockKey key_of(std::uint64_t id) {
  std::mt19937_64 words(id);
  BlockKey key;
  for (std::size_t at = 0; at < key.bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = words();
    std::memcpy(key.bytes.data() + at, &word, sizeof word);
  }
  return key;
}

// What is stored, by sets: a block's record lies in the page of its id.
struct Stored {
  struct Block {
    std::uint64_t parent = 0;
    bool is_pinned = false;
    int children = 0;
  };

  std::map<std::uint64_t, Block> blocks;
  std::int64_t loose_leaves = 0;  // neither pinned nor before another block

  void count_leaf(const Block& block, int sign) {
    loose_leaves += !block.is_pinned && block.children == 0 ? sign : 0;
  }

  void add(std::uint64_t id, std::uint64_t parent, bool is_pinned) {
    if (const auto at = blocks.find(parent); at != blocks.end()) {
      count_leaf(at->second, -1);
      ++at->second.children;
    }
    count_leaf(blocks[id] = {parent, is_pinned, 0}, 1);
  }

  // False: it must not go.
  bool remove(std::uint64_t id) {
    const Block block = blocks.at(id);
    if (block.children > 0 || (block.is_pinned && loose_leaves > 0)) {
      return false;
    }
    count_leaf(block, -1);
    blocks.erase(id);
    if (const auto at = blocks.find(block.parent); at != blocks.end()) {
      --at->second.children;
      count_leaf(at->second, 1);
    }
    return true;
  }
};

void write(transport::BlockIndex& index,
           Stored& stored,
           const Prompts::Prompt& prompt,
           std::size_t hit,
           WallMillis now) {
  for (std::size_t i = hit; i < prompt.ids.size(); ++i) {
    const std::uint64_t parent = i == 0 ? 0 : prompt.ids[i - 1];
    CHECK(index.insert(
        {.key = key_of(prompt.ids[i]),
         .parent = key_of(parent),
         .number = static_cast<std::uint32_t>(i),
         .info = {.ttl = prompt.ttl},
         .place = {.segment = 0, .page = static_cast<std::uint32_t>(prompt.ids[i]), .pages = 28},
         .turn = static_cast<std::uint32_t>(prompt.ids.size() - hit)},
        now));
    stored.add(prompt.ids[i], parent, prompt.ttl == TtlClass::kPinned);
  }
}

}  // namespace

TEST_CASE("the ceiling holds, leaves go before what is before them, pinned blocks after all else") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    Prompts prompts(seed);
    constexpr std::int64_t kMost = 400;
    transport::BlockIndex index(evict_by_worth(CostModel({.row_ps = 1'000}), {.blocks = kMost}), 0);
    Stored stored;
    WallMillis now = 0;
    for (int step = 0; step < 600; ++step) {
      now += static_cast<WallMillis>(prompts.draw() % 20'000);
      const Prompts::Prompt prompt = prompts.next();
      std::vector<BlockKey> keys(prompt.ids.size());
      std::transform(prompt.ids.begin(), prompt.ids.end(), keys.begin(), key_of);
      const std::size_t hit = index.longest_hit(keys, false);
      if (hit > 0) {
        index.touch(keys[hit - 1], static_cast<std::uint32_t>(keys.size() - hit), now);
      }
      write(index, stored, prompt, hit, now);
      for (const transport::BlockPlace& place : index.evict(index.size() - kMost, now)) {
        REQUIRE(stored.remove(place.page));
      }
      REQUIRE(index.size() <= kMost);
      REQUIRE(index.size() == std::ssize(stored.blocks));
    }
  }
}

TEST_CASE("the same replay twice is the same") {
  const char* name = kExcerpts[2];
  CHECK(replay(name, 5, KvEviction::kWorth).hit_tokens ==
        replay_kv(excerpt(name), capacity_of(name, 5), KvEviction::kWorth).hit_tokens);
}
