// shoal explain: the timeline of one request of a running server, as a table.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/json_reader.h"
#include "actors/codec/json_value.h"
#include "tools/commands.h"
#include "tools/explain_words.h"
#include "tools/http_client.h"

namespace shoal::tools {

namespace {

constexpr int kNeverInterrupted = -1;

// The text of a string or a number; empty when there is none.
std::string text_of(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value == nullptr ? std::string() : value->text;
}

std::string error_of(const HttpReply& reply) {
  if (const auto body = read_json(reply.body)) {
    const JsonValue* error = body->find("error");
    if (error != nullptr && !text_of(*error, "message").empty()) {
      return text_of(*error, "message");
    }
  }
  return "the server answered with status " + std::to_string(reply.status);
}

// A server's text must not steer the terminal.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(),
      text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  return text;
}

// Of the answer of the server: numbers of nodes, and their names where it is one of several.
class NodeNames {
 public:
  explicit NodeNames(const JsonValue& answer) : names_(answer.find("nodes")) {}

  std::string of(const std::string& number) const {
    const auto n = static_cast<std::size_t>(std::strtoul(number.c_str(), nullptr, 10));
    const bool known = names_ != nullptr && !number.empty() && n < names_->items.size();
    return known ? number + " " + printable(names_->items[n].text) : number;
  }

 private:
  const JsonValue* names_;
};

// Those of one entry.
FieldText fields_of(const JsonValue& entry) {
  return [fields = entry.find("fields")](std::string_view name) {
    return fields == nullptr ? std::string() : text_of(*fields, name);
  };
}

std::string field_line(const JsonValue& entry, const NodeNames& nodes) {
  std::string line;
  const JsonValue* fields = entry.find("fields");
  if (fields == nullptr) {
    return line;
  }
  for (const JsonMember& field : fields->members) {
    const std::string text =
        field.name == "to_node" ? nodes.of(field.value.text) : field.value.text;
    const bool quoted = text.find(' ') != std::string::npos;
    line += (line.empty() ? "" : " ") + field.name + "=" + (quoted ? "\"" : "") + text +
            (quoted ? "\"" : "");
  }
  return printable(std::move(line));
}

// Where the answer's numbers come from, and what of it was computed before.
void print_basis(const JsonValue& entry) {
  const FieldText number = fields_of(entry);
  if (number("mode").empty()) {
    return;
  }
  const bool exact = number("mode") == "exact";
  std::printf("  basis: %s, %s of %s prompt tokens from %s, rows run from %s, %s\n",
              number("mode").c_str(),
              number("cached").c_str(),
              number("prompt").c_str(),
              number("tail") == "1" ? "a session's tail" : "the cache",
              number("start").c_str(),
              exact ? "the numbers of a run from nothing"
                    : ("encoder windows from " + number("replay_floor") + ", decoder layers from " +
                       number("tail_start"))
                          .c_str());
}

// What an entry tells in words, below the basis of the last attempt.
void print_words(const JsonValue& entry) {
  const FieldText field = fields_of(entry);
  const auto print = [&entry](const char* title, const std::string& words) {
    std::printf("  %s, attempt %s: %s\n",
                title,
                text_of(entry, "attempt").c_str(),
                printable(words).c_str());
  };
  if (!field("kv_reason").empty()) {
    print("kept KV", kv_words(field));
  }
  if (!field("why").empty()) {
    print("refused", refusal_words(field));
  }
}

void print_entry(const JsonValue& entry, const NodeNames& nodes) {
  std::printf("  %12.3f  %-12s  %7s  %-16s  %-14s  %s\n",
              std::strtod(text_of(entry, "t_ns").c_str(), nullptr) / 1e6,
              nodes.of(text_of(entry, "node")).c_str(),
              text_of(entry, "attempt").c_str(),
              printable(text_of(entry, "event")).c_str(),
              printable(text_of(entry, "state")).c_str(),
              field_line(entry, nodes).c_str());
}

void print_choice(const JsonValue& choice, const NodeNames& nodes) {
  const JsonValue* entries = choice.find("entries");
  if (entries == nullptr) {
    return;
  }
  std::printf("choice %s, request %s\n",
              text_of(choice, "index").c_str(),
              text_of(choice, "request").c_str());
  // Of the last attempt.
  const auto accepted =
      std::find_if(entries->items.rbegin(), entries->items.rend(), [](const JsonValue& entry) {
        return text_of(entry, "event") == "accepted";
      });
  if (accepted != entries->items.rend()) {
    print_basis(*accepted);
  }
  for (const JsonValue& entry : entries->items) {
    print_words(entry);
  }
  std::printf("  %12s  %-12s  %7s  %-16s  %-14s  %s\n",
              "ms",
              "node",
              "attempt",
              "event",
              "state",
              "what was decided");
  for (const JsonValue& entry : entries->items) {
    print_entry(entry, nodes);
  }
  if (const std::string left_out = text_of(choice, "left_out"); left_out != "0") {
    std::printf("  %s entries in the middle are not kept\n", left_out.c_str());
  }
}

void add_fields(const JsonValue& choice, std::set<std::string>& names) {
  const JsonValue* entries = choice.find("entries");
  if (entries == nullptr) {
    return;
  }
  for (const JsonValue& entry : entries->items) {
    if (const JsonValue* fields = entry.find("fields")) {
      for (const JsonMember& field : fields->members) {
        names.insert(field.name);
      }
    }
  }
}

// What the fields that were printed mean, once for all choices.
void print_meanings(const std::vector<JsonValue>& choices) {
  std::set<std::string> names;
  for (const JsonValue& choice : choices) {
    add_fields(choice, names);
  }
  std::printf("fields\n");
  for (const std::string& name : names) {
    if (const std::string_view meaning = meaning_of(name); !meaning.empty()) {
      std::printf("  %-14s  %s\n", name.c_str(), std::string(meaning).c_str());
    }
  }
}

// Ids have letters, digits and -_.: only; anything else would be another path.
bool is_id(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_.:").find(c) != std::string_view::npos;
  });
}

Result<JsonValue> ask(const ExplainOptions& options) {
  if (!is_id(options.id)) {
    return fail(Code::kInvalid, "'" + options.id + "' is not the id of a request or of an answer");
  }
  TRY(ServerAddress address, parse_url(options.url));
  const HttpClient client(std::move(address), options.api_key, kNeverInterrupted);
  TRY(const HttpReply reply, client.get("/v1/requests/" + options.id));
  if (reply.status != 200) {
    return fail(Code::kNotFound, error_of(reply));
  }
  return read_json(reply.body);
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  const auto answer = ask(options);
  if (!answer) {
    return report(answer.error());
  }
  const JsonValue* choices = answer->find("choices");
  if (choices == nullptr || !choices->is_array()) {
    return report(Error{Code::kCorrupt, options.url + ": the answer holds no choices"});
  }
  for (const JsonValue& choice : choices->items) {
    print_choice(choice, NodeNames(*answer));
  }
  print_meanings(choices->items);
  return 0;
}

}  // namespace shoal::tools
