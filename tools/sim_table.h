// What `shoal sim` prints of its runs.
#pragma once

#include "tests/sim/violation.h"
#include "tools/sim_journal.h"

namespace shoal::tools {

void print_totals(const SimTotals& totals);
void print_violation(const sim::Violation& violation);

}  // namespace shoal::tools
