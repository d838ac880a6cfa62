// Which KV store a configuration asks for, and what its blocks must have in common.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "actors/config.h"
#include "actors/log.h"
#include "schemas/block_key.h"
#include "schemas/result.h"
#include "tools/device_plan.h"
#include "transport/block_store_params.h"

namespace shoal::tools {

// Where a KV store is that outlives the process.
struct KvPlace {
  std::string row;                  // of transport/registry.h: file or rados
  std::filesystem::path directory;  // of file
  transport::RadosPlace rados;

  // As parse_kv_place() takes it.
  std::string text() const;
};

// What a configuration asks for. kMisconfigured: none that outlives the process, or one that cannot
// be.
Result<KvPlace> kv_place(const Config& config);

// A directory, or rados:POOL[/STORE] in the cluster of the configuration.
Result<KvPlace> parse_kv_place(const std::string& text, const Config& config);

// To be completed with what the opener needs.
transport::BlockStoreParams params_of(const KvPlace& place);

// Null: none is asked for. One that cannot be had now is waited for, in the background; the log
// says why, and when it is there. What was named and can never be one is an error, which says what
// to do.
Result<std::unique_ptr<transport::BlockStore>> open_blocks(const Config& config,
                                                           const EventLog& log);

// Which options say where that store is, in an error about the store itself, which knows of none.
Error naming_options(Error error, const KvPlace& place);

// Where it keeps what, and how that is now, for the one who starts a server. `store`: as opened;
// null: there is none.
std::string describe_kv(const Config& config, const transport::BlockStore* store);

// Of what the device runs; no tenant's.
Result<KvIdentity> kv_identity(const DevicePlan& plan);

}  // namespace shoal::tools
