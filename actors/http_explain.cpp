// Writes timelines as one JSON object.
#include "actors/http_explain.h"

#include "actors/codec/json_writer.h"

namespace shoal {
namespace {

void append_value(std::string& out, const TimelineField& field) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    append_json_int(out, *number);
  } else {
    append_json_string(out, std::get<std::string>(field.value));
  }
}

void append_entry(std::string& out, const TimelineEntry& entry) {
  out += R"({"t_ns":)";
  append_json_int(out, entry.at.count());
  out += R"(,"node":)";
  append_json_int(out, entry.node.value);
  out += R"(,"attempt":)";
  append_json_int(out, entry.attempt.value);
  out += R"(,"event":)";
  append_json_string(out, entry.event);
  out += R"(,"state":)";
  append_json_string(out, entry.state);
  out += R"(,"fields":{)";
  for (const TimelineField& field : entry.fields) {
    if (&field != &entry.fields.front())
      out += ',';
    append_json_string(out, field.name);
    out += ':';
    append_value(out, field);
  }
  out += "}}";
}

void append_choice(std::string& out, const RequestTimeline& timeline) {
  out += R"({"index":)";
  append_json_int(out, timeline.choice);
  // As text: it has 64 bits, of which JSON's readers keep 53.
  out.append(R"(,"request":")").append(std::to_string(timeline.request.value));
  out += R"(","left_out":)";
  append_json_int(out, timeline.left_out);
  out += R"(,"entries":[)";
  for (const TimelineEntry& entry : timeline.entries) {
    if (&entry != &timeline.entries.front())
      out += ',';
    append_entry(out, entry);
  }
  out += "]}";
}

}  // namespace

std::string explained(std::string_view id,
                      const std::vector<std::string>& nodes,
                      const std::vector<RequestTimeline>& choices) {
  std::string out = R"({"id":)";
  append_json_string(out, id);
  out += R"(,"object":"request","nodes":[)";
  for (const std::string& node : nodes) {
    if (&node != &nodes.front())
      out += ',';
    append_json_string(out, node);
  }
  out += R"(],"choices":[)";
  for (const RequestTimeline& timeline : choices) {
    if (&timeline != &choices.front())
      out += ',';
    append_choice(out, timeline);
  }
  out += "]}";
  return out;
}

}  // namespace shoal
