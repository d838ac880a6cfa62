// Look-ups on parsed JSON.
#include "actors/codec/json_value.h"

#include <utility>

namespace shoal {

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const JsonMember& member : members) {
    if (member.name == name)
      return &member.value;
  }
  return nullptr;
}

JsonValue JsonValue::string(std::string value) {
  JsonValue out;
  out.kind = Kind::kString;
  out.text = std::move(value);
  return out;
}

std::string_view kind_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "boolean";
    case JsonValue::Kind::kNumber:
      return "number";
    case JsonValue::Kind::kString:
      return "string";
    case JsonValue::Kind::kArray:
      return "array";
    case JsonValue::Kind::kObject:
      return "object";
  }
  return "unknown";
}

}  // namespace shoal
