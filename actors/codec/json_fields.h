// Typed look-ups in a request body: absent and null mean "not given", another type is an error that
// names the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/codec/json_value.h"
#include "schemas/result.h"

namespace shoal {

// The member when it is given; null when it is absent or null.
const JsonValue* given(const JsonValue& object, std::string_view name);

// The errors of a field carry its name beside the message, so that a program can read it.
// kInvalid: "invalid request body: NAME: expected WANTED, got KIND".
tl::unexpected<Error> wrong_type(std::string_view name,
                                 std::string_view wanted,
                                 const JsonValue& got);
// kInvalid: "invalid request body: NAME: WHAT".
tl::unexpected<Error> bad_field(std::string_view name, std::string_view what);
// kInvalid with a message that is worded elsewhere.
tl::unexpected<Error> field_error(std::string_view name, std::string message);

// Null when not given; lives as long as `object`.
Result<const std::string*> string_field(const JsonValue& object, std::string_view name);
Result<std::optional<bool>> bool_field(const JsonValue& object, std::string_view name);
Result<std::optional<double>> number_field(const JsonValue& object, std::string_view name);
// Written without point and exponent. Beyond 64 bits it becomes the nearest one, so that the
// caller's message can name the bounds.
Result<std::optional<std::int64_t>> integer_field(const JsonValue& object, std::string_view name);
// -2^63 .. 2^64 - 1; a negative one becomes its two's complement.
Result<std::optional<std::uint64_t>> bits64_field(const JsonValue& object, std::string_view name);

std::optional<std::int64_t> as_integer(const JsonValue& value);
double as_double(const JsonValue& number);

}  // namespace shoal
