// The parts that several wire messages share, to and from Protobuf. For actors/wire*.cpp only.
#pragma once

#include <string>
#include <string_view>

#include "actors/front_door.h"
#include "schemas/block_key.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "schemas/wire.pb.h"

namespace shoal::wire_codec {

// Further away a deadline is damage: sums of instants must not overflow.
inline constexpr Nanos kLongestDeadline = std::chrono::hours(24 * 365 * 10);

// More tokens or blocks than any sequence has is damage.
inline constexpr std::int64_t kLongestSequence = std::int64_t{1} << 32;

tl::unexpected<Error> corrupt(const char* field);

template <class Message>
Result<Message> parse(std::string_view bytes, const char* name) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return corrupt(name);
  }
  return message;
}

Result<Code> code_of(std::uint32_t code);
std::string bytes_of(const BlockKey& key);
Result<BlockKey> block_key(const std::string& in);
void put(const Basis& basis, wire::Basis& out);
Result<Basis> get(const wire::Basis& in);
void put(const Sampling& sampling, wire::Sampling& out);
Sampling get(const wire::Sampling& in);
void put(const TokenRun& run, wire::TokenRun& out);
Result<TokenRun> get(const wire::TokenRun& in);
void put(const Submission& submission, Instant now, bool with_prompt, wire::Submission& out);
Result<Submission> get(const wire::Submission& in, Instant now);
Result<BasisMode> mode_of(std::uint32_t mode);

}  // namespace shoal::wire_codec
