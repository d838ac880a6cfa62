// GET /v1/requests/{id} as JSON: the timelines of an answer's choices. actors/README.md describes
// the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/timeline.h"

namespace shoal {

// `nodes`: their names, by NodeId; none where this node is all there is.
std::string explained(std::string_view id,
                      const std::vector<std::string>& nodes,
                      const std::vector<RequestTimeline>& choices);

}  // namespace shoal
