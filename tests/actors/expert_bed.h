// A built-in model whose experts are its own or on shards, and golden texts that are fed to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/expert_shards.h"
#include "kernels/registry.h"
#include "tests/transport/step_scheduler.h"

namespace shoal {

const std::string kGuppy = std::string(SHOAL_MODELS_DIR) + "/guppy";

std::unique_ptr<kernels::Device> open_device(bool yields);

using MakeExchange =
    std::function<std::unique_ptr<transport::ExpertExchange>(transport::Scheduler)>;

// A device whose experts are its own or on shards; time passes only as a step needs it.
struct Bed {
  // On the device itself.
  Bed() : device(open_device(false)) {}

  // Without `make`: in this process.
  explicit Bed(const ExpertShardsSetup& setup, const MakeExchange& make = {});

  // `between` is called at each exchange, before anything of it has run.
  Result<kernels::StepResult> step(std::vector<kernels::RowRun> runs);

  testing::StepScheduler time;
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<ExpertShards> shards;
  std::function<void()> between;
};

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
};

std::vector<Golden> golden_prompts(std::size_t most = 60);

// A sequence that is fed a golden text.
struct Fed {
  std::vector<TokenId> tokens;
  std::size_t prompt = 0;
  kernels::RowRun run;
  Position done = 0;
  std::vector<float> logits;
};

Fed open(Bed& bed, const Golden& golden);
void close(Bed& bed, const Fed& fed);
// The next rows: a chunk of the prompt, or one token of the answer.
kernels::RowRun next_run(Fed& fed, std::mt19937_64& random);

// Logits of every row of all texts, fed in chunks drawn from the seed, several in each step.
std::vector<std::vector<float>> all_logits(Bed& bed,
                                           const std::vector<Golden>& texts,
                                           std::uint64_t seed);

// Any slots for every expert, replicas of any in what is left, some empty.
std::vector<ExpertLayer> drawn_layers(std::vector<ExpertLayer> layers, std::uint64_t seed);

}  // namespace shoal
