// A progress bar on standard error: drawn only when that is a terminal, gone when the work is done.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/units.h"

namespace shoal::tools {

class ProgressBar {
 public:
  // With `unit`, what is done a second is shown in it.
  explicit ProgressBar(std::string label, std::string unit = "");
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, std::int64_t total);

 private:
  void draw(std::int64_t done) const;

  std::string label_;
  std::string unit_;
  bool terminal_;
  int percent_ = -1;
  std::int64_t first_ = 0;  // done when it was drawn first
  Instant began_{};
  Instant drawn_{};
};

}  // namespace shoal::tools
