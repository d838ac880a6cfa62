// Everything that differs between model generations, as data: spellings, ids, tags, effort wording,
// defaults.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/codec/tokenizer.h"
#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal {

enum class Generation : std::uint8_t { kV4, kV41 };

// How hard the model should think. The level picks the wording; a number (1..100, V4.1 only)
// replaces the level's own.
enum class EffortLevel : std::uint8_t { kLow, kHigh, kMax };
inline constexpr int kEffortLevels = 3;

struct Effort {
  EffortLevel level = EffortLevel::kHigh;
  int number = 0;  // 0 = the level's

  friend bool operator==(const Effort&, const Effort&) = default;
};

// A token that only the template may write. An empty spelling means that the generation has no such
// token.
struct ControlToken {
  std::string spelling;
  TokenId id = 0;
};

// Texts are as they stand in a prompt; ids come from the tokenizer, never from constants, because
// models of one generation number them differently.
struct ModelProfile {
  Generation generation = Generation::kV41;

  ControlToken bos, eos, user, assistant, system, think_open, think_close, dsml, reminder;
  ControlToken image;  // the spelling in prompts; the vocabulary may name the same id otherwise
  std::vector<ControlToken>
      grounding;  // control tokens also where the assistant wrote them; those the vocabulary has
  std::vector<TokenId> turn_ends;  // EOS and role tokens: none of them can stand inside an answer

  // Tag names as they follow the DSML token.
  std::string calls_tag, invoke_tag, parameter_tag;
  bool blank_line_without_parameters = true;  // a call without parameters keeps both newlines

  std::string tools_head, tools_tail;  // the tools block around the schemas, one a line
  std::string json_format;             // what response_format json_object adds to the system text
  std::string schema_format_head;      // the same for json_schema, before the schema

  // V4.1 has a system token, gives each system message its own turn and counts it as a user turn.
  // V4 writes system text bare at the front, wherever it was sent.
  bool has_system_turns = true;
  bool reads_images = true;

  // The effort line: "<head><number><tail>" with a number for each level, or one whole text for
  // each level.
  std::string effort_head, effort_tail;
  std::array<int, kEffortLevels> effort_numbers{};
  std::array<std::string, kEffortLevels> effort_texts;

  double top_p_default_thinking_with_tools = 1.0;
  int max_tokens_plain = 8'192, max_tokens_thinking = 65'536, max_tokens_max_effort = 131'072;
  int max_tokens_limit = 393'216;
};

// V4.1 when the vocabulary has a system token.
Generation detect_generation(const Tokenizer& tokenizer);

// kMisconfigured names the control token that the vocabulary lacks.
Result<ModelProfile> make_profile(Generation generation, const Tokenizer& tokenizer);

std::string effort_text(const ModelProfile& profile, Effort effort);

// Most tokens of an answer when the client names none.
int default_max_tokens(const ModelProfile& profile, bool thinking, Effort effort);

}  // namespace shoal
