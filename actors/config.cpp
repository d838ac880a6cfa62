// Everything about options follows from the descriptors of schemas/config.proto: names, defaults,
// ranges, help.
#include "actors/config.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "actors/policy/autoscale.h"
#include "actors/text_format.h"
#include "schemas/check.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

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

std::string choices_text(const config::OptionRule& rule) {
  std::string choices;
  for (const std::string& word : rule.one_of()) {
    choices += (choices.empty() ? "" : ", ") + word;
  }
  return choices;
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
  return fail(Code::kMisconfigured,
              name + ": \"" + value + "\" is not one of " + choices_text(rule));
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

Result<void> check_buckets(const std::string& name, std::int64_t time, std::int64_t bucket) {
  if (time > kMostScaleBuckets * bucket) {
    return fail(Code::kMisconfigured,
                "autoscale." + name + ": " + std::to_string(time) + " is more than " +
                    std::to_string(kMostScaleBuckets) + " times autoscale.bucket_ms, at most " +
                    std::to_string(kMostScaleBuckets * bucket) + " with that");
  }
  return {};
}

}  // namespace

Result<void> read_config_file(const std::filesystem::path& file, ConfigSources& sources) {
  Config read;
  TRY_VOID(read_text_format(file, {"configuration file", "See `shoal config`."}, read));
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
  const auto& autoscale = config.autoscale();
  if (autoscale.prefill_least() > autoscale.prefill_most() ||
      autoscale.decode_least() > autoscale.decode_most()) {
    return fail(Code::kMisconfigured, "autoscale: no role's least may be above its most");
  }
  TRY_VOID(check_buckets("hold_ms", autoscale.hold_ms(), autoscale.bucket_ms()));
  TRY_VOID(check_buckets("outage_ms", autoscale.outage_ms(), autoscale.bucket_ms()));
  return check_buckets("provisioning_ms", autoscale.provisioning_ms(), autoscale.bucket_ms());
}

std::string option_bounds(std::string_view name) {
  Config config;
  const auto place = find_option(name, config);
  CHECK(place.has_value());
  const config::OptionRule& rule = rule_of(*place->field);
  std::string bounds = rule.has_min() || rule.has_max() ? range_text(rule) : choices_text(rule);
  const std::string value = option_text(*place->message, *place->field);
  if (value != "\"\"" && value != "[]") {
    bounds += (bounds.empty() ? "" : ", ") + ("default " + value);
  }
  return bounds;
}

std::string describe_config(const ConfigSources& sources) {
  std::string text;
  for_each_option(
      sources.config,
      "",
      [&sources, &text](
          const std::string& name, const Message& message, const FieldDescriptor& field) {
        const auto origin = sources.origin.find(name);
        const bool secret = name == "http.api_key" || name == "http.key_class";
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
