// Renders events as key=value lines; the sink on stderr is spdlog.
#include "actors/log.h"

#include <algorithm>
#include <memory>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace shoal {
namespace {

bool needs_quotes(std::string_view text) {
  return text.empty() || text.find_first_of(" \"=\n\r\t\\") != std::string_view::npos;
}

void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += '\\';
    }
    // A client's text must not forge a second line.
    line += byte < 0x20 ? ' ' : c;
  }
  line += '"';
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  const auto it = std::find(std::begin(kNames), std::end(kNames), name);
  if (it == std::end(kNames)) {
    return std::nullopt;
  }
  return static_cast<LogLevel>(it - std::begin(kNames));
}

void LogField::append_to(std::string& line) const {
  line += ' ';
  line += key_;
  line += '=';
  if (is_number_) {
    line += std::to_string(number_);
  } else if (needs_quotes(text_)) {
    append_quoted(line, text_);
  } else {
    line += text_;
  }
}

void EventLog::event(LogLevel level,
                     std::string_view name,
                     std::initializer_list<LogField> fields) const {
  if (!writes(level)) {
    return;
  }
  std::string line(name);
  for (const LogField& field : fields) {
    field.append_to(line);
  }
  sink_(level, line);
}

EventLog::Sink stderr_log_sink() {
  auto logger =
      std::make_shared<spdlog::logger>("shoal", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::debug);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  return [logger](LogLevel level, std::string_view line) {
    logger->log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
  };
}

}  // namespace shoal
