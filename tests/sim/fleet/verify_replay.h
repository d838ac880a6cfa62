// Steps of a decode group whose requests draft: how many tokens a second each way of choosing what
// to verify gives. The load is drawn: chances of the five drafts are Beta-distributed around the
// acceptance published for this family of models, independent from step to step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/verify_plan.h"

namespace shoal::sim {

struct VerifyLoad {
  int ranks = 8;
  int requests = 93;        // of a rank, in the mean
  double spread = 0;        // ranks have from (1 - spread) to (1 + spread) times as many
  double variable = 1;      // time of a step with all drafts over its fixed time, minus 1
  double rank_share = 0.5;  // of that, what the fullest rank decides; all tokens decide the rest
  std::int64_t grain = 1;   // steps are padded to so many tokens a rank; a power of two
  bool calibrates = false;  // fits temperatures first
  int steps = 400;
};

// Tokens cost the same each, up to so many; a step is padded to `grain` of them.
StepTable step_line(double ns_a_token, std::int64_t tokens, std::int64_t grain);

// Fixed time 10 ms.
VerifyCosts verify_costs(const VerifyLoad& load);

int requests_of(const VerifyLoad& load, int rank);

// What the head says of one step's requests, and how many drafts the target would accept.
class DraftSource {
 public:
  // `concentration` of the chances; small: either sure or hopeless. The head says their logits
  // times `confidence`: above 1 too sure of itself, below 1 too shy.
  DraftSource(double concentration, std::uint64_t seed, double confidence = 1);

  struct Step {
    std::vector<DraftedRequest> requests;
    std::vector<std::uint8_t> acceptable;
  };

  Step draw(int requests);

  // The same chances, drawn from another seed on.
  DraftSource reseeded(std::uint64_t seed) const {
    DraftSource other = *this;
    other.random_ = Draw(seed);
    return other;
  }

 private:
  struct Drafted {
    Confidences chances;
    Confidences said;
  };

  static std::vector<Drafted> draw_pool(double concentration,
                                        std::uint64_t seed,
                                        double confidence);

  std::shared_ptr<const std::vector<Drafted>> pool_;  // of copies, too
  Draw random_;
};

struct VerifyFigures {
  double tokens_per_s = 0;
  double drafts = 0;    // verified a request and step
  double accepted = 0;  // tokens a request and step
};

VerifyFigures replay_verify(VerifyPlanner& planner, const VerifyLoad& load, DraftSource source);

}  // namespace shoal::sim
