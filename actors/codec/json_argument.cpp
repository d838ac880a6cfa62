// What is sent cannot be taken back, so only values that are short or unmistakable are judged.
#include "actors/codec/json_argument.h"

#include <string_view>

#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

constexpr std::size_t kScalarBytesMax = 128;
constexpr std::size_t kGuessBytesMax = 4'096;
constexpr std::string_view kSpaces = " \t\r\n";

bool is_one_of(char byte, std::string_view set) {
  return set.find(byte) != set.npos;
}

}  // namespace

void JsonArgument::begin(bool guess) {
  mode_ = guess ? Mode::kGuess : Mode::kLead;
  held_.clear();
}

void JsonArgument::push(char byte, std::string& out) {
  switch (mode_) {
    case Mode::kLead:
      if (is_one_of(byte, kSpaces)) {
        out += byte;
      } else if (is_one_of(byte, "{[\"")) {
        mode_ = Mode::kRaw;
        out += byte;
      } else if (is_one_of(byte, "-0123456789tfn")) {
        mode_ = Mode::kScalar;
        held_ += byte;
      } else {
        held_ += byte;
        start_text(out);
      }
      return;
    case Mode::kRaw:
      out += byte;
      return;
    case Mode::kText:
      append_escaped(out, {&byte, 1});
      return;
    case Mode::kScalar:
    case Mode::kGuess:
      held_ += byte;
      if (held_.size() >= (mode_ == Mode::kScalar ? kScalarBytesMax : kGuessBytesMax))
        give_up_holding(out);
      return;
  }
}

void JsonArgument::start_text(std::string& out) {
  mode_ = Mode::kText;
  out += '"';
  append_escaped(out, held_);
  held_.clear();
}

// Too long for a scalar: only a number may be that long; a guess goes by its first character.
void JsonArgument::give_up_holding(std::string& out) {
  const std::size_t first = held_.find_first_not_of(kSpaces);
  const bool is_number = held_.find_first_not_of("+-.0123456789eE") == held_.npos;
  const bool is_compound = first != held_.npos && is_one_of(held_[first], "{[\"");
  if (!is_number && !is_compound)
    return start_text(out);
  mode_ = Mode::kRaw;
  out += held_;
  held_.clear();
}

void JsonArgument::close(std::string& out) {
  if (mode_ == Mode::kLead)
    out += "\"\"";
  if (mode_ == Mode::kText)
    out += '"';
  if (mode_ != Mode::kScalar && mode_ != Mode::kGuess)
    return;
  if (read_json(held_, {.repair_lone_surrogates = false})) {
    out += held_;
  } else {
    append_json_string(out, held_);
  }
  held_.clear();
}

void JsonArgument::cut_off(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace shoal
