// Reading the event log: "n2 request.finished request=7 reason=\"two words\"".
#pragma once

#include <string>
#include <string_view>

namespace shoal::sim {

inline std::string_view event_name(std::string_view line) {
  const auto begin = line.find(' ') + 1;
  return line.substr(begin, line.find(' ', begin) - begin);
}

// Without quotes; empty: the event has no such field.
inline std::string event_field(std::string_view line, std::string_view name) {
  const std::string word = " " + std::string(name) + "=";
  const auto at = line.find(word);
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view rest = line.substr(at + word.size());
  const bool quoted = rest.starts_with('"');
  rest.remove_prefix(quoted ? 1 : 0);
  return std::string(rest.substr(0, rest.find(quoted ? '"' : ' ')));
}

}  // namespace shoal::sim
