// Redraws one line in place; nothing is written where standard error is a file or a pipe.
#include "tools/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include "tools/process_ports.h"

namespace shoal::tools {

namespace {

constexpr int kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  if (!terminal_) {
    return;
  }
  const Instant now = monotonic_now();
  if (percent_ < 0) {
    first_ = done;
    began_ = now;
  }
  const int percent =
      total > 0 ? static_cast<int>(std::clamp<std::int64_t>(done * 100 / total, 0, 100)) : 0;
  if (percent == percent_ && (unit_.empty() || now - drawn_ < std::chrono::seconds(1))) {
    return;
  }
  percent_ = percent;
  drawn_ = now;
  draw(done);
}

void ProgressBar::draw(std::int64_t done) const {
  const int filled = percent_ * kWidth / 100;
  std::fprintf(stderr,
               "\r%s [%s%s] %3d%%",
               label_.c_str(),
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(kWidth - filled), ' ').c_str(),
               percent_);
  const double seconds = std::chrono::duration<double>(drawn_ - began_).count();
  if (!unit_.empty() && seconds > 0) {
    std::fprintf(
        stderr, " %.1f %s\033[K", static_cast<double>(done - first_) / seconds, unit_.c_str());
  }
}

}  // namespace shoal::tools
