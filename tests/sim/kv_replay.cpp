// Block ids become keys; everything else is the index and the policy that are shipped.
#include "tests/sim/kv_replay.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "actors/kv_eviction.h"
#include "transport/block_index.h"

namespace shoal::sim {
namespace {

using transport::BlockIndex;
using transport::BlockPolicy;

// Any day will do.
constexpr WallMillis kBegin = 1'700'000'000'000;
// The index tells eighths of a second. An LRU list goes by the order of requests, so for LRU those
// of one moment come one by one.
constexpr WallMillis kApart = 125;

// Hit rates count tokens, so a token saves the same wherever it is.
constexpr CostCoefficients kCost{.row_ps = 15'000'000};

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

BlockKey key_of(std::int64_t id) {
  BlockKey key;
  std::uint64_t word = static_cast<std::uint64_t>(id);
  for (std::size_t at = 0; at < key.bytes.size(); at += sizeof word) {
    word = mix(word);
    std::memcpy(key.bytes.data() + at, &word, sizeof word);
  }
  return key;
}

template <typename Use>
void for_each_id(const TraceRequest& request, const Use& use) {
  for (const BlockRun& run : request.blocks) {
    for (std::int64_t id = run.first; id < run.first + run.count; ++id) {
      use(id);
    }
  }
}

std::vector<BlockKey> keys_of(const TraceRequest& request) {
  std::vector<BlockKey> keys;
  for_each_id(request, [&keys](std::int64_t id) { keys.push_back(key_of(id)); });
  return keys;
}

TtlClass class_of(const TraceRequest& request) {
  return request.kind.ends_with("agent") ? TtlClass::kAgent : TtlClass::kChat;
}

void write_behind(BlockIndex& index,
                  std::span<const BlockKey> keys,
                  std::size_t hit,
                  TtlClass ttl,
                  WallMillis now) {
  const auto turn = static_cast<std::uint32_t>(keys.size() - hit);
  for (std::size_t i = hit; i < keys.size(); ++i) {
    index.insert({.key = keys[i],
                  .parent = i == 0 ? BlockKey{} : keys[i - 1],
                  .number = static_cast<std::uint32_t>(i),
                  .info = {.ttl = ttl},
                  .place = {.pages = 28},
                  .turn = turn},
                 now);
  }
}

BlockPolicy policy_of(KvEviction eviction, std::int64_t capacity) {
  return eviction == KvEviction::kLru ? evict_by_last_use()
                                      : evict_by_worth(CostModel(kCost), {.blocks = capacity});
}

void count(KvReplay& replay, const TraceRequest& request, std::size_t hit) {
  const std::int64_t most = (request.input_tokens - 1) / kBlockTokens;
  ++replay.requests;
  replay.input_tokens += request.input_tokens;
  replay.hit_tokens += std::min<std::int64_t>(static_cast<std::int64_t>(hit), most) * kBlockTokens;
}

// The prompts' blocks one behind the other, and the request in which each is used next.
struct Future {
  static constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> next;
};

Future future_of(std::span<const TraceRequest> requests) {
  Future future;
  std::vector<std::int32_t> request_of;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    for_each_id(requests[r], [&](std::int64_t id) {
      future.ids.push_back(id);
      request_of.push_back(static_cast<std::int32_t>(r));
    });
  }
  future.next.resize(future.ids.size());
  std::unordered_map<std::int64_t, std::int32_t> later;
  for (std::size_t i = future.ids.size(); i-- > 0;) {
    const auto [at, is_last] = later.try_emplace(future.ids[i], Future::kNever);
    future.next[i] = at->second;
    at->second = request_of[i];
  }
  return future;
}

// Of a prefix no block is used later than those behind it, so the last one of a sequence goes first
// by itself.
class Optimal {
 public:
  explicit Optimal(std::int64_t capacity) : capacity_(capacity) {}

  std::size_t hit(std::span<const std::int64_t> ids) const {
    return static_cast<std::size_t>(
        std::find_if(ids.begin(), ids.end(), [this](auto id) { return !kept_.contains(id); }) -
        ids.begin());
  }

  void use(std::span<const std::int64_t> ids, std::span<const std::int32_t> next) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (const auto at = kept_.find(ids[i]); at != kept_.end()) {
        order_.erase({at->second, i, ids[i]});
        kept_.erase(at);
      }
      if (next[i] != Future::kNever) {
        order_.emplace(next[i], i, ids[i]);
        kept_.emplace(ids[i], next[i]);
      }
    }
    for (; std::ssize(order_) > capacity_; order_.erase(std::prev(order_.end()))) {
      kept_.erase(std::get<2>(*order_.rbegin()));
    }
  }

  std::int64_t size() const { return std::ssize(order_); }

 private:
  std::int64_t capacity_;
  std::set<std::tuple<std::int32_t, std::size_t, std::int64_t>> order_;  // next use, number, id
  std::unordered_map<std::int64_t, std::int32_t> kept_;
};

KvReplay replay_optimal(std::span<const TraceRequest> requests, std::int64_t capacity) {
  const Future future = future_of(requests);
  const std::span<const std::int64_t> ids(future.ids);
  const std::span<const std::int32_t> next(future.next);
  Optimal kept(capacity);
  KvReplay replay;
  std::size_t begin = 0;
  for (const TraceRequest& request : requests) {
    std::size_t size = 0;
    for_each_id(request, [&size](std::int64_t) { ++size; });
    count(replay, request, kept.hit(ids.subspan(begin, size)));
    kept.use(ids.subspan(begin, size), next.subspan(begin, size));
    begin += size;
  }
  replay.blocks = kept.size();
  return replay;
}

}  // namespace

KvReplay replay_kv(std::span<const TraceRequest> requests,
                   std::int64_t capacity,
                   KvEviction eviction) {
  if (eviction == KvEviction::kOptimal) {
    return replay_optimal(requests, capacity);
  }
  BlockIndex index(policy_of(eviction, capacity), kBegin);
  KvReplay replay;
  const WallMillis apart = eviction == KvEviction::kLru ? kApart : 0;
  WallMillis now = kBegin;
  for (const TraceRequest& request : requests) {
    now = std::max(now + apart, kBegin + request.arrival_ms);
    const std::vector<BlockKey> keys = keys_of(request);
    const std::size_t hit = index.longest_hit(keys, false);
    if (hit > 0) {
      index.touch(keys[hit - 1], static_cast<std::uint32_t>(keys.size() - hit), now);
    }
    write_behind(index, keys, hit, class_of(request), now);
    index.evict(index.size() - capacity, now);
    count(replay, request, hit);
  }
  replay.blocks = index.size();
  return replay;
}

std::int64_t distinct_blocks(std::span<const TraceRequest> requests) {
  std::unordered_set<std::int64_t> ids;
  for (const TraceRequest& request : requests) {
    for_each_id(request, [&ids](std::int64_t id) { ids.insert(id); });
  }
  return std::ssize(ids);
}

}  // namespace shoal::sim
