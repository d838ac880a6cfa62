// Prompts are those of SMG's radix tree benchmark: one of six beginnings of a conversation, none
// as long as a block, then 1,000 to 3,000 random characters, here a token for every four.
#include "tools/bench_kv_index.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/check.h"
#include "tools/process_ports.h"
#include "transport/block_index.h"

namespace shoal::tools {
namespace {

using transport::BlockIndex;

constexpr std::int64_t kPrompts = 10'000;
constexpr std::int64_t kManyBlocks = 1'000'000;
constexpr WallMillis kNow = 1'700'000'000'000;
constexpr int kRounds = 7;  // the best one counts: the others shared their core

using Prompt = std::vector<TokenId>;
using Keys = std::vector<BlockKey>;

std::vector<Prompt> short_prompts(std::int64_t count) {
  constexpr std::array<std::size_t, 6> kBeginnings{12, 19, 14, 2, 2, 4};
  std::mt19937_64 random(1);
  std::vector<Prompt> prompts(static_cast<std::size_t>(count));
  for (Prompt& prompt : prompts) {
    const std::size_t beginning = random() % kBeginnings.size();
    prompt.assign(kBeginnings.at(beginning), static_cast<TokenId>(beginning));
    for (std::size_t rest = 250 + random() % 500; rest > 0; --rest) {
      prompt.push_back(static_cast<TokenId>(random() % 50'000));
    }
  }
  return prompts;
}

Keys keys_of(const Prompt& prompt) {
  static const BlockKey root = root_key({});
  return block_keys(root, prompt);
}

std::vector<Keys> keys_of(std::span<const Prompt> prompts) {
  std::vector<Keys> keys;
  keys.reserve(prompts.size());
  for (const Prompt& prompt : prompts) {
    keys.push_back(keys_of(prompt));
  }
  return keys;
}

BlockIndex make_index() {
  return {{.worth = [](const BlockUse& use, WallMillis) { return use.last_use; }, .seen = nullptr},
          kNow};
}

void insert(BlockIndex& index, const Keys& keys, std::int64_t prompt) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    index.insert(
        {.key = keys[i],
         .parent = i == 0 ? BlockKey{} : keys[i - 1],
         .number = static_cast<std::uint32_t>(i),
         .info = {},
         .place = {.segment = static_cast<std::uint32_t>(prompt / 1'000), .page = 0, .pages = 28},
         .turn = static_cast<std::uint32_t>(keys.size())},
        kNow + prompt * 1'000);
  }
}

double seconds_of(const std::function<void()>& work) {
  const Instant began = monotonic_now();
  work();
  return std::chrono::duration<double>(monotonic_now() - began).count();
}

struct Sample {
  std::vector<Prompt> prompts;
  std::vector<Keys> keys;    // of those
  std::vector<Keys> others;  // of prompts that are not inserted
  std::int64_t blocks = 0;
};

Sample make_sample() {
  Sample sample;
  sample.prompts = short_prompts(2 * kPrompts);
  sample.keys = keys_of(std::span(sample.prompts).first(kPrompts));
  sample.others = keys_of(std::span(sample.prompts).subspan(kPrompts));
  sample.prompts.resize(kPrompts);
  for (const Keys& keys : sample.keys) {
    sample.blocks += std::ssize(keys);
  }
  return sample;
}

// Seconds of a round, by case.
struct Times {
  double insert = 1e9;
  double match = 1e9;
  double miss = 1e9;
  double insert_hashed = 1e9;
  double match_hashed = 1e9;
  double bytes = 0;  // an entry

  void keep_best(const Times& other) {
    insert = std::min(insert, other.insert);
    match = std::min(match, other.match);
    miss = std::min(miss, other.miss);
    insert_hashed = std::min(insert_hashed, other.insert_hashed);
    match_hashed = std::min(match_hashed, other.match_hashed);
    bytes = other.bytes;
  }
};

Times time_round(const Sample& sample) {
  BlockIndex by_key = make_index();
  BlockIndex by_tokens = make_index();
  std::size_t hits = 0;
  const auto match_all = [&](const std::vector<Keys>& all) {
    for (const Keys& keys : all) {
      hits += by_key.longest_hit(keys, false);
    }
  };
  Times times;
  times.insert = seconds_of([&] {
    for (std::size_t i = 0; i < sample.keys.size(); ++i) {
      insert(by_key, sample.keys[i], static_cast<std::int64_t>(i));
    }
  });
  times.match = seconds_of([&] { match_all(sample.keys); });
  times.miss = seconds_of([&] { match_all(sample.others); });
  times.insert_hashed = seconds_of([&] {
    for (std::size_t i = 0; i < sample.prompts.size(); ++i) {
      insert(by_tokens, keys_of(sample.prompts[i]), static_cast<std::int64_t>(i));
    }
  });
  times.match_hashed = seconds_of([&] {
    for (const Prompt& prompt : sample.prompts) {
      hits += by_tokens.longest_hit(keys_of(prompt), false);
    }
  });
  CHECK(static_cast<std::int64_t>(hits) == 2 * sample.blocks);
  times.bytes = static_cast<double>(by_key.bytes().value) / static_cast<double>(by_key.size());
  return times;
}

void print_rate(const char* what, double seconds) {
  std::printf("index %-26s %9.0f prompts/s\n", what, static_cast<double>(kPrompts) / seconds);
}

// Of a sequence, that need no hashing.
void make_keys(std::mt19937_64& random, Keys& keys) {
  for (BlockKey& key : keys) {
    const std::array<std::uint64_t, 2> words{random(), random()};
    std::memcpy(key.bytes.data(), words.data(), sizeof words);
  }
}

void print_many_blocks() {
  constexpr std::int64_t kSequence = 32;
  std::mt19937_64 random(1);
  BlockIndex index = make_index();
  Keys keys(kSequence);
  double taken = 0;
  for (std::int64_t i = 0; i < kManyBlocks / kSequence; ++i) {
    make_keys(random, keys);
    taken += seconds_of([&] { insert(index, keys, i); });
  }
  const auto blocks = static_cast<double>(index.size());
  std::printf("index of %.0f blocks          %6.0f ns an insert, %.1f bytes a block\n",
              blocks,
              taken / blocks * 1e9,
              static_cast<double>(index.bytes().value) / blocks);
}

}  // namespace

void print_kv_index() {
  const Sample sample = make_sample();
  Times best;
  for (int round = 0; round < kRounds; ++round) {
    best.keep_best(time_round(sample));
  }
  std::printf("index of %lld prompts, %lld blocks, %.1f bytes a block\n",
              static_cast<long long>(kPrompts),
              static_cast<long long>(sample.blocks),
              best.bytes);
  print_rate("insert", best.insert);
  print_rate("match", best.match);
  print_rate("miss", best.miss);
  print_rate("hash and insert", best.insert_hashed);
  print_rate("hash and match", best.match_hashed);
  print_many_blocks();
}

}  // namespace shoal::tools
