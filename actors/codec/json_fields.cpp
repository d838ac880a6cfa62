// One wording for every field of the wrong type.
#include "actors/codec/json_fields.h"

#include <charconv>
#include <limits>
#include <utility>

namespace shoal {
namespace {

template <class Integer>
struct Parsed {
  Integer value = 0;
  bool is_integer = false;
  bool fits = false;
};

template <class Integer>
Parsed<Integer> parse_integer(const JsonValue& value) {
  Parsed<Integer> out;
  if (!value.is_number())
    return out;
  const char* const end = value.text.data() + value.text.size();
  const auto result = std::from_chars(value.text.data(), end, out.value);
  out.is_integer = result.ptr == end && result.ec != std::errc::invalid_argument;
  out.fits = out.is_integer && result.ec == std::errc{};
  return out;
}

}  // namespace

const JsonValue* given(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

tl::unexpected<Error> wrong_type(std::string_view name,
                                 std::string_view wanted,
                                 const JsonValue& got) {
  return bad_field(name,
                   "expected " + std::string(wanted) + ", got " +
                       (got.is_number() ? got.text : std::string(kind_name(got.kind))));
}

tl::unexpected<Error> bad_field(std::string_view name, std::string_view what) {
  return field_error(name, "invalid request body: " + std::string(name) + ": " + std::string(what));
}

tl::unexpected<Error> field_error(std::string_view name, std::string message) {
  return tl::unexpected(Error{Code::kInvalid, std::move(message), std::string(name)});
}

Result<const std::string*> string_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = given(object, name);
  if (value == nullptr)
    return nullptr;
  if (!value->is_string())
    return wrong_type(name, "a string", *value);
  return &value->text;
}

Result<std::optional<bool>> bool_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = given(object, name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_bool())
    return wrong_type(name, "a boolean", *value);
  return value->boolean;
}

Result<std::optional<double>> number_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = given(object, name);
  if (value == nullptr)
    return std::nullopt;
  if (!value->is_number())
    return wrong_type(name, "a number", *value);
  return as_double(*value);
}

Result<std::optional<std::int64_t>> integer_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = given(object, name);
  if (value == nullptr)
    return std::nullopt;
  const auto out = parse_integer<std::int64_t>(*value);
  if (!out.is_integer)
    return wrong_type(name, "an integer", *value);
  if (out.fits)
    return out.value;
  using Limits = std::numeric_limits<std::int64_t>;
  return value->text.starts_with('-') ? Limits::min() : Limits::max();
}

Result<std::optional<std::uint64_t>> bits64_field(const JsonValue& object, std::string_view name) {
  const JsonValue* value = given(object, name);
  if (value == nullptr)
    return std::nullopt;
  if (const auto out = parse_integer<std::uint64_t>(*value); out.fits)
    return out.value;
  if (const auto out = parse_integer<std::int64_t>(*value); out.fits)
    return static_cast<std::uint64_t>(out.value);
  return wrong_type(name, "an integer from -2^63 to 2^64 - 1", *value);
}

std::optional<std::int64_t> as_integer(const JsonValue& value) {
  const auto out = parse_integer<std::int64_t>(value);
  return out.fits ? std::optional(out.value) : std::nullopt;
}

double as_double(const JsonValue& number) {
  double out = 0;
  std::from_chars(number.text.data(), number.text.data() + number.text.size(), out);
  return out;
}

}  // namespace shoal
