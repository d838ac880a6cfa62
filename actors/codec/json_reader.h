// Strict JSON in: the only way request bodies and call arguments become values.
#pragma once

#include <string_view>

#include "actors/codec/json_value.h"
#include "schemas/result.h"

namespace shoal {

inline constexpr int kJsonDepthMax = 64;
// Room for a prompt of a million token ids; a value takes about 100 bytes.
inline constexpr int kJsonValuesMax = 2'000'000;

struct JsonReadOptions {
  int depth_max = kJsonDepthMax;
  int values_max = kJsonValuesMax;
  // Escapes such as \ud83d without their partner become U+FFFD (clients cut strings in the middle
  // of an emoji); off: an error.
  bool repair_lone_surrogates = true;
};

// One document and nothing after it. Every value is visited, so no broken part slips by. A doubled
// name keeps its last value at its first position. Numbers must be finite as doubles. Errors are
// kInvalid and name line and column (both from 1, in characters).
Result<JsonValue> read_json(std::string_view text, const JsonReadOptions& options = {});

}  // namespace shoal
