// Tools of a Chat body: names, schemas, strict mode, and which of them the model is shown.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "actors/codec/chat_request.h"
#include "actors/codec/json_fields.h"
#include "actors/codec/python_json.h"

namespace shoal {
namespace {

constexpr std::size_t kToolNameBytesMax = 128;

// Strict mode takes them out: constrained decoding does not support them.
constexpr std::array<std::string_view, 4> kUnsupportedKeywords = {
    "minLength", "maxLength", "minItems", "maxItems"};

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Result<void> check_name(const std::string& name, const std::string& where) {
  const std::string field = where + ".function.name";
  const std::string invalid = "Invalid '" + field + "': ";
  if (name.empty()) {
    return field_error(field,
                       invalid +
                           "empty string. Expected a string with minimum length 1, but got an "
                           "empty string instead.");
  }
  if (name.size() > kToolNameBytesMax) {
    return field_error(field,
                       invalid +
                           "string too long. Expected a string with maximum length 128, but got a "
                           "string with length " +
                           std::to_string(name.size()) + " instead.");
  }
  if (!std::all_of(name.begin(), name.end(), is_name_char)) {
    return field_error(field,
                       invalid +
                           "string does not match pattern. Expected a string that matches the "
                           "pattern '^[a-zA-Z0-9_-]+$'.");
  }
  return {};
}

Result<void> check_schema(const ToolSpec& tool, const std::string& where) {
  const JsonValue* type = tool.parameters.find("type");
  if (type != nullptr && type->is_string() && type->text == "object")
    return {};
  return field_error(where + ".function.parameters",
                     "Invalid schema for function '" + tool.name +
                         "': schema must be a JSON Schema of 'type: \"object\"', got 'type: " +
                         (type == nullptr ? std::string("null") : python_json(*type)) + "'.");
}

// Every property of every object must be required.
Result<void> check_required(const JsonValue& schema) {
  const JsonValue* properties = schema.find("properties");
  if (properties == nullptr || !properties->is_object())
    return {};
  const JsonValue* required = schema.find("required");
  std::unordered_set<std::string_view> names;
  if (required != nullptr) {
    for (const JsonValue& item : required->items)
      names.insert(item.text);
  }
  for (const JsonMember& property : properties->members) {
    if (!names.contains(property.name)) {
      return field_error("tools", "Required properties must match all properties in the object");
    }
  }
  return {};
}

void move_to_end(std::vector<JsonMember>& members, std::string_view name) {
  const auto place = std::find_if(members.begin(), members.end(), [&](const JsonMember& member) {
    return member.name == name;
  });
  if (place != members.end())
    std::rotate(place, place + 1, members.end());
}

Result<void> normalize_strict(JsonValue& value, bool is_schema) {
  for (JsonValue& item : value.items) {
    TRY_VOID(normalize_strict(item, is_schema));
  }
  if (!value.is_object())
    return {};
  if (is_schema) {
    TRY_VOID(check_required(value));
    std::erase_if(value.members, [](const JsonMember& member) {
      return std::find(kUnsupportedKeywords.begin(), kUnsupportedKeywords.end(), member.name) !=
             kUnsupportedKeywords.end();
    });
    move_to_end(value.members, "additionalProperties");
    move_to_end(value.members, "required");
  }
  for (JsonMember& member : value.members) {
    // Under these three the names are the client's own, each with a schema behind it.
    const bool holds_names = is_schema && (member.name == "properties" || member.name == "$defs" ||
                                           member.name == "definitions");
    TRY_VOID(normalize_strict(member.value, !holds_names));
  }
  return {};
}

Result<ToolSpec> read_tool(const JsonValue& item, std::size_t index) {
  const std::string where = "tools[" + std::to_string(index) + "]";
  if (!item.is_object())
    return wrong_type(where, "an object", item);
  TRY(const std::string* type, string_field(item, "type"));
  if (!type)
    return bad_field(where, "missing field `type`");
  if (*type != "function")
    return bad_field(where, "unknown type `" + *type + "`, expected `function`");
  const JsonValue* function = given(item, "function");
  if (function == nullptr || !function->is_object())
    return bad_field(where, "missing field `function`");
  ToolSpec tool;
  TRY(const std::string* name, string_field(*function, "name"));
  if (!name)
    return bad_field(where, "missing field `name`");
  tool.name = *name;
  TRY_VOID(check_name(tool.name, where));
  TRY(const std::string* description, string_field(*function, "description"));
  if (description)
    tool.description = *description;
  TRY(const auto strict, bool_field(*function, "strict"));
  tool.strict = strict.value_or(false);
  tool.parameters.kind = JsonValue::Kind::kObject;
  if (const JsonValue* parameters = given(*function, "parameters")) {
    tool.parameters = *parameters;
    TRY_VOID(check_schema(tool, where));
    if (tool.strict)
      TRY_VOID(normalize_strict(tool.parameters, true));
  }
  return tool;
}

}  // namespace

Result<std::vector<ToolSpec>> read_tools(const JsonValue& body) {
  std::vector<ToolSpec> tools;
  const JsonValue* list = given(body, "tools");
  if (list == nullptr)
    return tools;
  if (!list->is_array())
    return wrong_type("tools", "a list", *list);
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    TRY(ToolSpec tool, read_tool(list->items[i], i));
    if (!names.insert(tool.name).second)
      return field_error("tools", "Tool names must be unique.");
    tools.push_back(std::move(tool));
  }
  return tools;
}

Result<ToolChoice> read_tool_choice(const JsonValue& body,
                                    std::vector<ToolSpec>& tools,
                                    const ChatOptions& options) {
  const JsonValue* choice = given(body, "tool_choice");
  if (choice == nullptr)
    return ToolChoice::kAuto;
  if (choice->is_string() && choice->text == "auto")
    return ToolChoice::kAuto;
  if (choice->is_string() && choice->text == "none") {
    tools.clear();
    return ToolChoice::kNone;
  }
  if (choice->is_string() && choice->text == "required")
    return tools.empty() ? ToolChoice::kAuto : ToolChoice::kForced;
  const JsonValue* function = choice->is_object() ? given(*choice, "function") : nullptr;
  const JsonValue* name = function != nullptr ? given(*function, "name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    return bad_field("tool_choice", "expected one of `none`, `auto`, `required` or a tool");
  }
  std::erase_if(tools, [&](const ToolSpec& tool) { return tool.name != name->text; });
  if (tools.empty()) {
    const std::string field = options.strict_official ? "tool_call" : "tool_choice";
    return field_error("tool_choice",
                       "Invalid value for '" + field + "': no function named '" + name->text +
                           "' was specified in the 'tools' parameter.");
  }
  return ToolChoice::kForced;
}

}  // namespace shoal
