// A placement from before a regroup is obeyed after it.
#include "tests/sim/defects/late_message.h"

namespace shoal::sim {
namespace {

class StalePlacement final : public LateMessage<PlacePrefill> {
 public:
  StalePlacement()
      : LateMessage(
            {"stale_placement",
             "A placement from before a regroup is obeyed after it.",
             kRegrouped,
             {"full_service_returns", "views_are_true", "leases_return", "one_terminal_event"}}) {}
} planted;

}  // namespace
}  // namespace shoal::sim
