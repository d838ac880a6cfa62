// A progress bar on standard error: drawn only when that is a terminal, gone when the work is done.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::tools {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, std::int64_t total);

 private:
  std::string label_;
  bool terminal_;
  int percent_ = -1;
};

}  // namespace shoal::tools
