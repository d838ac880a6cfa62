// Encodes what may leave the process as Protobuf bytes (schemas/wire.proto), for the body of an
// Envelope, and decodes it with every size and enumerator checked. Inside one process messages
// travel as pointers and never pass here.
#pragma once

#include <string>
#include <string_view>

#include "actors/front_door.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::wire_codec {

// The longest prompt a message carries, ids.
inline constexpr std::size_t kInlineTokens = 1'048'576;

// A batch as it goes to the gateway of one shard.
struct ShardRuns {
  std::uint32_t shard = 0;
  std::vector<TokenRun> runs;
};

struct ShardFailure {
  std::uint32_t shard = 0;
  StreamFailure failure;
};

// Deadlines travel as the time left, because two nodes' clocks are never compared.
Result<std::string> encode(const Submission& submission, Instant now);
std::string encode(const ShardRuns& batch);
std::string encode(const ShardFailure& failure);

// kCorrupt names the field.
Result<Submission> decode_submission(std::string_view bytes, Instant now);
Result<ShardRuns> decode_runs(std::string_view bytes);
Result<ShardFailure> decode_failure(std::string_view bytes);

}  // namespace shoal::wire_codec
