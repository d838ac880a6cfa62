// The benchmarks under `shoal bench`, as CLI11 sees them.
#pragma once

#include "tools/command_line.h"

namespace shoal::tools {

void add_bench(CLI::App& app, CommandLine& line);

}  // namespace shoal::tools
