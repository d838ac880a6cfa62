// Weights by name, and answers of a device of their own.
#include "tests/sim/device_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "actors/policy/answer_end.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/token_rules.h"
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

kernels::SampleSpec sample_spec(const testing::Wanted& request) {
  const Sampling& sampling = request.sampling;
  kernels::SampleSpec spec;
  spec.temperature = sampling.temperature;
  spec.top_p = sampling.top_p;
  spec.min_p = sampling.min_p;
  spec.top_k = sampling.top_k;
  spec.seed = sampling.seed;
  spec.choice = request.choice;
  spec.repetition_penalty = sampling.repetition_penalty;
  spec.frequency_penalty = sampling.frequency_penalty;
  spec.presence_penalty = sampling.presence_penalty;
  spec.bias = sampling.logit_bias;
  return spec;
}

// The one sequence of a device of its own, under one basis. Exact: a whole run, since a hit changes
// no bit. Bounded: behind the blocks that were loaded, the replay, then rows of the encoder half
// alone up to where the decoder half begins.
class Alone {
 public:
  Alone(const DeviceModel& model, const testing::BasisFrom& under, Position context)
      : backend_(open_backend(
            model, {.blocks = (context + kBlockTokens - 1) / kBlockTokens, .sequences = 1})),
        hit_(under.basis.mode == BasisMode::kBounded ? under.basis.hit : 0),
        floor_(under.basis.replay_floor),
        tail_start_(under.basis.tail_start),
        next_(hit_ > 0 ? floor_ : 0) {
    run_.sequence = backend_->arena().take_sequence().value();
    run_.blocks = backend_->arena().take_blocks(backend_->arena().blocks()).value();
    run_.writes_from = hit_;
    run_.encoder_floor = floor_;
    run_.decoder_floor = tail_start_;
    backend_->reset_sequence(run_.sequence);
    for (std::size_t b = 0; b < static_cast<std::size_t>(hit_ / kBlockTokens); ++b) {
      backend_->write_block(run_.blocks[b], *under.blocks.at(b));
    }
  }

  // Computes what is not computed yet of all tokens so far; the one that follows.
  TokenId follow(std::span<const TokenId> tokens, const kernels::SampleSpec& sampling) {
    const auto end = static_cast<Position>(tokens.size());
    if (next_ < tail_start_) {
      compute(tokens, std::min(tail_start_, end), kernels::Stack::kEncoder);
    }
    run_.sample = true;
    run_.sampling = sampling;
    return compute(tokens, end, kernels::Stack::kAll);
  }

 private:
  TokenId compute(std::span<const TokenId> tokens, Position end, kernels::Stack stack) {
    const auto at = [&tokens](Position p) { return tokens.begin() + p; };
    run_.first = next_;
    run_.tokens.assign(at(next_), at(end));
    run_.history.clear();
    // The sequence does not remember tokens before its first row.
    if (next_ < floor_ + kernels::kHistoryTokens) {
      run_.history.assign(at(std::max<Position>(0, next_ - kernels::kHistoryTokens)), at(next_));
    }
    run_.stack = stack;
    kernels::StepPlan plan;
    plan.runs = {run_};
    auto step = backend_->begin(std::move(plan));
    CHECK(step.has_value());
    CHECK(backend_->advance(**step) == kernels::StepYield::kDone);
    next_ = end;
    const kernels::RunResult result = backend_->take(**step).runs[0];
    return result.drawn.empty() ? -1 : result.drawn[0].token;
  }

  const std::shared_ptr<kernels::Backend> backend_;
  const Position hit_;
  const Position floor_;
  const Position tail_start_;
  Position next_;
  kernels::RowRun run_;
};

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

Position window_of(const DeviceModel& model) {
  return model.weights == nullptr ? model.hashes.window : model.weights->config.window;
}

std::shared_ptr<kernels::Backend> open_backend(const DeviceModel& model,
                                               const kernels::SimSize& size) {
  if (model.weights == nullptr) {
    return std::make_shared<kernels::SimBackend>(model.hashes, size);
  }
  const auto device = open_cpu_device(model, size, false);
  return {device, &device->backend()};
}

std::shared_ptr<kernels::Device> open_cpu_device(const DeviceModel& model,
                                                 const kernels::SimSize& size,
                                                 bool yields_experts) {
  kernels::DeviceConfig config;
  config.weights = model.weights;
  config.kv_blocks = size.blocks;
  config.sequences = size.sequences;
  config.yields_experts = yields_experts;
  return kernels::open_device("cpu", config).value();
}

std::vector<TokenId> true_answer(const DeviceModel& model,
                                 const testing::Wanted& request,
                                 const std::vector<testing::BasisFrom>& bases,
                                 Position context) {
  if (model.weights == nullptr) {
    return testing::sim_answer(model.hashes, request, bases, context);
  }
  const auto prompt = static_cast<Position>(request.prompt.size());
  const AnswerRules rules =
      answer_rules(request.sampling,
                   answer_ceiling(prompt, request.sampling.max_tokens, context),
                   model.weights->config.eos);
  kernels::SampleSpec sampling = sample_spec(request);
  std::vector<TokenId> all = request.prompt;
  auto under = bases.begin();
  std::optional<Alone> alone(std::in_place, model, *under, context);
  for (std::int64_t count = 1;; ++count) {
    while (std::next(under) != bases.end() &&
           std::next(under)->from < static_cast<std::size_t>(count)) {
      alone.emplace(model, *++under, context);
    }
    sampling.forbidden = forbidden_tokens(rules, count - 1);
    sampling.seen =
        tally_of(request.sampling, request.prompt, std::span(all).subspan(request.prompt.size()));
    const auto ends = ends_of_bad_words(request.sampling, sampling.seen.get());
    sampling.forbidden.insert(sampling.forbidden.end(), ends.begin(), ends.end());
    all.push_back(alone->follow(all, sampling));
    if (answer_end(rules, count, all.back()) != AnswerEnd::kGoesOn) {
      return {all.begin() + prompt, all.end()};
    }
  }
}

}  // namespace shoal::sim
