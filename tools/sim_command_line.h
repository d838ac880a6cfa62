// `shoal sim`, as CLI11 sees it.
#pragma once

#include "tools/command_line.h"

namespace shoal::tools {

void add_sim(CLI::App& app, CommandLine& line);

}  // namespace shoal::tools
