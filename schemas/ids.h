// Strong ids: a request cannot be passed where a sequence is expected. Values are plain integers on
// the wire.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace shoal {

template <class Tag, class Rep = std::uint64_t>
struct Id {
  Rep value = 0;

  constexpr Id() = default;

  constexpr explicit Id(Rep v) : value(v) {}

  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using RequestId = Id<struct RequestTag>;  // one call of a client
using AttemptId =
    Id<struct AttemptTag, std::uint32_t>;  // n-th try of a request; the stream raises it
using EpochId = Id<struct EpochTag>;       // membership version of a group
using StepId = Id<struct StepTag>;         // number of a forward pass on one worker
using SequenceId =
    Id<struct SequenceTag, std::uint32_t>;           // slot of per-sequence state on one device
using BlockId = Id<struct BlockTag, std::uint32_t>;  // physical KV block on one device
using NodeId = Id<struct NodeTag, std::uint32_t>;    // place in the topology's list of nodes
using IncarnationId = Id<struct IncarnationTag>;     // one life of a node's process, drawn at start
using BufferKey = Id<struct BufferTag>;  // a buffer offered by one incarnation of one node

// Token ids stay plain integers: they travel in bulk arrays.
using TokenId = std::int32_t;
// Position of a token in its sequence, from 0.
using Position = std::int64_t;

}  // namespace shoal

template <class Tag, class Rep>
struct std::hash<shoal::Id<Tag, Rep>> {
  std::size_t operator()(const shoal::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
