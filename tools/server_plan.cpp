// What the configuration asks for, held against the files of the model.
#include "tools/server_plan.h"

#include <chrono>
#include <filesystem>

#include "actors/http_server.h"
#include "tools/generation_config.h"

namespace shoal::tools {

namespace {

// Every key is a tenant of its own; the tenant's name must not give the key away in logs.
std::vector<ApiKey> api_keys(const Config& config) {
  std::vector<ApiKey> keys;
  for (const std::string& key : config.http().api_key()) {
    keys.push_back(ApiKey{key, "key-" + std::to_string(keys.size() + 1)});
  }
  return keys;
}

HttpConfig http_config(const Config& config) {
  HttpConfig out;
  out.host = config.http().host();
  out.port = static_cast<std::uint16_t>(config.http().port());
  out.shards = static_cast<std::uint32_t>(config.http().shards());
  out.keys = api_keys(config);
  out.limits.request_timeout = std::chrono::milliseconds(config.request().deadline_ms());
  return out;
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::filesystem::path& file,
                                                        std::int64_t vocabulary) {
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

}  // namespace

Result<ServerPlan> plan_server(const Config& config) {
  TRY_VOID(validate(config));
  ServerPlan plan;
  plan.http = http_config(config);
  TRY_VOID(HttpServer::check(plan.http));
  plan.model_path = config.model().path().empty() ? SHOAL_BUILTIN_MODEL : config.model().path();
  const std::filesystem::path directory = plan.model_path;
  TRY(plan.model, kernels::read_config(directory));
  TRY(plan.tokenizer, load_tokenizer(directory / "tokenizer.json", plan.model.vocab));
  TRY(plan.profile, make_profile(detect_generation(*plan.tokenizer), *plan.tokenizer));
  TRY(plan.sampling, read_generation_config(directory));
  return plan;
}

}  // namespace shoal::tools
