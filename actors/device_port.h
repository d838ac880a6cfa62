// A device and the queue that its workers share: a rank of its node.
#pragma once

#include "kernels/backend.h"
#include "kernels/launch_queue.h"

namespace shoal {

struct DevicePort {
  kernels::Backend* backend = nullptr;
  kernels::Launcher* launcher = nullptr;  // stopped by Node::shut_down
};

}  // namespace shoal
