// What a benchmark prints: a table for people, or a line of JSON a row for programs.
#pragma once

#include <string>
#include <vector>

namespace shoal::tools {

class FigureTable {
 public:
  // `bench` is in every line of JSON. Columns named in `texts` are strings there, the others
  // numbers.
  FigureTable(std::string bench, std::vector<std::string> texts, std::vector<std::string> numbers);

  // As many texts and numbers as there are columns; `digits` behind the point.
  void add(std::vector<std::string> texts, const std::vector<double>& numbers, int digits = 1);

  // To standard output.
  void print(bool json) const;
  // For many columns and few rows: a line a column.
  void print_columns() const;

 private:
  void print_json() const;
  void print_aligned() const;

  std::string bench_;
  std::size_t texts_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace shoal::tools
