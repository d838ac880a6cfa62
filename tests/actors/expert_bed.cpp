// Texts are fed in steps of several sequences each.
#include "tests/actors/expert_bed.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "transport/experts/shard_exchange.h"

namespace shoal {

using kernels::RowRun;
using kernels::StepResult;

namespace {

constexpr std::size_t kTogether = 8;  // sequences of a step

}  // namespace

std::unique_ptr<kernels::Device> open_device(bool yields) {
  kernels::DeviceConfig config;
  config.model = kGuppy;
  config.kv_blocks = 64;
  config.sequences = 16;
  config.yields_experts = yields;
  auto opened = kernels::open_device("cpu", config);
  REQUIRE(opened.has_value());
  return *std::move(opened);
}

Bed::Bed(const ExpertShardsSetup& setup, const MakeExchange& make) : device(open_device(true)) {
  auto exchange = make ? make(time.port())
                       : transport::make_shard_exchange({.self = {}, .timers = time.port()});
  auto opened = ExpertShards::open(
      setup,
      [this](const auto& limits) { return device->make_expert_engine(limits); },
      std::move(exchange),
      time.port());
  REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
  shards = *std::move(opened);
}

Result<StepResult> Bed::step(std::vector<RowRun> runs) {
  kernels::StepPlan plan;
  plan.runs = std::move(runs);
  TRY(auto step, device->backend().begin(std::move(plan)));
  while (device->backend().advance(*step) == kernels::StepYield::kNeedsExchange) {
    Result<void> outcome = fail(Code::kInternal, "never completed");
    shards->runner()(device->backend().exchange(*step),
                     [&](Result<void> done) { outcome = std::move(done); });
    if (between) {
      between();
    }
    time.run_all();
    TRY_VOID(outcome);
  }
  return device->backend().take(*step);
}

std::vector<Golden> golden_prompts(std::size_t most) {
  std::ifstream file(kGuppy + "/golden.jsonl");
  std::vector<Golden> out;
  for (std::string line; out.size() < most && std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    out.push_back({json["prompt_ids"].get<std::vector<TokenId>>(),
                   json["output_ids"].get<std::vector<TokenId>>()});
  }
  REQUIRE(out.size() == most);
  return out;
}

Fed open(Bed& bed, const Golden& golden) {
  Fed fed;
  fed.tokens = golden.prompt;
  fed.prompt = golden.prompt.size();
  fed.tokens.insert(fed.tokens.end(), golden.output.begin(), golden.output.end());
  kernels::KvArena& arena = bed.device->backend().arena();
  fed.run.sequence = *arena.take_sequence();
  fed.run.blocks = *arena.take_blocks(
      (static_cast<std::int64_t>(fed.tokens.size()) + kBlockTokens - 1) / kBlockTokens);
  bed.device->backend().reset_sequence(fed.run.sequence);
  fed.run.logits = kernels::WantLogits::kAll;
  return fed;
}

void close(Bed& bed, const Fed& fed) {
  bed.device->backend().arena().give_sequence(fed.run.sequence);
  bed.device->backend().arena().give_blocks(fed.run.blocks);
}

RowRun next_run(Fed& fed, std::mt19937_64& random) {
  const std::size_t left = fed.tokens.size() - static_cast<std::size_t>(fed.done);
  const std::size_t chunk = static_cast<std::size_t>(fed.done) < fed.prompt
                                ? std::min<std::size_t>(1 + random() % 40, left)
                                : 1;
  fed.run.first = fed.done;
  fed.run.tokens.assign(fed.tokens.begin() + fed.done,
                        fed.tokens.begin() + fed.done + static_cast<std::ptrdiff_t>(chunk));
  fed.done += static_cast<Position>(chunk);
  return fed.run;
}

std::vector<std::vector<float>> all_logits(Bed& bed,
                                           const std::vector<Golden>& texts,
                                           std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> out;
  for (std::size_t first = 0; first < texts.size(); first += kTogether) {
    std::vector<Fed> open_texts;
    for (std::size_t i = first; i < std::min(first + kTogether, texts.size()); ++i) {
      open_texts.push_back(open(bed, texts[i]));
    }
    while (true) {
      std::vector<RowRun> runs;
      std::vector<Fed*> of_run;
      for (Fed& fed : open_texts) {
        if (static_cast<std::size_t>(fed.done) < fed.tokens.size()) {
          runs.push_back(next_run(fed, random));
          of_run.push_back(&fed);
        }
      }
      if (runs.empty()) {
        break;
      }
      const auto result = bed.step(std::move(runs));
      REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
      for (std::size_t i = 0; i < of_run.size(); ++i) {
        const auto& rows = result->runs[i].logits;
        of_run[i]->logits.insert(of_run[i]->logits.end(), rows.begin(), rows.end());
      }
    }
    for (Fed& fed : open_texts) {
      close(bed, fed);
      out.push_back(std::move(fed.logits));
    }
  }
  return out;
}

std::vector<ExpertLayer> drawn_layers(std::vector<ExpertLayer> layers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (ExpertLayer& layer : layers) {
    const std::int32_t experts = layer.shape.experts;
    for (std::int32_t slot = 0; slot < layer.shape.all_slots(); ++slot) {
      layer.expert_at[static_cast<std::size_t>(slot)] =
          slot < experts ? slot : static_cast<std::int32_t>(random() % (experts + 1)) - 1;
    }
    std::shuffle(layer.expert_at.begin(), layer.expert_at.end(), random);
  }
  return layers;
}

}  // namespace shoal
