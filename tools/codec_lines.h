// What the codec subcommands share: the tokenizer and profiles they work with, and the fields of
// their lines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/codec/json_value.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/tokenizer.h"
#include "schemas/result.h"
#include "tools/commands.h"

namespace shoal::tools {

struct Codec {
  std::shared_ptr<const Tokenizer> tokenizer;
  ModelProfile profile;     // of the tokenizer
  ModelProfile profile_v4;  // for bodies that ask for a DeepSeek-V4 model by name
  bool as_served = false;   // with what shoal's API adds to the official one

  const ModelProfile& profile_for(const JsonValue& body) const;
};

Result<Codec> load_codec(const CodecOptions& options);

// Ids beyond TokenId's range become -1: outside every vocabulary, as they are.
Result<std::vector<TokenId>> read_ids(const JsonValue& list);
void append_ids(std::string& out, const std::vector<TokenId>& ids);

// The case's id as it was given: a string or a number; null when it is neither.
void append_id(std::string& out, const JsonValue* id);

// ,"error":{"status":…,"body":…}: what the API would answer.
void append_refusal(std::string& out, const Error& error);

}  // namespace shoal::tools
