// What flags of several commands accept.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

namespace shoal::tools {

// The longest context of any model: as for model.max_model_len.
inline constexpr int kMostTokens = 1048576;

// A path left empty is a script's unset variable, not a wish for the default.
inline CLI::Validator not_empty() {
  return {[](const std::string& value) { return value.empty() ? "is empty" : std::string(); }, ""};
}

// A number from `low` to `high`. CLI11's own range lets "nan" through.
inline CLI::Validator real(double low, double high) {
  std::ostringstream range;
  range << low << " to " << high;
  return {[low, high, range = range.str()](const std::string& text) {
            double value = 0;
            const bool fits =
                CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return fits ? std::string() : "'" + text + "': expected a number from " + range;
          },
          ""};
}

}  // namespace shoal::tools
