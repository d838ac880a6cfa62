// shoal explain: the timeline of one request of a running server, as a table.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/json_reader.h"
#include "actors/codec/json_value.h"
#include "tools/commands.h"
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

std::string fields_of(const JsonValue& entry) {
  std::string line;
  const JsonValue* fields = entry.find("fields");
  if (fields == nullptr) {
    return line;
  }
  for (const JsonMember& field : fields->members) {
    const bool quoted = field.value.text.find(' ') != std::string::npos;
    line += (line.empty() ? "" : " ") + field.name + "=" + (quoted ? "\"" : "") + field.value.text +
            (quoted ? "\"" : "");
  }
  return printable(std::move(line));
}

// Where the answer's numbers come from, and what of it was computed before.
void print_basis(const JsonValue& entry) {
  const JsonValue* fields = entry.find("fields");
  if (fields == nullptr || fields->find("mode") == nullptr) {
    return;
  }
  const auto number = [fields](std::string_view name) { return text_of(*fields, name); };
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

void print_choice(const JsonValue& choice) {
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
  std::printf("  %12s  %4s  %7s  %-16s  %-14s  %s\n",
              "ms",
              "node",
              "attempt",
              "event",
              "state",
              "what was decided");
  for (const JsonValue& entry : entries->items) {
    std::printf("  %12.3f  %4s  %7s  %-16s  %-14s  %s\n",
                std::strtod(text_of(entry, "t_ns").c_str(), nullptr) / 1e6,
                text_of(entry, "node").c_str(),
                text_of(entry, "attempt").c_str(),
                printable(text_of(entry, "event")).c_str(),
                printable(text_of(entry, "state")).c_str(),
                fields_of(entry).c_str());
  }
  if (const std::string left_out = text_of(choice, "left_out"); left_out != "0") {
    std::printf("  %s entries in the middle are not kept\n", left_out.c_str());
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
    print_choice(choice);
  }
  return 0;
}

}  // namespace shoal::tools
