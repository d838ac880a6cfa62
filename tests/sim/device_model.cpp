// Weights by name, and answers of a device of their own.
#include "tests/sim/device_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "actors/policy/answer_end.h"
#include "actors/policy/kv_budget.h"
#include "kernels/registry.h"
#include "schemas/check.h"

namespace shoal::sim {
namespace {

namespace fs = std::filesystem;
using Weights = std::shared_ptr<const kernels::Model>;

std::string known_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(SHOAL_MODELS)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

// The whole prompt at once, as its mode has it; then each token as a decode row.
kernels::RowRun prompt_rows(const testing::Wanted& request,
                            const Basis& basis,
                            kernels::KvArena& arena) {
  kernels::RowRun run;
  run.sequence = arena.take_sequence().value();
  run.blocks = arena.take_blocks(arena.blocks()).value();
  run.tokens = request.prompt;
  run.finishes_prompt = basis.mode == BasisMode::kBounded;
  run.stack = run.finishes_prompt ? kernels::Stack::kEncoder : kernels::Stack::kAll;
  run.encoder_floor = basis.replay_floor;
  run.decoder_floor = basis.tail_start;
  run.sample = true;
  const Sampling& sampling = request.sampling;
  run.sampling.temperature = sampling.temperature;
  run.sampling.top_p = sampling.top_p;
  run.sampling.min_p = sampling.min_p;
  run.sampling.top_k = sampling.top_k;
  run.sampling.seed = sampling.seed;
  run.sampling.choice = request.choice;
  return run;
}

TokenId compute(kernels::Backend& backend, const kernels::RowRun& run) {
  kernels::StepPlan plan;
  plan.runs = {run};
  auto step = backend.begin(std::move(plan));
  CHECK(step.has_value());
  CHECK(backend.advance(**step) == kernels::StepYield::kDone);
  return backend.take(**step).runs[0].token;
}

std::vector<TokenId> computed_answer(kernels::Backend& backend,
                                     const testing::Wanted& request,
                                     const Basis& basis,
                                     const AnswerRules& rules) {
  kernels::RowRun run = prompt_rows(request, basis, backend.arena());
  backend.reset_sequence(run.sequence);
  std::vector<TokenId> answer;
  do {
    run.sampling.forbidden = forbidden_tokens(rules, std::ssize(answer));
    answer.push_back(compute(backend, run));
    run.first += run.rows();
    run.tokens = {answer.back()};
    run.finishes_prompt = false;
    run.stack = kernels::Stack::kAll;
  } while (answer_end(rules, std::ssize(answer), answer.back()) == AnswerEnd::kGoesOn);
  return answer;
}

}  // namespace

Result<Weights> built_in_model(const std::string& name) {
  static std::map<std::string, Weights> loaded;
  const auto known = loaded.find(name);
  if (known != loaded.end()) {
    return known->second;
  }
  const fs::path directory = fs::path(SHOAL_MODELS) / name;
  if (!fs::exists(directory / "config.json")) {
    return fail(Code::kMisconfigured,
                "device: no model \"" + name + "\" is built in; known: " + known_models());
  }
  TRY(Weights weights, kernels::Model::load(directory));
  return loaded.emplace(name, std::move(weights)).first->second;
}

std::shared_ptr<kernels::Backend> open_backend(const DeviceModel& model,
                                               const kernels::SimSize& size) {
  if (model.weights == nullptr) {
    return std::make_shared<kernels::SimBackend>(model.hashes, size);
  }
  kernels::DeviceConfig config;
  config.weights = model.weights;
  config.kv_blocks = size.blocks;
  config.sequences = size.sequences;
  const std::shared_ptr<kernels::Device> device = kernels::open_device("cpu", config).value();
  return {device, &device->backend()};
}

std::vector<TokenId> true_answer(const DeviceModel& model,
                                 const testing::Wanted& request,
                                 const std::vector<testing::BasisFrom>& bases,
                                 Position context) {
  if (model.weights == nullptr) {
    return testing::sim_answer(model.hashes, request, bases, context);
  }
  const auto backend =
      open_backend(model, {.blocks = (context + kBlockTokens - 1) / kBlockTokens, .sequences = 1});
  const std::int64_t most = answer_ceiling(
      static_cast<Position>(request.prompt.size()), request.sampling.max_tokens, context);
  return computed_answer(*backend,
                         request,
                         bases.front().basis,
                         answer_rules(request.sampling, most, backend->shape().eos));
}

}  // namespace shoal::sim
