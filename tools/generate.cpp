// shoal generate: one sequence straight on the device, no server: for a first look and for
// comparing ids and margins.
#include <charconv>
#include <cstdio>
#include <memory>

#include "actors/codec/tokenizer.h"
#include "kernels/registry.h"
#include "tools/commands.h"
#include "tools/device_plan.h"
#include "tools/progress_bar.h"

namespace shoal::tools {

namespace {

Result<std::vector<TokenId>> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    TokenId id = 0;
    const auto [next, failed] = std::from_chars(at, end, id);
    if (failed != std::errc{} || (next < end && *next != ',')) {
      return fail(
          Code::kInvalid,
          "--ids: '" + std::string(at, end) + "' is not a comma-separated list of token ids");
    }
    ids.push_back(id);
    at = next + 1;
  }
  return ids;
}

// One answer in progress: the run to execute next, and what was produced.
struct Answer {
  kernels::RowRun run;
  std::vector<TokenId> tokens;
  std::vector<float> margins;
};

Result<void> step(kernels::Backend& backend, Answer& answer) {
  kernels::StepPlan plan;
  plan.queue = kernels::Queue::kDecode;
  plan.runs = {answer.run};
  TRY(auto step, backend.begin(std::move(plan)));
  if (backend.advance(*step) != kernels::StepYield::kDone) {
    return fail(Code::kInternal, "the step waits for experts that nobody runs");
  }
  const kernels::RunResult result = backend.take(*step).runs[0];
  if (result.drawn.empty()) {
    return fail(Code::kInternal, "the model gave no usable logits");
  }
  answer.run.first += answer.run.rows();
  const kernels::DrawnToken& drawn = result.drawn.front();
  answer.run.tokens = {drawn.token};
  answer.tokens.push_back(drawn.token);
  answer.margins.push_back(drawn.margin);
  return {};
}

Result<Answer> start(kernels::Backend& backend,
                     const std::vector<TokenId>& prompt,
                     const GenerateOptions& options) {
  const Position limit = backend.shape().max_positions;
  const auto end = static_cast<Position>(prompt.size()) + options.max_tokens;
  if (prompt.empty() || end > limit) {
    return fail(Code::kInvalid,
                "prompt of " + std::to_string(prompt.size()) + " tokens and --max-tokens " +
                    std::to_string(options.max_tokens) + " do not fit the model's " +
                    std::to_string(limit) + " positions");
  }
  Answer answer;
  answer.run.sequence = *backend.arena().take_sequence();
  answer.run.blocks = *backend.arena().take_blocks((end + kBlockTokens - 1) / kBlockTokens);
  answer.run.tokens = prompt;
  answer.run.sample = true;
  answer.run.sampling.temperature = options.temperature;
  answer.run.sampling.top_p = options.top_p;
  answer.run.sampling.top_k = options.top_k;
  answer.run.sampling.seed = options.seed;
  backend.reset_sequence(answer.run.sequence);
  return answer;
}

Config device_options(const GenerateOptions& options) {
  Config config;
  config.mutable_model()->set_path(options.model);
  config.mutable_compute()->set_device(options.device);
  config.mutable_compute()->set_threads(options.threads);
  return config;
}

Result<std::unique_ptr<kernels::Device>> open(const DevicePlan& plan) {
  ProgressBar bar("loading");
  return kernels::open_device(
      plan.name, plan.config, [&bar](std::int64_t done, std::int64_t total) {
        bar.update(done, total);
      });
}

Result<void> generate(const GenerateOptions& options) {
  if (options.ids.empty() && options.prompt.empty()) {
    return fail(Code::kInvalid, "no prompt: give --ids or --prompt");
  }
  if (!options.ids.empty() && !options.prompt.empty()) {
    return fail(Code::kInvalid, "two prompts: give --ids or --prompt, not both");
  }
  TRY(DevicePlan plan, plan_device(device_options(options)));
  std::shared_ptr<const Tokenizer> tokenizer = plan.tokenizer;
  if (tokenizer == nullptr) {
    TRY(tokenizer, Tokenizer::load(plan.config.model / "tokenizer.json"));
  }
  std::vector<TokenId> prompt = tokenizer->encode_parsed(options.prompt);
  if (!options.ids.empty()) {
    TRY(prompt, parse_ids(options.ids));
  }
  plan.config.kv_blocks =
      (static_cast<std::int64_t>(prompt.size()) + options.max_tokens) / kBlockTokens + 1;
  plan.config.sequences = 1;
  TRY(const auto device, open(plan));
  kernels::Backend& backend = device->backend();
  TRY(Answer answer, start(backend, prompt, options));
  const bool text = options.ids.empty();
  Utf8Carry carry;
  for (int i = 0; i < options.max_tokens; ++i) {
    TRY_VOID(step(backend, answer));
    const TokenId token = answer.tokens.back();
    const bool ends = token == backend.shape().eos && !options.ignore_eos;
    if (text && !ends) {
      std::string whole;
      carry.push(tokenizer->bytes(token), whole);
      std::fwrite(whole.data(), 1, whole.size(), stdout);
      std::fflush(stdout);
    } else if (!text) {
      std::printf("%d\t%.4f\n", token, static_cast<double>(answer.margins.back()));
    }
    if (ends) {
      break;
    }
  }
  if (text) {
    std::fputs("\n", stdout);
  }
  return {};
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  const Result<void> done = generate(options);
  return done ? 0 : report(done.error());
}

}  // namespace shoal::tools
