// What the configuration asks for, held against the files of the model.
#include "tools/server_plan.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "actors/http_server.h"
#include "schemas/block_key.h"
#include "tools/generation_config.h"
#include "transport/file_store/layout.h"

namespace shoal::tools {

namespace {

Result<TtlClass> read_class(std::string_view word) {
  for (const TtlClass ttl : {TtlClass::kAgent, TtlClass::kChat, TtlClass::kPinned}) {
    if (word == transport::name_of(ttl)) {
      return ttl;
    }
  }
  return fail(Code::kMisconfigured, "a class is agent, chat or pinned");
}

// KEY=CLASS, to the key. Errors do not show keys.
Result<void> set_class(std::string_view text, std::vector<ApiKey>& keys) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    return fail(Code::kMisconfigured, "it is not KEY=CLASS");
  }
  TRY(const TtlClass ttl, read_class(text.substr(equals + 1)));
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const ApiKey& known) {
    return known.key == text.substr(0, equals);
  });
  if (key == keys.end()) {
    return fail(Code::kMisconfigured, "its key is not one of http.api_key; give it there, too");
  }
  if (key->ttl) {
    return fail(Code::kMisconfigured,
                "its key has a class by an earlier one; leave one of them out");
  }
  key->ttl = ttl;
  return {};
}

// Every key is a tenant of its own. The tenant's name salts the names of its KV blocks, so it is
// the same in every process and order of keys; logs show it, and it does not give the key away.
Result<std::vector<ApiKey>> api_keys(const Config& config) {
  constexpr std::size_t kDigits = 32;
  std::vector<ApiKey> keys;
  for (const std::string& key : config.http().api_key()) {
    const std::string salt = to_string(root_key({"api key", "", "", "", key}));
    keys.push_back(ApiKey{key, "key-" + salt.substr(0, kDigits)});
  }
  for (int i = 0; i < config.http().key_class_size(); ++i) {
    if (const auto set = set_class(config.http().key_class(i), keys); !set) {
      return fail(set.error().code,
                  "http.key_class " + std::to_string(i + 1) + ": " + set.error().message);
    }
  }
  return keys;
}

Result<HttpConfig> http_config(const Config& config) {
  HttpConfig out;
  out.host = config.http().host();
  out.port = static_cast<std::uint16_t>(config.http().port());
  out.shards = static_cast<std::uint32_t>(config.http().shards());
  TRY(out.keys, api_keys(config));
  out.limits.request_timeout = std::chrono::milliseconds(config.request().deadline_ms());
  out.limits.explained_answers = static_cast<std::size_t>(config.request().timelines());
  return out;
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const DevicePlan& device) {
  const std::filesystem::path file = device.config.model / "tokenizer.json";
  const std::int64_t vocabulary = device.shape.vocab;
  TRY(auto tokenizer, Tokenizer::load(file));
  if (tokenizer->vocabulary_size() > vocabulary) {
    return fail(Code::kMisconfigured,
                file.string() + ": has token ids up to " +
                    std::to_string(tokenizer->vocabulary_size() - 1) +
                    ", the model's vocabulary is " + std::to_string(vocabulary) +
                    "; use the tokenizer the model was trained with");
  }
  return tokenizer;
}

Result<FrontPlan> plan_front(const Config& config, const DevicePlan& device) {
  FrontPlan front;
  TRY(front.http, http_config(config));
  TRY_VOID(HttpServer::check(front.http));
  front.tokenizer = device.tokenizer;
  if (front.tokenizer == nullptr) {
    TRY(front.tokenizer, load_tokenizer(device));
  }
  TRY(front.profile, make_profile(detect_generation(*front.tokenizer), *front.tokenizer));
  TRY(front.sampling, read_generation_config(device.config.model));
  return front;
}

}  // namespace

Result<ServerPlan> plan_server(const Config& config, const NodeRoles& roles) {
  TRY_VOID(validate(config));
  ServerPlan plan;
  TRY(plan.device, plan_device(config));
  if (roles.gateway) {
    TRY(plan.front, plan_front(config, plan.device));
  }
  return plan;
}

}  // namespace shoal::tools
