// Redraws one line in place; nothing is written where standard error is a file or a pipe.
#include "tools/progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace shoal::tools {

namespace {

constexpr int kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (percent_ >= 0) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  const int percent =
      total > 0 ? static_cast<int>(std::clamp<std::int64_t>(done * 100 / total, 0, 100)) : 0;
  if (!terminal_ || percent == percent_) {
    return;
  }
  percent_ = percent;
  const int filled = percent * kWidth / 100;
  std::fprintf(stderr,
               "\r%s [%s%s] %3d%%",
               label_.c_str(),
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(kWidth - filled), ' ').c_str(),
               percent);
}

}  // namespace shoal::tools
