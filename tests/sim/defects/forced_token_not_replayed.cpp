// A later attempt computes another token in the place of the last one that was sent.
#include "tests/sim/defects/resubmission.h"

namespace shoal::sim {
namespace {

class ForcedTokenNotReplayed final : public ResubmissionDefect {
 public:
  ForcedTokenNotReplayed()
      : ResubmissionDefect(
            {"forced_token_not_replayed",
             "A later attempt computes another token in the place of the last one that was sent.",
             kResumed,
             {"true_tokens"}}) {}

 private:
  void spoil(Submission& submission) const override {
    if (!submission.forced.empty()) {
      submission.forced.back() = submission.prompt->back();
    }
  }
} planted;

}  // namespace
}  // namespace shoal::sim
