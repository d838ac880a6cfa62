// Charts as SVG files: lines over numbers, and a map of shades.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "schemas/result.h"

namespace shoal::tools {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // in the order of x
};

struct LineChart {
  std::string title;
  std::string x;
  std::string y;
  bool log_x = false;  // positive x only
  std::vector<ChartLine> lines;
};

// Rows from top to bottom, columns from left to right; the largest value is the darkest.
struct HeatMap {
  std::string title;
  std::string x;
  std::string y;
  std::vector<std::vector<double>> rows;
};

// kInternal names the file and says why it cannot be written.
Result<void> write_svg(const std::filesystem::path& file, const LineChart& chart);
Result<void> write_svg(const std::filesystem::path& file, const HeatMap& map);

}  // namespace shoal::tools
