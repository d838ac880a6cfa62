// The index of a block store by itself: how fast it takes and finds prompts, and how large it is.
#pragma once

namespace shoal::tools {

void print_kv_index();

}  // namespace shoal::tools
