// Prints JSON as the model saw it in training: like Python's json.dumps(value, ensure_ascii=False).
#pragma once

#include <string>

#include "actors/codec/json_value.h"

namespace shoal {

// Separators ", " and ": ", members in order. Numbers follow the official program, which reads with
// 64 bits: integers outside
// [-2^63, 2^64) and -0 are printed as floats.
void append_python_json(std::string& out, const JsonValue& value);
std::string python_json(const JsonValue& value);

}  // namespace shoal
