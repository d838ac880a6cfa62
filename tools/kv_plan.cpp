// A directory or a Ceph pool that was named, or else a directory in the user's cache.
#include "tools/kv_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "actors/kv_eviction.h"
#include "tools/model_digest.h"
#include "tools/process_ports.h"
#include "transport/file_store/file_store.h"
#include "transport/patient_store.h"
#include "transport/registry.h"

namespace shoal::tools {

namespace {

namespace fs = std::filesystem;

const std::string kRados = "rados:";

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
  const std::int64_t percent = config.kv().store() == "memory" ? 100 : transport::kVisiblePercent;
  return std::max<std::int64_t>(1, config.kv().store_bytes() / kKvRecordAlign * percent / 100);
}

transport::BlockPolicy eviction_of(const Config& config, std::int64_t blocks) {
  const auto& cost = config.prefill().cost();
  return evict_by_worth(CostModel({.row_ps = cost.token_ps(), .pair_fs = cost.pair_fs()}),
                        {.blocks = blocks, .pages = visible_pages(config)});
}

// POOL[/STORE].
Result<transport::RadosPlace> rados_place(const std::string& text, const Config& config) {
  transport::RadosPlace place;
  place.conf = config.kv().ceph_conf();
  place.user = config.kv().ceph_user();
  if (text.empty()) {
    return place;
  }
  const std::size_t slash = text.find('/');
  place.pool = text.substr(0, slash);
  place.store = slash == std::string::npos ? place.store : text.substr(slash + 1);
  if (place.pool.empty() || place.store.empty()) {
    return fail(Code::kMisconfigured,
                "'" + text + "' names no KV store in a Ceph pool; give POOL/STORE: shoal/kv");
  }
  return place;
}

// Who reads it later may stand in another directory.
fs::path whole_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  return error || path.empty() ? path : whole;
}

Result<KvPlace> user_place() {
  const fs::path cache = user_cache();
  if (cache.empty()) {
    return fail(Code::kMisconfigured,
                "neither HOME nor XDG_CACHE_HOME names a directory for the KV store; give one "
                "(--kv-dir DIR)");
  }
  return KvPlace{"file", cache / "shoal" / "kv", {}};
}

Result<std::unique_ptr<transport::BlockStore>> open_row(const Config& config,
                                                        const std::string& row,
                                                        transport::BlockStoreParams params) {
  const auto& kv = config.kv();
  params.limits.bytes = Bytes(kv.store_bytes());
  params.limits.hours = {kv.agent_hours(), kv.chat_hours(), kv.pinned_hours()};
  params.policy = eviction_of(config, params.limits.blocks);
  params.now = monotonic_now;
  params.wall = unix_millis_now;
  params.writer = IncarnationId{random_seed()};
  return transport::open_block_store(row, std::move(params));
}

Result<std::unique_ptr<transport::BlockStore>> open_place(
    const Config& config, const std::shared_ptr<transport::FileSystemId>& made_on) {
  const bool is_named = config.kv().store() != "file" || !config.kv().dir().empty();
  auto opened = [&]() -> Result<std::unique_ptr<transport::BlockStore>> {
    TRY(const KvPlace place, kv_place(config));
    transport::BlockStoreParams params = params_of(place);
    params.made_on = made_on;
    auto store = open_row(config, place.row, std::move(params));
    if (!store) {
      return tl::unexpected(naming_options(std::move(store).error(), place));
    }
    return store;
  }();
  if (!opened && !is_named) {
    // Nobody asked for the user's cache directory: it is no reason not to serve.
    return fail(Code::kUnavailable, opened.error().message);
  }
  return opened;
}

void tell(const EventLog& log, const std::string& where, const std::string& why) {
  if (why.empty()) {
    log.event(LogLevel::kInfo, "kv.store_back", {{"store", where}});
  } else {
    log.event(LogLevel::kWarning,
              "kv.store_away",
              {{"store", where},
               {"reason", why},
               {"do",
                "KV ends with its request until then; --kv-dir DIR names another, --set "
                "kv.store=none keeps none"}});
  }
}

std::string size_text(std::int64_t bytes) {
  const bool is_large = bytes >= std::int64_t{1} << 30;
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%.1f %s",
                static_cast<double>(bytes) / static_cast<double>(1 << (is_large ? 30 : 20)),
                is_large ? "GiB" : "MiB");
  return text.data();
}

}  // namespace

std::string KvPlace::text() const {
  return row == "file" ? directory.string() : kRados + rados.pool + "/" + rados.store;
}

Result<KvPlace> kv_place(const Config& config) {
  const auto& kv = config.kv();
  if (kv.store() == "rados") {
    TRY(transport::RadosPlace rados, rados_place(kv.dir(), config));
    return KvPlace{kv.store(), {}, std::move(rados)};
  }
  if (kv.store() != "file") {
    return fail(Code::kMisconfigured,
                "kv.store is \"" + kv.store() + "\": it outlives no process; name a directory");
  }
  return kv.dir().empty() ? user_place() : KvPlace{kv.store(), whole_path(kv.dir()), {}};
}

Result<KvPlace> parse_kv_place(const std::string& text, const Config& config) {
  if (!text.starts_with(kRados)) {
    return KvPlace{"file", whole_path(text), {}};
  }
  TRY(transport::RadosPlace rados, rados_place(text.substr(kRados.size()), config));
  return KvPlace{"rados", {}, std::move(rados)};
}

transport::BlockStoreParams params_of(const KvPlace& place) {
  transport::BlockStoreParams params;
  params.directory = place.directory;
  params.rados = place.rados;
  return params;
}

Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config,
                                                           const EventLog& log) {
  const auto& kv = config.kv();
  const bool outlives = kv.store() == "file" || kv.store() == "rados";
  if (!outlives && !kv.dir().empty()) {
    return fail(Code::kMisconfigured,
                "kv.dir is given, but kv.store is \"" + kv.store() +
                    "\", which has none: leave one of them out");
  }
  if (!outlives) {
    return kv.store() == "none" ? nullptr : open_row(config, kv.store(), {});
  }
  const auto place = kv_place(config);
  return transport::open_patient_store(
      {.open =
           [config, made_on = std::make_shared<transport::FileSystemId>()] {
             return open_place(config, made_on);
           },
       .told = [log, where = place ? place->text() : std::string()](
                   const std::string& why) { tell(log, where, why); }});
}

Error naming_options(Error error, const KvPlace& place) {
  if (place.row == "rados" && error.code == Code::kMisconfigured) {
    error.message += " (kv.ceph_conf, kv.ceph_user; kv.dir is POOL/STORE)";
  }
  return error;
}

std::string describe_kv(const Config& config, const transport::BlockStore* store) {
  const auto& kv = config.kv();
  if (store == nullptr) {
    return kv.store() == "none" ? "KV ends with its request (kv.store is none)"
                                : "KV ends with its request: nodes of a cluster keep it only where "
                                  "kv.dir names a directory that they share";
  }
  const auto place = kv_place(config);
  if (!place && kv.store() != "memory") {
    return "KV ends with its request: " + place.error().message;
  }
  const std::string where = place ? place->text() : "the memory of this process";
  const transport::BlockStore::Use use = store->use();
  if (!use.away.empty()) {
    return "KV ends with its request until its store is there, which is away: " + use.away;
  }
  return "KV is kept in " + where + ", up to " + size_text(kv.store_bytes()) + " (kv.store_bytes)" +
         (use.writable ? "" : "; it takes nothing new now, see the log: is it full or read-only?");
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
