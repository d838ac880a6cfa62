// A resubmission carries the number of the attempt before it.
#include "tests/sim/defects/resubmission.h"

namespace shoal::sim {
namespace {

class AttemptReadBeforeItIsRaised final : public ResubmissionDefect {
 public:
  AttemptReadBeforeItIsRaised()
      : ResubmissionDefect({"attempt_read_before_it_is_raised",
                            "A resubmission carries the number of the attempt before it.",
                            kResumed,
                            {"full_service_returns", "one_terminal_event"}}) {}

 private:
  void spoil(Submission& submission) const override { --submission.attempt.value; }
} planted;

}  // namespace
}  // namespace shoal::sim
