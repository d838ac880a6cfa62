// What flags of several commands accept.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace shoal::tools {

// The longest context of any model: as for model.max_model_len.
inline constexpr int kMostTokens = 1048576;

// A path left empty is a script's unset variable, not a wish for the default.
inline CLI::Validator not_empty() {
  return {[](const std::string& value) { return value.empty() ? "is empty" : std::string(); }, ""};
}

}  // namespace shoal::tools
