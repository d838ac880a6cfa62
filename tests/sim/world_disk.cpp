// The disk of KV blocks: each process's way to it, and what becomes of the files.
#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace shoal::sim {

KvIdentity World::kv_identity(const std::string& tenant) {
  return {"sim", "", "", "", tenant};
}

void World::open_blocks(NodeId node, Life& life) {
  life.disk = std::make_unique<NodeStore>(
      NodeStoreParts{.disk = disk_,
                     .timeline = timeline_,
                     .clock = *life.clock,
                     .random = [this](std::uint64_t below) { return random_() % below; },
                     .syncs = !setup_.tamper.skips_sync});
  transport::BlockStoreParams params;
  params.limits = setup_.kv;
  params.policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  params.writer = life.process;
  if (setup_.tamper.blocks) {
    setup_.tamper.blocks(params.limits);
  }
  life.blocks = kv_truth_.watch({life.disk->open(std::move(params)),
                                 life.disk.get(),
                                 life.clock.get(),
                                 setup_.kv,
                                 [this, node](const std::string& event) { tell(node, event); }});
}

std::map<std::string, std::int64_t> World::kv_counts() const {
  std::map<std::string, std::int64_t> counts;
  const auto add = [&counts](const Life& life) {
    const NodeMetrics& metrics = life.node->metrics();
    const transport::BlockStore::Use use = life.blocks->use();
    for (const auto& tier : metrics.kv_hits) {
      for (const auto& provenance : tier) {
        for (const auto& hits : provenance) {
          counts["hits"] += hits;
        }
      }
    }
    counts["hit_tokens"] += metrics.kv_hit_tokens;
    counts["misses"] += metrics.kv_misses;
    counts["loads_failed"] += metrics.kv_loads_failed;
    counts["stored"] += metrics.kv_stored;
    counts["not_stored"] += metrics.kv_dropped;
    counts["corrupt"] += metrics.kv_corrupt;
    counts["expired"] += use.expired;
    counts["evicted"] += use.evicted;
  };
  if (keeps_kv()) {
    std::for_each(dead_.begin(), dead_.end(), [&add](const auto& life) { add(*life); });
    for (const Host& host : hosts_) {
      if (host.life) {
        add(*host.life);
      }
    }
  }
  return counts;
}

NodeStore* World::disk_of(NodeId node) {
  const Host& host = hosts_.at(node.value);
  return host.life ? host.life->disk.get() : nullptr;
}

void World::set_mount(NodeId node, Mount mount) {
  if (NodeStore* disk = disk_of(node)) {
    disk->set_mount(mount);
  }
}

void World::hang_disk(NodeId node, bool hangs) {
  if (NodeStore* disk = disk_of(node)) {
    disk->hang(hangs);
  }
}

void World::slow_disk(NodeId node, Nanos extra) {
  if (NodeStore* disk = disk_of(node)) {
    disk->slow_down(extra);
  }
}

void World::set_wall(NodeId node, std::chrono::milliseconds wrong) {
  if (alive(node)) {
    hosts_[node.value].clock->set_wall(wrong);
  }
  if (wrong.count() != 0) {
    kv_truth_.allow_forgetting();
  }
}

void World::lose_power(NodeId node) {
  kill(node);
  say(node, "world.power_loss");
  disk_.lose_power([this](std::uint64_t below) { return random_() % below; });
  kv_truth_.power_lost();
}

std::vector<std::string> World::segments() const {
  std::vector<std::string> names = disk_.files();
  std::erase_if(names, [this](const std::string& name) {
    return !name.ends_with(".kv") || disk_.content(name).empty();
  });
  return names;
}

std::vector<std::byte>& World::random_segment() {
  const auto names = segments();
  return disk_.content(names.at(random_() % names.size()));
}

// Every other one in a segment's last page, which says what the segment holds.
void World::flip_bits(std::int64_t count) {
  kv_truth_.allow_forgetting();
  for (; count > 0 && !segments().empty(); --count) {
    auto& content = random_segment();
    const std::size_t last = std::min<std::size_t>(content.size(), kKvRecordAlign);
    const std::size_t range = count % 2 == 0 ? last : content.size();
    content[content.size() - 1 - random_() % range] ^= std::byte{1} << (random_() % 8);
  }
}

void World::truncate_segment() {
  kv_truth_.allow_forgetting();
  if (!segments().empty()) {
    auto& content = random_segment();
    content.resize(random_() % content.size());
  }
}

void World::swap_segments() {
  kv_truth_.allow_forgetting();
  const auto names = segments();
  if (names.size() > 1) {
    const std::size_t one = random_() % names.size();
    const std::size_t other = (one + 1 + random_() % (names.size() - 1)) % names.size();
    std::swap(disk_.content(names[one]), disk_.content(names[other]));
  }
}

Bytes World::kv_files() const {
  std::int64_t bytes = 0;
  for (const std::string& name : disk_.files()) {
    bytes += std::ssize(disk_.content(name));
  }
  return Bytes(bytes);
}

std::size_t World::lost_blocks() const {
  const auto kept = kv_truth_.kept();
  return static_cast<std::size_t>(
      std::count_if(kept.begin(), kept.end(), [this](const BlockKey& key) {
        return std::none_of(hosts_.begin(), hosts_.end(), [&key](const Host& host) {
          return host.life && host.life->blocks->find(key);
        });
      }));
}

bool World::nothing_queued() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.life || !host.life->blocks || host.life->blocks->use().queued == Bytes(0);
  });
}

}  // namespace shoal::sim
