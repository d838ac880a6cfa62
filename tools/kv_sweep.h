// Takes blocks out of a KV store directory, also one that servers use: they see it within two
// seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/result.h"
#include "tools/kv_view.h"

namespace shoal::tools {

// Bytes that are free now.
struct Freed {
  std::int64_t files = 0;   // of removed ones
  std::int64_t inside = 0;  // of records in files that stay
};

// Durable when it returns. Files of dead writers of which nothing is visible any more are removed;
// a living server removes its own. In files that stay the records become holes, where the file
// system can do that: a server that reads one in the seconds until it has seen that it is out takes
// it for damaged. A full disk does not hinder it: what is taken out makes the room to say so.
Result<Freed> drop_blocks(const KvView& view, const std::vector<KvViewBlock>& blocks);

}  // namespace shoal::tools
