// The file row in a directory that was named, or else in the user's cache directory.
#include "tools/kv_plan.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "tools/model_digest.h"
#include "tools/process_ports.h"
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

// Until better is known: what was used longest ago goes first.
std::int64_t by_last_use(const BlockUse& use, WallMillis) {
  return use.last_use;
}

Result<std::unique_ptr<transport::BlockStore>> open_row(const Config& config, fs::path directory) {
  transport::BlockStoreParams params;
  params.limits.bytes = Bytes(config.kv().store_bytes());
  params.policy.worth = by_last_use;
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
