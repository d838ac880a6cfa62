// The text of a file, which may be compressed.
#pragma once

#include <filesystem>
#include <string>

#include "schemas/result.h"

namespace shoal::sim {

// Plain or gzip, by its first bytes. kMisconfigured names the file.
Result<std::string> read_text(const std::filesystem::path& file);

}  // namespace shoal::sim
