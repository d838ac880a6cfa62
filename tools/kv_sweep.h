// Takes blocks out of a KV store directory, also one that servers use: they see it within two
// seconds.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/result.h"
#include "tools/kv_view.h"

namespace shoal::tools {

// Durable when it returns. Files of dead writers of which nothing is visible any more are removed; a
// living server removes its own. A full disk does not hinder it: what is taken out makes the room
// to say so. Bytes of the removed files.
Result<std::int64_t> drop_blocks(const KvView& view, const std::vector<KvViewBlock>& blocks);

}  // namespace shoal::tools
