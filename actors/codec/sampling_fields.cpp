// Bounds of the shared request fields, with the official wording where there is one.
#include "actors/codec/sampling_fields.h"

#include <charconv>
#include <limits>
#include <string_view>

#include "actors/codec/json_fields.h"

namespace shoal {
namespace {

struct FloatField {
  std::string_view name;
  double low;
  double high;
  bool low_excluded;
  std::string_view range;  // as the message prints it
  float Sampling::*target;
};

constexpr FloatField kFloatFields[] = {
    {"temperature", 0, 2, false, "[0, 2]", &Sampling::temperature},
    {"top_p", 0, 1, true, "(0, 1.0]", &Sampling::top_p},
    {"min_p", 0, 1, false, "[0, 1]", &Sampling::min_p},
    {"presence_penalty", -2, 2, false, "[-2, 2]", &Sampling::presence_penalty},
    {"frequency_penalty", -2, 2, false, "[-2, 2]", &Sampling::frequency_penalty},
    {"repetition_penalty", 0.01, 100, false, "[0.01, 100]", &Sampling::repetition_penalty},
};

tl::unexpected<Error> out_of_range(std::string_view name, std::string_view range) {
  const std::string field(name);
  return field_error(
      name,
      "Invalid " + field + " value, the valid range of " + field + " is " + std::string(range));
}

Result<void> read_floats(const JsonValue& body, Sampling& sampling) {
  for (const FloatField& field : kFloatFields) {
    TRY(const auto value, number_field(body, field.name));
    if (!value)
      continue;
    if (*value < field.low || *value > field.high || (field.low_excluded && *value == field.low)) {
      return out_of_range(field.name, field.range);
    }
    sampling.*field.target = static_cast<float>(*value);
  }
  return {};
}

Result<void> read_count(const JsonValue& body,
                        std::string_view name,
                        std::int64_t low,
                        int& target) {
  TRY(const auto value, integer_field(body, name));
  if (!value)
    return {};
  if (*value < low || *value > std::numeric_limits<int>::max()) {
    return out_of_range(name, std::to_string(low) + " to 2147483647");
  }
  target = static_cast<int>(*value);
  return {};
}

Result<TokenId> read_token_id(const JsonValue& value, std::string_view name) {
  const auto id = as_integer(value);
  if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max())
    return wrong_type(name, "a token id", value);
  return static_cast<TokenId>(*id);
}

Result<void> read_stop_ids(const JsonValue& body, Sampling& sampling) {
  const JsonValue* ids = given(body, "stop_token_ids");
  if (ids == nullptr)
    return {};
  if (!ids->is_array())
    return wrong_type("stop_token_ids", "a list of token ids", *ids);
  for (const JsonValue& item : ids->items) {
    TRY(const TokenId id, read_token_id(item, "stop_token_ids"));
    sampling.stop_token_ids.push_back(id);
  }
  return {};
}

Result<void> read_logit_bias(const JsonValue& body, Sampling& sampling) {
  const JsonValue* biases = given(body, "logit_bias");
  if (biases == nullptr)
    return {};
  if (!biases->is_object())
    return wrong_type("logit_bias", "an object from token id to bias", *biases);
  for (const JsonMember& member : biases->members) {
    JsonValue key;
    key.kind = JsonValue::Kind::kNumber;
    key.text = member.name;
    TRY(const TokenId id, read_token_id(key, "logit_bias"));
    if (member.name != std::to_string(id))
      return wrong_type("logit_bias", "token ids without leading zeros", key);  // twice the same
    if (!member.value.is_number())
      return wrong_type("logit_bias", "a number", member.value);
    const double bias = as_double(member.value);
    if (bias < -100 || bias > 100)
      return out_of_range("logit_bias", "[-100, 100]");
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return {};
}

// Item `index` of a list of texts, none of which may be empty.
Result<std::string> read_text(const JsonValue& item, std::string_view list, std::size_t index) {
  const std::string name = std::string(list) + "[" + std::to_string(index) + "]";
  if (!item.is_string())
    return wrong_type(name, "a string", item);
  if (!item.text.empty())
    return item.text;
  return field_error(name,
                     "Invalid '" + name +
                         "': empty string. Expected a string with minimum length 1, but got an "
                         "empty string instead.");
}

Result<std::vector<std::string>> read_texts(const JsonValue& list, std::string_view name) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    TRY(std::string text, read_text(list.items[i], name, i));
    out.push_back(std::move(text));
  }
  return out;
}

Result<std::vector<std::string>> read_bad_words(const JsonValue& body) {
  const JsonValue* words = given(body, "bad_words");
  if (words == nullptr)
    return std::vector<std::string>{};
  if (!words->is_array())
    return wrong_type("bad_words", "a list of strings", *words);
  if (words->items.size() > kBadWordsMax)
    return bad_field("bad_words", "at most " + std::to_string(kBadWordsMax) + " are taken");
  TRY(auto texts, read_texts(*words, "bad_words"));
  for (const std::string& text : texts) {
    if (text.size() > kBadWordBytes)
      return bad_field("bad_words", "each has at most " + std::to_string(kBadWordBytes) + " bytes");
  }
  return texts;
}

}  // namespace

Result<Sampling> read_sampling(const JsonValue& body, const Sampling& defaults) {
  Sampling sampling = defaults;
  TRY_VOID(read_floats(body, sampling));
  TRY_VOID(read_count(body, "top_k", -1, sampling.top_k));
  if (sampling.top_k < 0)
    sampling.top_k = 0;  // -1 is a common spelling of "off"
  TRY_VOID(read_count(body, "min_tokens", 0, sampling.min_tokens));
  TRY(const auto seed, bits64_field(body, "seed"));
  sampling.has_seed = seed.has_value();
  sampling.seed = seed.value_or(0);
  TRY_VOID(read_stop_ids(body, sampling));
  TRY_VOID(read_logit_bias(body, sampling));
  TRY(const auto ignore_eos, bool_field(body, "ignore_eos"));
  sampling.ignore_eos = ignore_eos.value_or(false);
  return sampling;
}

Result<std::vector<std::string>> read_stop_strings(const JsonValue& body) {
  std::vector<std::string> out;
  const JsonValue* stop = given(body, "stop");
  if (stop == nullptr)
    return out;
  if (stop->is_string()) {
    if (!stop->text.empty())
      out.push_back(stop->text);
    return out;
  }
  if (!stop->is_array())
    return wrong_type("stop", "a string or a list of strings", *stop);
  if (stop->items.size() > kStopStringsMax) {
    return field_error("stop", "Stop string array too long: " + std::to_string(stop->items.size()));
  }
  return read_texts(*stop, "stop");
}

Result<StreamFields> read_stream_fields(const JsonValue& body) {
  StreamFields fields;
  TRY(const auto stream, bool_field(body, "stream"));
  fields.stream = stream.value_or(false);
  const JsonValue* options = given(body, "stream_options");
  if (options == nullptr)
    return fields;
  if (!options->is_object())
    return wrong_type("stream_options", "an object", *options);
  if (!fields.stream)
    return field_error("stream_options", "stream_options should be set along with stream = true");
  TRY(const auto include_usage, bool_field(*options, "include_usage"));
  fields.include_usage = include_usage.value_or(false);
  return fields;
}

Result<ServingFields> read_serving_fields(const JsonValue& body) {
  ServingFields fields;
  TRY(const std::string* replay, string_field(body, "replay"));
  if (replay) {
    if (*replay != "exact" && *replay != "bounded")
      return bad_field("replay", "expected \"exact\" or \"bounded\"");
    fields.replay = *replay == "exact" ? ReplayMode::kExact : ReplayMode::kBounded;
  }
  TRY(const std::string* cache_class, string_field(body, "cache_class"));
  if (cache_class) {
    if (*cache_class != "agent" && *cache_class != "chat")
      return bad_field("cache_class", "expected \"agent\" or \"chat\"");
    fields.cache_class = *cache_class == "agent" ? CacheClass::kAgent : CacheClass::kChat;
  }
  TRY(const auto timeout, number_field(body, "timeout"));
  if (timeout && !(*timeout > 0))
    return bad_field("timeout", "expected a number of seconds above 0");
  fields.timeout_s = timeout.value_or(0);
  TRY(const auto return_token_ids, bool_field(body, "return_token_ids"));
  fields.return_token_ids = return_token_ids.value_or(false);
  TRY(fields.bad_words, read_bad_words(body));
  return fields;
}

}  // namespace shoal
