// The ports of one node whose clock has another zero than the world's: instants are translated on
// the way in, so that nothing may compare the clocks of two nodes.
#pragma once

#include <functional>
#include <memory>

#include "actors/link.h"
#include "tests/sim/tamper.h"
#include "transport/transport.h"

namespace shoal::sim {

std::unique_ptr<LinkPort> with_clock(std::unique_ptr<LinkPort> links, Nanos ahead);

// Fetches what `other` says, if it is set.
std::unique_ptr<transport::Transport> with_clock(std::unique_ptr<transport::Transport> transport,
                                                 Nanos ahead,
                                                 OtherBuffer other);

}  // namespace shoal::sim
