// Columns as wide as their widest entry; numbers to the right.
#include "tools/figure_table.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "schemas/check.h"

namespace shoal::tools {

FigureTable::FigureTable(std::string bench,
                         std::vector<std::string> texts,
                         std::vector<std::string> numbers)
    : bench_(std::move(bench)),
      texts_(texts.size()),
      columns_(std::move(texts)) {
  columns_.insert(columns_.end(), numbers.begin(), numbers.end());
}

void FigureTable::add(std::vector<std::string> texts,
                      const std::vector<double>& numbers,
                      int digits) {
  CHECK(texts.size() == texts_ && texts.size() + numbers.size() == columns_.size());
  for (const double number : numbers) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, number);
    texts.emplace_back(text);
  }
  rows_.push_back(std::move(texts));
}

void FigureTable::print(bool json) const {
  json ? print_json() : print_aligned();
}

void FigureTable::print_json() const {
  for (const auto& row : rows_) {
    std::printf(R"({"bench":"%s")", bench_.c_str());
    for (std::size_t c = 0; c < row.size(); ++c) {
      const char* quote = c < texts_ ? "\"" : "";
      std::printf(R"(,"%s":%s%s%s)", columns_[c].c_str(), quote, row[c].c_str(), quote);
    }
    std::puts("}");
  }
}

void FigureTable::print_columns() const {
  FigureTable turned(bench_, {columns_.front()}, {});
  for (const auto& row : rows_) {
    turned.columns_.push_back(row.front());
  }
  for (std::size_t c = 1; c < columns_.size(); ++c) {
    auto& line = turned.rows_.emplace_back(std::vector{columns_[c]});
    for (const auto& row : rows_) {
      line.push_back(row[c]);
    }
  }
  turned.print_aligned();
}

void FigureTable::print_aligned() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(columns_[c].size());
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < texts_ ? row[c] + pad : pad + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
  };
  print_row(columns_);
  for (const auto& row : rows_) {
    print_row(row);
  }
}

}  // namespace shoal::tools
