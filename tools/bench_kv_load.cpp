// Medians of counts of ticks: what else runs on the machine lengthens a few loads by much.
#include "tools/bench_kv_load.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>

#include "schemas/checksum.h"
#include "tools/process_ports.h"

namespace shoal::tools {
namespace {

using transport::BlockStore;
using transport::Loaded;

// Ticks by part of a load.
struct LoadTicks {
  std::int64_t look_up = 0;
  std::int64_t get = 0;
  std::int64_t copy = 0;
  std::int64_t checksums = 0;  // in `get`
  std::int64_t summed = 0;     // bytes

  std::int64_t all() const { return look_up + get + copy; }
};

// A device's pages: as of a KvArena, and more than the processor's caches hold.
class Pages {
 public:
  explicit Pages(std::int64_t block) : memory_(std::max(kBytes, static_cast<std::size_t>(block))) {}

  void take(std::span<const std::byte> bytes) {
    if (next_ + bytes.size() > memory_.size()) {
      next_ = 0;
    }
    std::memcpy(memory_.data() + next_, bytes.data(), bytes.size());
    next_ += bytes.size();
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{128} << 20;

  std::vector<std::byte> memory_;
  std::size_t next_ = 0;
};

std::vector<KvWanted> look_up(const BlockStore& store, std::span<const TokenId> tokens) {
  const BlockKey root = root_key({});
  const std::vector<BlockKey> keys = block_keys(root, tokens);
  const std::size_t hit = transport::longest_hit(store, keys, false);
  std::vector<KvWanted> wanted;
  for (std::size_t i = 0; i < hit; ++i) {
    wanted.push_back({keys[i], i == 0 ? root : keys[i - 1], 0});
  }
  return wanted;
}

std::vector<Loaded> get(BlockStore& store, std::vector<KvWanted> wanted) {
  std::promise<std::vector<Loaded>> got;
  store.get(std::move(wanted),
            monotonic_now() + std::chrono::minutes(1),
            [&got](std::vector<Loaded> loaded) { got.set_value(std::move(loaded)); });
  return got.get_future().get();
}

Result<LoadTicks> load(BlockStore& store, std::span<const TokenId> tokens, Pages& pages) {
  const ChecksumWork before = checksum_work();
  const std::int64_t began = processor_ticks();
  std::vector<KvWanted> wanted = look_up(store, tokens);
  const std::int64_t found = processor_ticks();
  const std::vector<Loaded> blocks = get(store, std::move(wanted));
  const std::int64_t got = processor_ticks();
  for (const Loaded& block : blocks) {
    TRY(const auto bytes, block);
    pages.take(*bytes);
  }
  const std::int64_t copied = processor_ticks();
  if (blocks.size() * kBlockTokens != tokens.size()) {
    return fail(Code::kUnavailable, "blocks that were put are not found");
  }
  const ChecksumWork after = checksum_work();
  return LoadTicks{found - began,
                   got - found,
                   copied - got,
                   after.ticks - before.ticks,
                   after.bytes - before.bytes};
}

double median(const std::vector<LoadTicks>& loads, auto value) {
  std::vector<double> values;
  for (const LoadTicks& load : loads) {
    values.push_back(static_cast<double>(value(load)));
  }
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double share(const LoadTicks& load) {
  return 100 * static_cast<double>(load.checksums) /
         static_cast<double>(std::max(load.all(), std::int64_t{1}));
}

void print(const char* way, const std::vector<LoadTicks>& loads, std::size_t blocks) {
  const auto per_block = [&](auto value) {
    return median(loads, value) / static_cast<double>(blocks);
  };
  std::printf(
      "load of %2zu by %-20s %7.0f ticks a block (look-up %.0f, get %.0f, copy %.0f); checksums "
      "%.0f of %.0f bytes: %4.1f %%\n",
      blocks,
      way,
      per_block([](const LoadTicks& t) { return t.all(); }),
      per_block([](const LoadTicks& t) { return t.look_up; }),
      per_block([](const LoadTicks& t) { return t.get; }),
      per_block([](const LoadTicks& t) { return t.copy; }),
      per_block([](const LoadTicks& t) { return t.checksums; }),
      per_block([](const LoadTicks& t) { return t.summed; }),
      median(loads, share));
}

}  // namespace

Result<void> print_kv_loads(const LoadingStore& from,
                            std::span<const std::vector<TokenId>> prompts,
                            std::int64_t payload) {
  Pages pages(payload);
  const std::size_t whole = prompts.front().size() / kBlockTokens;
  for (const std::size_t blocks : {std::size_t{1}, whole}) {
    std::vector<LoadTicks> loads;
    for (const std::vector<TokenId>& prompt : prompts) {
      const auto tokens = std::span(prompt).first(blocks * kBlockTokens);
      TRY(const LoadTicks ticks, load(*from.store, tokens, pages));
      loads.push_back(ticks);
    }
    print(from.way, loads, blocks);
  }
  return {};
}

}  // namespace shoal::tools
