// The ports of one node with a clock of its own: instants are translated on the way in, so that
// nothing may compare the clocks of two nodes.
#pragma once

#include <functional>
#include <memory>

#include "actors/link.h"
#include "tests/sim/node_clock.h"
#include "tests/sim/tamper.h"
#include "transport/transport.h"

namespace shoal::sim {

// The clock outlives them.
std::unique_ptr<LinkPort> with_clock(std::unique_ptr<LinkPort> links, const NodeClock& clock);

// Fetches what `other` says, if it is set.
std::unique_ptr<transport::Transport> with_clock(std::unique_ptr<transport::Transport> transport,
                                                 const NodeClock& clock,
                                                 OtherBuffer other);

}  // namespace shoal::sim
