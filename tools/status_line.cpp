// When a line is due, and its words.
#include "tools/status_line.h"

#include <array>
#include <cstdio>
#include <utility>

namespace shoal::tools {

StatusLine::StatusLine(std::string unit, std::int64_t done, Instant now, Nanos every)
    : unit_(std::move(unit)),
      first_(done),
      began_(now),
      said_(now),
      every_(every) {}

std::optional<std::string> StatusLine::update(std::int64_t done, std::int64_t total, Instant now) {
  if (now - said_ < every_) {
    return std::nullopt;
  }
  said_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  std::array<char, 32> rate{};
  std::snprintf(rate.data(), rate.size(), "%.1f ", static_cast<double>(done - first_) / seconds);
  return std::to_string(done) + " of " + std::to_string(total) + " " + unit_ + ", " + rate.data() +
         unit_ + "/s";
}

}  // namespace shoal::tools
