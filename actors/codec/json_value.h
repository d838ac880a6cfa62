// A parsed JSON document as plain data: raw number text and member order are kept, because schemas
// are printed back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal {

struct JsonMember;

struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;                 // kString: unescaped, valid UTF-8; kNumber: as written
  std::vector<JsonValue> items;     // kArray
  std::vector<JsonMember> members;  // kObject, in order; a name occurs once

  bool is_null() const { return kind == Kind::kNull; }

  bool is_bool() const { return kind == Kind::kBool; }

  bool is_number() const { return kind == Kind::kNumber; }

  bool is_string() const { return kind == Kind::kString; }

  bool is_array() const { return kind == Kind::kArray; }

  bool is_object() const { return kind == Kind::kObject; }

  // The member's value; null when this is no object or has no such member.
  const JsonValue* find(std::string_view name) const;

  static JsonValue string(std::string value);
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

// "null", "boolean", "number", "string", "array" or "object": for messages.
std::string_view kind_name(JsonValue::Kind kind);

}  // namespace shoal
