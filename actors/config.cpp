// Everything about options follows from the descriptors of schemas/config.proto: names, defaults,
// ranges, help.
#include "actors/config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "schemas/check.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr std::uintmax_t kLargestFile = 1 << 20;  // bytes; every option with its help is 4 KiB

const config::OptionRule& rule_of(const FieldDescriptor& field) {
  return field.options().GetExtension(config::rule);
}

bool is_section(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

// Calls visit(dotted name, message that holds the field, field) for every option, in file order.
using Visit = std::function<void(const std::string&, const Message&, const FieldDescriptor&)>;

void for_each_option(const Message& message, const std::string& prefix, const Visit& visit) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name = prefix + field.name();
    if (is_section(field)) {
      for_each_option(message.GetReflection()->GetMessage(message, &field), name + ".", visit);
    } else {
      visit(name, message, field);
    }
  }
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for_each_option(
      Config(), "", [&names](const std::string& name, const Message&, const FieldDescriptor&) {
        names.push_back(name);
      });
  return names;
}

std::string value_text(const Message& message, const FieldDescriptor& field, int index) {
  std::string text;
  TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::string option_text(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) {
    return value_text(message, field, -1);
  }
  std::string list;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    list += (i == 0 ? "" : ", ") + value_text(message, field, i);
  }
  return "[" + list + "]";
}

// Where a dotted name leads: the message that holds the option, made on the way.
struct Place {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
};

std::optional<Place> find_option(std::string_view name, Config& config) {
  Message* message = &config;
  while (true) {
    const auto dot = name.find('.');
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(std::string(name.substr(0, dot)));
    if (field == nullptr || is_section(*field) != (dot != std::string_view::npos)) {
      return std::nullopt;
    }
    if (!is_section(*field)) {
      return Place{message, field};
    }
    message = message->GetReflection()->MutableMessage(message, field);
    name.remove_prefix(dot + 1);
  }
}

template <class Integer>
std::optional<Integer> parse_integer(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

// False: the text is not of the option's type.
bool set_value(const Place& place, std::string_view value) {
  const auto& reflection = *place.message->GetReflection();
  switch (place.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (place.field->is_repeated()) {
        reflection.AddString(place.message, place.field, std::string(value));
      } else {
        reflection.SetString(place.message, place.field, std::string(value));
      }
      return true;
    case FieldDescriptor::CPPTYPE_INT32:
      if (const auto number = parse_integer<std::int32_t>(value)) {
        reflection.SetInt32(place.message, place.field, *number);
        return true;
      }
      return false;
    case FieldDescriptor::CPPTYPE_INT64:
      if (const auto number = parse_integer<std::int64_t>(value)) {
        reflection.SetInt64(place.message, place.field, *number);
        return true;
      }
      return false;
    default:
      CHECK(false);
      return false;  // schemas/config.proto has no other types
  }
}

std::string range_text(const config::OptionRule& rule) {
  return std::to_string(static_cast<std::int64_t>(rule.min())) + " .. " +
         std::to_string(static_cast<std::int64_t>(rule.max()));
}

Result<void> check_number(const std::string& name,
                          std::int64_t value,
                          const config::OptionRule& rule) {
  const auto number = static_cast<double>(value);
  if ((rule.has_min() && number < rule.min()) || (rule.has_max() && number > rule.max())) {
    return fail(
        Code::kMisconfigured,
        name + ": " + std::to_string(value) + " is out of range, allowed is " + range_text(rule));
  }
  return {};
}

Result<void> check_choice(const std::string& name,
                          const std::string& value,
                          const config::OptionRule& rule) {
  if (rule.one_of_size() == 0 ||
      std::find(rule.one_of().begin(), rule.one_of().end(), value) != rule.one_of().end()) {
    return {};
  }
  std::string allowed;
  for (const std::string& word : rule.one_of()) {
    allowed += (allowed.empty() ? "" : ", ") + word;
  }
  return fail(Code::kMisconfigured, name + ": \"" + value + "\" is not one of " + allowed);
}

Result<void> check_option(const std::string& name,
                          const Message& message,
                          const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    return {};
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return check_number(name, reflection.GetInt32(message, &field), rule_of(field));
    case FieldDescriptor::CPPTYPE_INT64:
      return check_number(name, reflection.GetInt64(message, &field), rule_of(field));
    default:
      return check_choice(name, reflection.GetString(message, &field), rule_of(field));
  }
}

// Where a line and column of the parser, from 0, are in the text.
std::size_t offset_of(std::string_view text, int line, int column) {
  constexpr int kTab = 8;  // a tab takes the parser's column to the next multiple
  std::size_t at = 0;
  for (; line > 0 && at < text.size(); ++at) {
    line -= text[at] == '\n' ? 1 : 0;
  }
  for (int passed = 0; passed < column && at < text.size(); ++at) {
    passed += text[at] == '\t' ? kTab - passed % kTab : 1;
  }
  return at;
}

// The name whose value comes next, when `text` ends with "NAME:"; otherwise empty.
std::string_view name_before_value(std::string_view text) {
  const auto colon = text.find_last_not_of(" \t\r\n");
  if (colon == std::string_view::npos || text[colon] != ':') {
    return {};
  }
  text = text.substr(0, colon);
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const auto outside = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz_0123456789");
  return outside == std::string_view::npos ? text : text.substr(outside + 1);
}

// Keeps the first complaint of the parser, with the name whose value is wrong and the nearest known
// name when a name is unknown.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(std::string file, std::string_view content)
      : file_(std::move(file)),
        content_(content) {}

  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) {
      const std::string name(
          name_before_value(content_.substr(0, offset_of(content_, line, column))));
      text_ = file_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " +
              (name.empty() ? "" : name + ": ") + message + hint(message);
    }
  }

  void AddWarning(int, int, const std::string&) override {}

  const std::string& text() const { return text_; }

 private:
  // The parser says: Message type "shoal.config.Http" has no field named "prot".
  static std::string hint(const std::string& message) {
    const std::string type_mark = "Message type \"";
    const std::string name_mark = "\" has no field named \"";
    const auto type_at = message.find(type_mark);
    const auto name_at = message.find(name_mark);
    if (type_at == std::string::npos || name_at == std::string::npos) {
      return "";
    }
    const auto type_begin = type_at + type_mark.size();
    const Descriptor* type = Config::descriptor()->file()->pool()->FindMessageTypeByName(
        message.substr(type_begin, name_at - type_begin));
    const auto name_begin = name_at + name_mark.size();
    const std::string name = message.substr(name_begin, message.find('"', name_begin) - name_begin);
    std::vector<std::string> known;
    for (int i = 0; type != nullptr && i < type->field_count(); ++i) {
      known.push_back(type->field(i)->name());
    }
    const auto nearest = nearest_name(name, known);
    return nearest ? " Did you mean \"" + *nearest + "\"?" : " See `shoal config`.";
  }

  std::string file_;
  std::string_view content_;
  std::string text_;
};

// Looks before it opens: a pipe or a device could block or never end.
Result<std::string> read_text(const std::filesystem::path& file) {
  const auto refuse = [&file](const std::string& why) {
    return fail(Code::kMisconfigured, file.string() + ": " + why);
  };
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return refuse(std::filesystem::is_directory(status)
                      ? "is a directory, give a configuration file"
                      : "is not a regular file, give a configuration file");
  }
  std::ifstream stream(file);
  if (failed || !stream) {
    return refuse("cannot be read; check the path and its permissions");
  }
  if (std::filesystem::file_size(file, failed) > kLargestFile || failed) {
    return refuse("is larger than 1 MiB, which no configuration file is");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

}  // namespace

Result<void> read_config_file(const std::filesystem::path& file, ConfigSources& sources) {
  TRY(const std::string text, read_text(file));
  FirstError error(file.string(), text);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Config read;
  if (!parser.ParseFromString(text, &read)) {
    return fail(Code::kMisconfigured, error.text());
  }
  for_each_option(
      read,
      "",
      [&sources, &file](
          const std::string& name, const Message& message, const FieldDescriptor& field) {
        const auto& reflection = *message.GetReflection();
        const bool given = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                               : reflection.HasField(message, &field);
        if (given) {
          sources.origin[name] = file.string();
        }
      });
  sources.config.MergeFrom(read);
  return {};
}

Result<void> set_option(std::string_view name,
                        std::string_view value,
                        std::string_view origin,
                        ConfigSources& sources) {
  const auto place = find_option(name, sources.config);
  if (!place) {
    const auto nearest = nearest_name(name, option_names());
    return fail(Code::kMisconfigured,
                std::string(origin) + ": there is no option \"" + std::string(name) + "\", " +
                    (nearest ? "did you mean \"" + *nearest + "\"?" : "see `shoal config`"));
  }
  if (!set_value(*place, value)) {
    return fail(Code::kMisconfigured,
                std::string(name) + ": \"" + std::string(value) + "\" is not a whole number of " +
                    range_text(rule_of(*place->field)) + " (" + std::string(origin) + ")");
  }
  sources.origin[std::string(name)] = origin;
  return {};
}

Result<void> validate(const Config& config) {
  Result<void> verdict;
  for_each_option(
      config,
      "",
      [&verdict](const std::string& name, const Message& message, const FieldDescriptor& field) {
        if (verdict) {
          verdict = check_option(name, message, field);
        }
      });
  TRY_VOID(verdict);
  if (config.model().max_model_len() == 1) {
    return fail(Code::kMisconfigured,
                "model.max_model_len: 1 holds no prompt and answer; give at least 2, or 0 for what "
                "model and KV memory allow");
  }
  const auto& prefill = config.prefill();
  if (prefill.short_ms() >= prefill.medium_ms() || prefill.medium_ms() >= prefill.long_ms()) {
    return fail(Code::kMisconfigured, "prefill.short_ms, medium_ms, long_ms: must grow");
  }
  return {};
}

std::string describe_config(const ConfigSources& sources) {
  std::string text;
  for_each_option(
      sources.config,
      "",
      [&sources, &text](
          const std::string& name, const Message& message, const FieldDescriptor& field) {
        const auto origin = sources.origin.find(name);
        const bool secret = name == "http.api_key";
        const std::string value =
            secret ? std::to_string(message.GetReflection()->FieldSize(message, &field)) + " keys"
                   : option_text(message, field);
        text += name + " = " + value + "  (" +
                (origin == sources.origin.end() ? "default" : origin->second) + ")\n";
      });
  return text;
}

std::string default_config_file() {
  std::string text =
      "# Every option of a node with its default. A file needs only the lines it changes: shoal "
      "serve --config FILE.\n";
  const std::function<void(const Message&, const std::string&)> write =
      [&text, &write](const Message& message, const std::string& indent) {
        const Descriptor& type = *message.GetDescriptor();
        for (int i = 0; i < type.field_count(); ++i) {
          const FieldDescriptor& field = *type.field(i);
          if (is_section(field)) {
            text += indent + field.name() + " {\n";
            write(message.GetReflection()->GetMessage(message, &field), indent + "  ");
            text += indent + "}\n";
            continue;
          }
          text += indent + "# " + rule_of(field).help() + "\n";
          text += field.is_repeated()
                      ? indent + "# " + field.name() + ": \"...\"\n"
                      : indent + field.name() + ": " + value_text(message, field, -1) + "\n";
        }
      };
  write(Config(), "");
  return text;
}

std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& known) {
  const auto distance = [word](const std::string& other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
      }
    }
    return row.back();
  };
  const auto nearest = std::min_element(
      known.begin(), known.end(), [&distance](const std::string& a, const std::string& b) {
        return distance(a) < distance(b);
      });
  return nearest != known.end() && 2 * distance(*nearest) <= nearest->size()
             ? std::optional(*nearest)
             : std::nullopt;
}

std::int64_t kv_blocks(const Config& config, std::int64_t block_bytes) {
  const auto& kv = config.kv();
  return kv.blocks() > 0 ? kv.blocks() : std::max<std::int64_t>(1, kv.bytes() / block_bytes);
}

}  // namespace shoal
