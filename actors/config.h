// The node's options: declared once in schemas/config.proto with default, range and meaning; read
// from a text file and flags; every value remembers where it came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/config.pb.h"
#include "schemas/result.h"

namespace shoal {

using Config = config::Config;

struct ConfigSources {
  Config config;
  std::map<std::string, std::string>
      origin;  // option name ("http.port") to file or flag; absent: default
};

// Text-format file of at most 1 MiB. kMisconfigured names file, line, the name whose value is
// wrong, the unknown name and the nearest known one.
Result<void> read_config_file(const std::filesystem::path& file, ConfigSources& sources);
// One option by its dotted name; a repeated one is added to. `origin` says who asks, for messages
// and for `shoal config`. kMisconfigured names the option, the value and what is allowed.
Result<void> set_option(std::string_view name,
                        std::string_view value,
                        std::string_view origin,
                        ConfigSources& sources);

// Ranges and choices. kMisconfigured names the option, its value and what is allowed.
Result<void> validate(const Config& config);

// "0 .. 65535, default 8000"; of an option that schemas/config.proto has.
std::string option_bounds(std::string_view name);

// One line an option: name, value, origin.
std::string describe_config(const ConfigSources& sources);
// Every option with its default and its meaning, as a file: deploy/defaults.txtpb.
std::string default_config_file();

// The known word nearest to `word` by edit distance; nothing when more than half of it differs.
std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& known);

// KV blocks of the device: kv.blocks, or what kv.bytes holds, at least one.
std::int64_t kv_blocks(const Config& config, std::int64_t block_bytes);

}  // namespace shoal
