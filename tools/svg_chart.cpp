// A fixed canvas, a frame with five marks an axis, and what is in it.
#include "tools/svg_chart.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

namespace shoal::tools {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 60;
constexpr int kMarks = 5;
// Okabe and Ito: told apart with any colour vision.
constexpr std::array kColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Values from `low` to `high` on pixels from `from` to `to`.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 0;
  bool log = false;

  double at(double value) const {
    const double span = log ? std::log(high / low) : high - low;
    const double part = log ? std::log(std::max(value, low) / low) : value - low;
    return from + (to - from) * (span > 0 ? part / span : 0);
  }

  double mark(int i) const {
    const double part = static_cast<double>(i) / (kMarks - 1);
    return log ? low * std::pow(high / low, part) : low + part * (high - low);
  }
};

void text(std::ostream& out, double x, double y, const char* anchor, const std::string& what) {
  out << "<text x=\"" << number(x) << "\" y=\"" << number(y) << "\" text-anchor=\"" << anchor
      << "\">" << escaped(what) << "</text>\n";
}

void begin(std::ostream& out,
           const std::string& title,
           const std::string& x,
           const std::string& y) {
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << ' ' << kHeight
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  text(out, kWidth / 2, 20, "middle", title);
  text(out, kWidth / 2, kHeight - 12, "middle", x);
  out << "<text transform=\"translate(16 " << kHeight / 2
      << ") rotate(-90)\" text-anchor=\"middle\">" << escaped(y) << "</text>\n";
}

void frame(std::ostream& out, const Axis& x, const Axis& y) {
  out << "<g stroke=\"#dddddd\">\n";
  for (int i = 0; i < kMarks; ++i) {
    const double px = x.at(x.mark(i));
    const double py = y.at(y.mark(i));
    out << "<line x1=\"" << number(px) << "\" x2=\"" << number(px) << "\" y1=\"" << kTop
        << "\" y2=\"" << kHeight - kBottom << "\"/>\n<line y1=\"" << number(py) << "\" y2=\""
        << number(py) << "\" x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\"/>\n";
  }
  out << "</g>\n";
  for (int i = 0; i < kMarks; ++i) {
    text(out, x.at(x.mark(i)), kHeight - kBottom + 18, "middle", number(x.mark(i)));
    text(out, kLeft - 8, y.at(y.mark(i)) + 4, "end", number(y.mark(i)));
  }
}

Axis axis_of(const LineChart& chart, bool is_x) {
  Axis axis;
  axis.low = std::numeric_limits<double>::max();
  axis.high = std::numeric_limits<double>::lowest();
  axis.log = is_x && chart.log_x;
  for (const ChartLine& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      const double value = is_x ? x : y;
      if (!axis.log || value > 0) {
        axis.low = std::min(axis.low, value);
        axis.high = std::max(axis.high, value);
      }
    }
  }
  if (axis.low > axis.high) {
    axis.low = axis.log ? 1 : 0;
    axis.high = axis.log ? 10 : 1;
  }
  if (!is_x) {
    axis.low = std::min(axis.low, 0.0);
  }
  if (axis.low == axis.high) {
    axis.high = axis.low + (axis.log ? axis.low : 1);
  }
  axis.from = is_x ? kLeft : kHeight - kBottom;
  axis.to = is_x ? kWidth - kRight : kTop;
  return axis;
}

Result<void> save(const std::filesystem::path& file, const std::string& content) {
  std::ofstream stream(file);
  stream << content << "</svg>\n";
  stream.close();
  if (!stream) {
    return fail(Code::kInternal,
                file.string() + ": cannot be written: " + std::strerror(errno) +
                    "; name a folder that can");
  }
  return {};
}

}  // namespace

Result<void> write_svg(const std::filesystem::path& file, const LineChart& chart) {
  std::ostringstream out;
  begin(out, chart.title, chart.x, chart.y);
  const Axis x = axis_of(chart, true);
  const Axis y = axis_of(chart, false);
  frame(out, x, y);
  for (std::size_t l = 0; l < chart.lines.size(); ++l) {
    const char* colour = kColours[l % kColours.size()];
    out << "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" << colour << "\" points=\"";
    for (const auto& [px, py] : chart.lines[l].points) {
      out << number(x.at(px)) << ',' << number(y.at(py)) << ' ';
    }
    out << "\"/>\n<g fill=\"" << colour << "\">";
    text(out,
         kWidth - kRight - 6,
         kTop + 16 + 15 * static_cast<double>(l),
         "end",
         chart.lines[l].name);
    out << "</g>\n";
  }
  return save(file, out.str());
}

Result<void> write_svg(const std::filesystem::path& file, const HeatMap& map) {
  std::ostringstream out;
  begin(out, map.title, map.x, map.y);
  double most = 0;
  std::size_t columns = 1;
  for (const auto& row : map.rows) {
    columns = std::max(columns, row.size());
    for (const double value : row) {
      most = std::max(most, value);
    }
  }
  const auto rows = static_cast<double>(std::max<std::size_t>(1, map.rows.size()));
  const double width = (kWidth - kLeft - kRight) / static_cast<double>(columns);
  const double height = (kHeight - kTop - kBottom) / rows;
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    for (std::size_t c = 0; c < map.rows[r].size(); ++c) {
      const double part = most > 0 ? std::clamp(map.rows[r][c] / most, 0.0, 1.0) : 0;
      const int shade = 255 - static_cast<int>(std::lround(200 * part));
      out << "<rect x=\"" << number(kLeft + width * static_cast<double>(c)) << "\" y=\""
          << number(kTop + height * static_cast<double>(r)) << "\" width=\"" << number(width)
          << "\" height=\"" << number(height) << "\" fill=\"rgb(" << shade << ',' << shade
          << ",255)\"/>\n";
    }
  }
  text(out, kWidth - kRight, kHeight - 12, "end", "darkest: " + number(most));
  return save(file, out.str());
}

}  // namespace shoal::tools
