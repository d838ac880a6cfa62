// The file row in a directory that was named, or else in the user's cache directory.
#include "tools/kv_plan.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "actors/kv_eviction.h"
#include "tools/model_digest.h"
#include "tools/process_ports.h"
#include "transport/file_store/file_store.h"
#include "transport/registry.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;

// By the XDG base directory specification. Empty: the user has none.
fs::path user_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) {
    return cache;
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && fs::path(home).is_absolute() ? fs::path(home) / ".cache" : fs::path();
}

// The pages of the blocks that a store has at most.
std::int64_t visible_pages(const Config& config) {
  const std::int64_t percent = config.kv().store() == "file" ? transport::kVisiblePercent : 100;
  return std::max<std::int64_t>(1, config.kv().store_bytes() / kKvRecordAlign * percent / 100);
}

transport::BlockPolicy eviction_of(const Config& config, std::int64_t blocks) {
  const auto& cost = config.prefill().cost();
  return evict_by_worth(CostModel({.row_ps = cost.token_ps(), .pair_fs = cost.pair_fs()}),
                        {.blocks = blocks, .pages = visible_pages(config)});
}

Result<std::unique_ptr<transport::BlockStore>> open_row(const Config& config, fs::path directory) {
  transport::BlockStoreParams params;
  params.limits.bytes = Bytes(config.kv().store_bytes());
  params.policy = eviction_of(config, params.limits.blocks);
  params.now = monotonic_now;
  params.wall = unix_millis_now;
  params.directory = std::move(directory);
  params.writer = IncarnationId{random_seed()};
  return transport::open_block_store(config.kv().store(), std::move(params));
}

}  // namespace

Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config,
                                                           const EventLog& log) {
  const bool is_file = config.kv().store() == "file";
  if (!is_file && !config.kv().dir().empty()) {
    return fail(Code::kMisconfigured,
                "kv.dir is given, but kv.store is \"" + config.kv().store() +
                    "\", which has none: leave one of them out");
  }
  if (!is_file || !config.kv().dir().empty()) {
    return config.kv().store() == "none" ? nullptr : open_row(config, config.kv().dir());
  }
  const fs::path cache = user_cache();
  auto opened = cache.empty() ? fail(Code::kMisconfigured,
                                     "neither HOME nor XDG_CACHE_HOME names a directory")
                              : open_row(config, cache / "shoal" / "kv");
  if (!opened) {
    log.event(LogLevel::kWarning,
              "kv.no_store",
              {{"reason", opened.error().message},
               {"do", "KV ends with its request; give --kv-dir DIR, or --set kv.store=none"}});
    return nullptr;
  }
  return opened;
}

Result<KvIdentity> kv_identity(const DevicePlan& plan) {
  TRY(ModelDigests digests, digest_model(plan));
  // What a device makes that reads no model is its own.
  std::string model = digests.weights.empty() ? plan.name : std::move(digests.config);
  return KvIdentity{std::move(model),
                    std::move(digests.weights),
                    plan.shape.block_layout,
                    std::move(digests.tokenizer),
                    ""};
}

}  // namespace shoal::tools
