// An answer of the sim device, step by step: what the tests of its drafts share.
#pragma once

#include <doctest/doctest.h>
#include <memory>
#include <vector>

#include "kernels/sim/sim_backend.h"

namespace shoal::kernels {

inline constexpr Position kPrompt = 20;
inline constexpr TokenId kEos = 1;

// An answer that ends with kEos, not before it has `least` tokens, or with `most` of them.
class Lengths final : public SampleRules {
 public:
  Lengths(Position least, Position most) : least_(least), most_(most) {}

  bool add(SampleSpec& spec, Position position, TokenId token) const override {
    const Position count = position + 1 - kPrompt;
    spec.forbidden = forbidden(count);
    return token != kEos && count < most_;
  }

  SampleSpec first() const { return {.seed = 4, .forbidden = forbidden(0)}; }

 private:
  std::vector<TokenId> forbidden(Position count) const {
    return count + 1 < least_ ? std::vector<TokenId>{kEos} : std::vector<TokenId>{};
  }

  Position least_;
  Position most_;
};

using Rules = std::shared_ptr<const Lengths>;

inline std::vector<TokenId> prompt(std::int64_t salt) {
  std::vector<TokenId> tokens;
  for (Position p = 0; p < kPrompt; ++p) {
    tokens.push_back(static_cast<TokenId>(3 + (salt * 37 + p * 11) % 400));
  }
  return tokens;
}

// Token by token, without any device.
inline std::vector<TokenId> answer_to(const SimModel& model,
                                      const std::vector<TokenId>& prompt,
                                      const Rules& rules) {
  SimHistory history(prompt);
  SampleSpec spec = rules->first();
  for (std::vector<TokenId> answer;;) {
    answer.push_back(sim_token(model, spec, 0, 0, history));
    history.add(answer.back());
    const Position position = kPrompt - 1 + static_cast<Position>(answer.size());
    if (!rules->add(spec, position, answer.back())) {
      return answer;
    }
  }
}

// One sequence and what came of it.
class Answering {
 public:
  Answering(SimBackend& backend, std::uint32_t slot, Position room) : backend_(backend) {
    next.sequence = SequenceId{slot};
    const std::int64_t blocks = (room + kBlockTokens - 1) / kBlockTokens;
    for (std::int64_t b = 0; b < blocks; ++b) {
      next.blocks.push_back(BlockId{static_cast<std::uint32_t>(slot * blocks + b)});
    }
    backend.reset_sequence(next.sequence);
  }

  void start(const std::vector<TokenId>& tokens, const Rules& rules) {
    next.tokens = tokens;
    next.sample = true;
    next.rules = rules;
    next.sampling = rules == nullptr ? SampleSpec{.seed = 4, .forbidden = {}} : rules->first();
    next.drafts = true;
    go_on();
    next.tokens.clear();
    next.sampling = {};
    next.continues = true;
  }

  Result<std::unique_ptr<Step>> begin(std::shared_ptr<const DraftFill> fill = nullptr) {
    StepPlan plan;
    plan.runs = {next};
    plan.fill = std::move(fill);
    return backend_.begin(std::move(plan));
  }

  // One step.
  const RunResult& go_on(std::shared_ptr<const DraftFill> fill = nullptr) {
    auto step = begin(std::move(fill));
    REQUIRE_MESSAGE(step.has_value(), step.error().message);
    rows = (*step)->rows;
    last = backend_.take(**step).runs.at(0);
    for (const DrawnToken& drawn : last.drawn) {
      answer.push_back(drawn.token);
    }
    return last;
  }

  RowRun next;
  RunResult last;
  std::int64_t rows = 0;
  std::vector<TokenId> answer;

 private:
  SimBackend& backend_;
};

}  // namespace shoal::kernels
