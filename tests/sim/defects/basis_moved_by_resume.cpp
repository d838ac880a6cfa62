// A later attempt counts what was sent as prompt, so its decoder half begins at another position.
#include "actors/policy/kv_reuse.h"
#include "tests/sim/defects/resubmission.h"

namespace shoal::sim {
namespace {

constexpr Position kWindow = 128;

class BasisMovedByResume final : public ResubmissionDefect {
 public:
  BasisMovedByResume()
      : ResubmissionDefect({"basis_moved_by_resume",
                            "A later attempt counts what was sent as prompt.",
                            kResumed,
                            {"true_tokens"}}) {}

 private:
  void spoil(Submission& submission) const override {
    const auto sent = static_cast<Position>(submission.prompt->size() + submission.forced.size());
    submission.basis = first_basis(submission.mode, sent, kWindow);
  }
} planted;

}  // namespace
}  // namespace shoal::sim
