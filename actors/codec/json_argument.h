// Turns the value of a non-string parameter into valid JSON as far as streaming allows.
#pragma once

#include <cstdint>
#include <string>

namespace shoal {

// Objects, arrays and JSON strings are passed on as they come. A scalar is held (it is short) until
// it ends: then it is itself if it is JSON, else a JSON string. Text that cannot be JSON becomes a
// JSON string at once; an empty value is "".
class JsonArgument {
 public:
  // `guess`: the model did not say whether the value is a string; then all of it is held, up to a
  // bound, until it is known.
  void begin(bool guess);
  void push(char byte, std::string& out);
  // The value ended.
  void close(std::string& out);
  // The answer ended in the middle of the value: what is held goes out as it is.
  void cut_off(std::string& out);

 private:
  enum class Mode : std::uint8_t { kLead, kRaw, kText, kScalar, kGuess };

  void start_text(std::string& out);
  void give_up_holding(std::string& out);

  Mode mode_ = Mode::kLead;
  std::string held_;
};

}  // namespace shoal
