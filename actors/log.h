// Structured events: a stable dotted name, then fields, one line each. Written at stage boundaries,
// state changes and handled errors; the same events feed tests and simulation through the sink.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

std::optional<LogLevel> parse_log_level(std::string_view name);

// One key and its value, rendered when the event is written.
class LogField {
 public:
  LogField(std::string_view key, std::string_view text) : key_(key), text_(text) {}

  LogField(std::string_view key, const char* text) : key_(key), text_(text) {}

  LogField(std::string_view key, const std::string& text) : key_(key), text_(text) {}
  template <class Integer>

  requires std::is_integral_v<Integer> LogField(std::string_view key, Integer number)
      : key_(key),
        number_(static_cast<std::int64_t>(number)),
        is_number_(true) {}

  template <class Tag, class Rep>
  LogField(std::string_view key, Id<Tag, Rep> id) : LogField(key, id.value) {}

  LogField(std::string_view key, Nanos nanos) : LogField(key, nanos.count()) {}

  void append_to(std::string& line) const;

 private:
  std::string_view key_;
  std::string_view text_;
  std::int64_t number_ = 0;
  bool is_number_ = false;
};

// Thread-safe if its sink is.
class EventLog {
 public:
  using Sink = std::function<void(LogLevel, std::string_view line)>;

  EventLog(LogLevel least, Sink sink) : least_(least), sink_(std::move(sink)) {}

  void event(LogLevel level, std::string_view name, std::initializer_list<LogField> fields) const;

  bool writes(LogLevel level) const { return level >= least_; }

 private:
  LogLevel least_;
  Sink sink_;
};

// Lines on stderr with time and level.
EventLog::Sink stderr_log_sink();

}  // namespace shoal
