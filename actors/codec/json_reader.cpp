// A walker over simdjson's On-Demand tokens that looks at everything: what nobody reads is checked
// all the same.
#include "actors/codec/json_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <simdjson.h>
#include <string>
#include <unordered_map>
#include <utility>

namespace shoal {
namespace {

namespace od = simdjson::ondemand;

// Objects larger than this find doubled names by a table, so that a hostile body costs no quadratic
// time.
constexpr std::size_t kLinearNamesMax = 16;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  return text;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at]))
    ++at;
  return at;
}

// The grammar of RFC 8259, section 6.
bool is_number_token(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole_end = skip_digits(text, at);
  if (whole_end == at || (text[at] == '0' && whole_end > at + 1))
    return false;
  at = whole_end;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction_end = skip_digits(text, at + 1);
    if (fraction_end == at + 1)
      return false;
    at = fraction_end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-'))
      ++at;
    const std::size_t exponent_end = skip_digits(text, at);
    if (exponent_end == at)
      return false;
    at = exponent_end;
  }
  return at == text.size();
}

bool is_too_large(std::string_view number) {
  double value = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
  if (result.ec != std::errc::result_out_of_range)
    return false;
  // Out of range is also what tiny numbers give; those are zero, not too large.
  const std::size_t exponent = number.find_first_of("eE");
  if (exponent != number.npos)
    return number[exponent + 1] != '-';
  return !number.starts_with("0.") && !number.starts_with("-0.");
}

// What went wrong and where; the offset is absent when only "somewhere" is known.
struct Fault {
  std::string what;
  std::optional<std::size_t> offset;
  simdjson::error_code code = simdjson::SUCCESS;
};

class Walker {
 public:
  Walker(od::document& document, std::string_view text, const JsonReadOptions& options)
      : document_(document),
        begin_(text.data()),
        size_(text.size()),
        options_(options) {}

  std::optional<Fault> run(JsonValue& out) {
    const std::string_view whole = trimmed({begin_, size_});
    if (!whole.starts_with('{') && !whole.starts_with('['))
      return root_scalar(whole, out);
    od::value root;
    if (auto error = document_.get_value().get(root))
      return fault(error);
    if (auto found = value(root, out, 1))
      return found;
    const char* rest = nullptr;
    if (document_.current_location().get(rest) == simdjson::SUCCESS)
      return fault_at("unexpected text after the JSON value", rest);
    return std::nullopt;
  }

 private:
  std::optional<Fault> fault(simdjson::error_code code) {
    if (code == simdjson::INCOMPLETE_ARRAY_OR_OBJECT)
      return cut_off();
    Fault found{std::string(simdjson::error_message(code)), std::nullopt, code};
    const char* at = nullptr;
    if (document_.current_location().get(at) == simdjson::SUCCESS)
      found.offset = offset_of(at);
    return found;
  }

  // Releases of simdjson differ in where they say this is; it is where the text ends.
  Fault cut_off() const {
    const std::string_view last = trimmed({begin_, size_});
    const bool lacks_value = last.ends_with('[') || last.ends_with(':');
    return {lacks_value ? "expected a value" : "the text ends before its JSON value does",
            size_,
            simdjson::INCOMPLETE_ARRAY_OR_OBJECT};
  }

  std::optional<Fault> fault_at(std::string what, const char* at) {
    return Fault{std::move(what), offset_of(at)};
  }

  std::size_t offset_of(const char* at) const {
    return std::min<std::size_t>(static_cast<std::size_t>(at - begin_), size_);
  }

  std::optional<Fault> root_scalar(std::string_view whole, JsonValue& out) {
    if (!whole.starts_with('"'))
      return scalar(whole, out);
    std::string_view text;
    if (auto error = document_.get_string().get(text))
      return fault(error);
    out = JsonValue::string(std::string(text));
    const char* rest = nullptr;
    if (document_.current_location().get(rest) == simdjson::SUCCESS)
      return fault_at("unexpected text after the JSON value", rest);
    return std::nullopt;
  }

  std::optional<Fault> value(od::value in, JsonValue& out, int depth) {
    const std::string_view token = in.raw_json_token();
    if (depth > options_.depth_max) {
      return fault_at("nested deeper than " + std::to_string(options_.depth_max) + " levels",
                      token.data());
    }
    if (++values_ > options_.values_max) {
      return fault_at("more than " + std::to_string(options_.values_max) + " values", token.data());
    }
    if (token.starts_with('{'))
      return object(in, out, depth);
    if (token.starts_with('['))
      return array(in, out, depth);
    if (!token.starts_with('"'))
      return scalar(trimmed(token), out);
    std::string_view text;
    if (auto error = in.get_string().get(text)) {
      Fault found{std::string("bad string: ") + simdjson::error_message(error),
                  offset_of(token.data()),
                  error};
      return found;
    }
    out = JsonValue::string(std::string(text));
    return std::nullopt;
  }

  // Literals and numbers: read from the raw text, because the library accepts wrong literals and
  // refuses large integers.
  std::optional<Fault> scalar(std::string_view token, JsonValue& out) {
    if (token == "null") {
      out.kind = JsonValue::Kind::kNull;
    } else if (token == "true" || token == "false") {
      out.kind = JsonValue::Kind::kBool;
      out.boolean = token == "true";
    } else if (is_number_token(token)) {
      if (is_too_large(token))
        return fault_at("number out of range", token.data());
      out.kind = JsonValue::Kind::kNumber;
      out.text = token;
    } else {
      // Only the end of the document is an empty token.
      return fault_at("expected a value", token.empty() ? begin_ + size_ : token.data());
    }
    return std::nullopt;
  }

  std::optional<Fault> array(od::value in, JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kArray;
    od::array items;
    if (auto error = in.get_array().get(items))
      return fault(error);
    for (auto item : items) {
      od::value child;
      if (auto error = std::move(item).get(child))
        return fault(error);
      if (auto found = value(child, out.items.emplace_back(), depth + 1))
        return found;
    }
    return std::nullopt;
  }

  std::optional<Fault> object(od::value in, JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kObject;
    od::object members;
    if (auto error = in.get_object().get(members))
      return fault(error);
    std::unordered_map<std::string, std::size_t> places;
    for (auto member : members) {
      od::field field;
      if (auto error = std::move(member).get(field))
        return fault(error);
      std::string_view name;
      if (auto error = field.unescaped_key().get(name))
        return fault(error);
      JsonValue& slot = slot_of(out, std::string(name), places);
      slot = JsonValue{};
      if (auto found = value(field.value(), slot, depth + 1))
        return found;
    }
    return std::nullopt;
  }

  static JsonValue& slot_of(JsonValue& object,
                            std::string name,
                            std::unordered_map<std::string, std::size_t>& places) {
    std::vector<JsonMember>& members = object.members;
    if (members.size() < kLinearNamesMax) {
      for (JsonMember& member : members) {
        if (member.name == name)
          return member.value;
      }
    } else {
      for (std::size_t i = places.size(); i < members.size(); ++i)
        places.emplace(members[i].name, i);
      if (const auto place = places.find(name); place != places.end())
        return members[place->second].value;
    }
    return members.emplace_back(JsonMember{std::move(name), {}}).value;
  }

  od::document& document_;
  const char* begin_;
  std::size_t size_;
  const JsonReadOptions& options_;
  int values_ = 0;
};

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The code unit of the escape \uXXXX at `at`; absent when there is none.
std::optional<unsigned> escape_unit(std::string_view text, std::size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u')
    return std::nullopt;
  if (!std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                   text.begin() + static_cast<std::ptrdiff_t>(at) + 6,
                   is_hex)) {
    return std::nullopt;
  }
  unsigned unit = 0;
  std::from_chars(text.data() + at + 2, text.data() + at + 6, unit, 16);
  return unit;
}

bool is_high(unsigned unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}

bool is_low(unsigned unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

// In place and of the same length, so offsets of later errors stay true. Says whether anything
// changed.
bool repair_surrogates(std::string& text) {
  bool changed = false;
  for (std::size_t at = text.find('\\'); at != text.npos && at + 1 < text.size();
       at = text.find('\\', at)) {
    const auto unit = escape_unit(text, at);
    if (!unit) {
      at += 2;
      continue;
    }
    const auto next = is_high(*unit) ? escape_unit(text, at + 6) : std::nullopt;
    if (next && is_low(*next)) {
      at += 12;
      continue;
    }
    if (is_high(*unit) || is_low(*unit)) {
      text.replace(at + 2, 4, "fffd");
      changed = true;
    }
    at += 6;
  }
  return changed;
}

std::size_t first_bad_utf8(std::string_view text) {
  // The longest valid prefix, by halving: errors are rare, simplicity wins.
  std::size_t good = 0;
  std::size_t bad = text.size();
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    std::size_t cut = middle;
    while (cut > good && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80)
      --cut;
    if (cut == good) {
      cut = middle;
    }
    (simdjson::validate_utf8(text.data(), cut) ? good : bad) = cut;
  }
  return good;
}

Error located(const Fault& fault, std::string_view text) {
  const std::size_t offset = std::min(fault.offset.value_or(text.size()), text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  const auto column =
      1 + std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_start),
                        before.end(),
                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return {Code::kInvalid,
          "invalid JSON: " + fault.what + " at line " + std::to_string(line) + ", column " +
              std::to_string(column)};
}

std::optional<Fault> parse(const std::string& text,
                           const JsonReadOptions& options,
                           JsonValue& out) {
  od::parser parser;
  od::document document;
  if (trimmed(text).empty())
    return Fault{"the document is empty", 0};
  if (auto error = parser.iterate(text.data(), text.size(), text.capacity()).get(document)) {
    Fault fault{std::string(simdjson::error_message(error)), std::nullopt, error};
    if (error == simdjson::UTF8_ERROR) {
      fault.what = "invalid UTF-8";
      fault.offset = first_bad_utf8(text);
    }
    return fault;
  }
  return Walker(document, text, options).run(out);
}

}  // namespace

Result<JsonValue> read_json(std::string_view text, const JsonReadOptions& options) {
  std::string padded;
  padded.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  padded = text;
  JsonValue out;
  std::optional<Fault> fault = parse(padded, options, out);
  if (fault && fault->code == simdjson::STRING_ERROR && options.repair_lone_surrogates &&
      repair_surrogates(padded)) {
    out = JsonValue{};
    fault = parse(padded, options, out);
  }
  if (fault)
    return tl::unexpected(located(*fault, padded));
  return out;
}

}  // namespace shoal
