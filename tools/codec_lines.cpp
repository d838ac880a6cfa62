// Loads what a codec run works with; reads and writes the fields its lines have in common.
#include "tools/codec_lines.h"

#include <filesystem>
#include <limits>

#include "actors/codec/json_fields.h"
#include "actors/codec/json_writer.h"
#include "actors/codec/openai_shapes.h"

namespace shoal::tools {

const ModelProfile& Codec::profile_for(const JsonValue& body) const {
  const JsonValue* model = body.find("model");
  const bool is_v4 =
      model != nullptr && model->is_string() && model->text.starts_with("DeepSeek-V4-");
  return is_v4 ? profile_v4 : profile;
}

Result<Codec> load_codec(const CodecOptions& options) {
  Codec codec;
  const std::filesystem::path file = options.tokenizer.empty()
                                         ? std::filesystem::path(options.model) / "tokenizer.json"
                                         : std::filesystem::path(options.tokenizer);
  TRY(codec.tokenizer, Tokenizer::load(file));
  TRY(codec.profile, make_profile(detect_generation(*codec.tokenizer), *codec.tokenizer));
  TRY(codec.profile_v4, make_profile(Generation::kV4, *codec.tokenizer));
  if (!options.placeholder.empty()) {
    codec.profile.image.spelling = options.placeholder;
  }
  codec.as_served = options.as_served;
  return codec;
}

Result<std::vector<TokenId>> read_ids(const JsonValue& list) {
  if (!list.is_array()) {
    return fail(Code::kInvalid,
                "`ids` is a list of token ids, not " + std::string(kind_name(list.kind)));
  }
  std::vector<TokenId> ids;
  ids.reserve(list.items.size());
  for (const JsonValue& item : list.items) {
    const auto id = as_integer(item);
    if (!id) {
      return fail(Code::kInvalid, "`ids` is a list of token ids");
    }
    const bool fits = *id >= 0 && *id <= std::numeric_limits<TokenId>::max();
    ids.push_back(fits ? static_cast<TokenId>(*id) : -1);
  }
  return ids;
}

void append_ids(std::string& out, const std::vector<TokenId>& ids) {
  out += '[';
  for (const TokenId id : ids) {
    if (out.back() != '[') {
      out += ',';
    }
    append_json_int(out, id);
  }
  out += ']';
}

void append_id(std::string& out, const JsonValue* id) {
  if (id != nullptr && id->is_string()) {
    append_json_string(out, id->text);
  } else {
    out += id != nullptr && id->is_number() ? id->text : "null";
  }
}

void append_refusal(std::string& out, const Error& error) {
  out += ",\"error\":{\"status\":";
  const bool is_theirs = error.code == Code::kInvalid;
  const std::string_view kind = is_theirs ? "invalid_request_error" : "internal_error";
  out += is_theirs ? "400" : "500";
  // The official program names the field in the message only.
  out += ",\"body\":" + error_body({.message = error.message, .type = kind, .code = kind}) + "}";
}

}  // namespace shoal::tools
