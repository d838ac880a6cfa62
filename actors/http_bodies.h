// Bodies of the POST routes to plans or replies, one function each. Pure: any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "actors/codec/json_value.h"
#include "actors/codec/sampling_fields.h"
#include "actors/http_answer.h"
#include "actors/http_service.h"

namespace shoal {

struct BodyContext {
  const ServedModel& model;
  BasisMode default_mode;
  Nanos longest_timeout;
  const AnswerStamp& stamp;
};

Result<Prepared> prepare_completion(const JsonValue& body, const BodyContext& context);
Result<Prepared> prepare_chat(const JsonValue& body, const BodyContext& context);
Result<Prepared> tokenize_reply(const JsonValue& body, const BodyContext& context);
Result<Prepared> detokenize_reply(const JsonValue& body, const BodyContext& context);

// kNotFound names what exists.
Result<void> check_model(const std::string& name, const ServedModel& model);
// Everything of a plan but choices, stream and format. kInvalid names both numbers when prompt and
// answer do not fit the context; max_tokens 0 becomes the default, capped to what is left.
Result<AnswerPlan> make_plan(std::vector<TokenId> prompt,
                             const Sampling& sampling,
                             const ServingFields& serving,
                             int default_max_tokens,
                             const BodyContext& context);
// Of a prompt that came as ids, or that may hold control tokens: each is in the vocabulary, and
// none stands for an image, which this server has no way to send.
Result<void> check_prompt_ids(std::span<const TokenId> ids, const ServedModel& model);
// What is wrong with a time limit that a client names; empty when it may have it.
std::string timeout_fault(double seconds, Nanos longest);
Nanos nanos_of(double seconds);

}  // namespace shoal
