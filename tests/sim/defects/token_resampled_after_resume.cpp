// A later attempt draws its tokens under another seed.
#include "tests/sim/defects/resubmission.h"

namespace shoal::sim {
namespace {

class TokenResampledAfterResume final : public ResubmissionDefect {
 public:
  TokenResampledAfterResume()
      : ResubmissionDefect({"token_resampled_after_resume",
                            "A later attempt draws its tokens under another seed.",
                            kResumed,
                            {"true_tokens"}}) {}

 private:
  void spoil(Submission& submission) const override { ++submission.sampling.seed; }
} planted;

}  // namespace
}  // namespace shoal::sim
