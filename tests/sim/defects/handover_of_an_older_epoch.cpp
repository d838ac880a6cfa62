// A hand-over of a session that is over is taken in the next one.
#include "tests/sim/defects/late_message.h"

namespace shoal::sim {
namespace {

class HandoverOfAnOlderEpoch final : public LateMessage<JoinDecode> {
 public:
  HandoverOfAnOlderEpoch()
      : LateMessage(
            {"handover_of_an_older_epoch",
             "A hand-over of a session that is over is taken in the next one.",
             kRegrouped,
             {"full_service_returns", "views_are_true", "leases_return", "one_terminal_event"}}) {}
} planted;

}  // namespace
}  // namespace shoal::sim
