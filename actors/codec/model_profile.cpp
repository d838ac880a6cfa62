// The wire format of the two generations, byte for byte: one changed byte is another prompt.
#include "actors/codec/model_profile.h"

#include <initializer_list>
#include <optional>
#include <utility>

namespace shoal {
namespace {

constexpr std::string_view kSystem = "<｜System｜>";
constexpr std::string_view kDsml = "｜DSML｜";

// {C}, {I} and {P} stand for the calls, invoke and parameter tags.
constexpr std::string_view kToolsHead = R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<{C}>" block like the following:

<{C}>
<{I} name="$TOOL_NAME">
<{P} name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</{P}>
...
</{I}>
<{I} name="$TOOL_NAME2">
...
</{I}>
</{C}>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";

constexpr std::string_view kToolsTail = R"(

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
)";

constexpr std::string_view kSchemaFormatHead = R"(## Response Format:

You MUST strictly adhere to the following schema to reply:
)";

constexpr std::string_view kJsonFormatV4 = R"(You are a helpful assistant designed to output JSON.
## Response Format:

Reply with JSON object ONLY.)";

constexpr std::string_view kEffortTail =
    R"( (range 1-100, the higher the value, the more thorough the reasoning)

)";

constexpr std::string_view kAbsoluteMaximum =
    R"(Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.

)";

constexpr std::string_view kBeyondMaximum =
    R"(Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no assumption remains unchecked and no error remains undiscovered.

)";

constexpr std::string_view kGrounding[] = {"<｜ref｜>",
                                           "<｜/ref｜>",
                                           "<｜box｜>",
                                           "<｜/box｜>",
                                           "<｜point｜>",
                                           "<｜/point｜>",
                                           "<｜polygon｜>",
                                           "<｜/polygon｜>"};

Result<ControlToken> control(const Tokenizer& tokenizer, std::string_view spelling) {
  const auto id = tokenizer.added_id(spelling);
  if (!id) {
    return fail(
        Code::kMisconfigured,
        "tokenizer.json: no added token '" + std::string(spelling) +
            "', which the chat template needs; use the tokenizer that belongs to the model");
  }
  return ControlToken{std::string(spelling), *id};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void set_wording_v41(ModelProfile& profile) {
  profile.calls_tag = " calls";
  profile.invoke_tag = " invoke";
  profile.parameter_tag = " parameter";
  profile.json_format = std::string(kSchemaFormatHead) + R"({"type": "json_object"})";
  profile.effort_head = "Reasoning Effort: ";
  profile.effort_tail = kEffortTail;
  profile.effort_numbers = {50, 75, 100};
}

void set_wording_v4(ModelProfile& profile) {
  profile.calls_tag = "tool_calls";
  profile.invoke_tag = "invoke";
  profile.parameter_tag = "parameter";
  profile.json_format = kJsonFormatV4;
  profile.blank_line_without_parameters = false;
  profile.has_system_turns = false;
  profile.reads_images = false;
  profile.effort_texts = {
      std::string(), std::string(kAbsoluteMaximum), std::string(kBeyondMaximum)};
  profile.top_p_default_thinking_with_tools = 0.95;
}

Result<void> bind_control_tokens(ModelProfile& profile, const Tokenizer& tokenizer) {
  const std::initializer_list<std::pair<ControlToken*, std::string_view>> tokens = {
      {&profile.bos, "<｜begin▁of▁sentence｜>"},
      {&profile.eos, "<｜end▁of▁sentence｜>"},
      {&profile.user, "<｜User｜>"},
      {&profile.assistant, "<｜Assistant｜>"},
      {&profile.think_open, "<think>"},
      {&profile.think_close, "</think>"},
      {&profile.dsml, kDsml},
      {&profile.reminder, "<｜latest_reminder｜>"},
  };
  for (const auto& [token, spelling] : tokens) {
    TRY(*token, control(tokenizer, spelling));
  }
  if (profile.has_system_turns) {
    TRY(profile.system, control(tokenizer, kSystem));
  }
  profile.turn_ends = {
      profile.eos.id, profile.bos.id, profile.user.id, profile.assistant.id, profile.reminder.id};
  if (profile.has_system_turns)
    profile.turn_ends.push_back(profile.system.id);
  return {};
}

// Models without vision lack these tokens: then images are refused and the spellings stay text.
void bind_optional_tokens(ModelProfile& profile, const Tokenizer& tokenizer) {
  std::optional<TokenId> image;
  for (const std::string_view spelling : {"<｜deepseek_image｜>", "<｜image｜>"}) {
    if (!image)
      image = tokenizer.added_id(spelling);
  }
  if (image && profile.reads_images) {
    profile.image = {"<｜image｜>", *image};
  } else {
    profile.reads_images = false;
  }
  for (const std::string_view spelling : kGrounding) {
    if (const auto id = tokenizer.added_id(spelling))
      profile.grounding.push_back({std::string(spelling), *id});
  }
}

}  // namespace

Generation detect_generation(const Tokenizer& tokenizer) {
  return tokenizer.added_id(kSystem) ? Generation::kV41 : Generation::kV4;
}

Result<ModelProfile> make_profile(Generation generation, const Tokenizer& tokenizer) {
  ModelProfile profile;
  profile.generation = generation;
  if (generation == Generation::kV41) {
    set_wording_v41(profile);
  } else {
    set_wording_v4(profile);
  }
  profile.schema_format_head = kSchemaFormatHead;
  profile.tools_tail = kToolsTail;
  profile.tools_head = kToolsHead;
  replace_all(profile.tools_head, "{C}", std::string(kDsml) + profile.calls_tag);
  replace_all(profile.tools_head, "{I}", std::string(kDsml) + profile.invoke_tag);
  replace_all(profile.tools_head, "{P}", std::string(kDsml) + profile.parameter_tag);
  TRY_VOID(bind_control_tokens(profile, tokenizer));
  bind_optional_tokens(profile, tokenizer);
  return profile;
}

std::string effort_text(const ModelProfile& profile, Effort effort) {
  const auto level = static_cast<std::size_t>(effort.level);
  if (profile.effort_head.empty())
    return profile.effort_texts[level];
  const int number = effort.number > 0 ? effort.number : profile.effort_numbers[level];
  return profile.effort_head + std::to_string(number) + profile.effort_tail;
}

int default_max_tokens(const ModelProfile& profile, bool thinking, Effort effort) {
  if (!thinking)
    return profile.max_tokens_plain;
  return effort.level == EffortLevel::kMax ? profile.max_tokens_max_effort
                                           : profile.max_tokens_thinking;
}

}  // namespace shoal
