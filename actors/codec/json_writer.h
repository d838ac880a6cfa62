// JSON out without objects: escape and append, nothing is built first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoal {

// The escaped characters only, without quotes. `text` must be valid UTF-8; whole characters, never
// a part of one. Escapes are those of Python's json.dumps(ensure_ascii=False), which the model was
// trained on.
void append_escaped(std::string& out, std::string_view text);

// With quotes.
void append_json_string(std::string& out, std::string_view text);

void append_json_int(std::string& out, std::int64_t value);

// The shortest text that reads back as the same number; not finite: null.
void append_json_float(std::string& out, float value);

}  // namespace shoal
