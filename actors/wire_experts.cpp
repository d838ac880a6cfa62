// Placements of experts as they travel: every size and slot is checked before anything is made of
// them.
#include <memory>
#include <utility>

#include "actors/expert_dispatch.h"
#include "actors/wire_fields.h"
#include "actors/wire_messages.h"

namespace shoal::wire_codec {
namespace {

// More of anything is damage.
constexpr std::int32_t kMost = 1 << 20;

void put(const ExpertPlacementMap& map, wire::ExpertMap& out) {
  out.set_epoch(map.epoch.value);
  for (const ExpertLayer& layer : map.layers) {
    wire::ExpertLayer& to = *out.add_layers();
    to.set_experts(layer.shape.experts);
    to.set_ranks(layer.shape.ranks);
    to.set_slots(layer.shape.slots);
    to.set_node_ranks(layer.shape.node_ranks);
    to.mutable_expert_at()->Assign(layer.expert_at.begin(), layer.expert_at.end());
  }
}

Result<ExpertLayer> get(const wire::ExpertLayer& in) {
  ExpertLayer layer;
  layer.shape = {in.experts(), in.ranks(), in.slots(), in.node_ranks()};
  for (const std::int32_t size : {in.experts(), in.ranks(), in.slots(), in.node_ranks()}) {
    if (size < 1 || size > kMost) {
      return corrupt("sizes of a placement");
    }
  }
  if (in.expert_at_size() != std::int64_t{in.ranks()} * in.slots()) {
    return corrupt("slots of a placement");
  }
  layer.expert_at.assign(in.expert_at().begin(), in.expert_at().end());
  if (!serves_all(layer.shape, layer.expert_at)) {
    return corrupt("experts of a placement");
  }
  return layer;
}

Result<ExpertMapPtr> get(const wire::ExpertMap& in) {
  ExpertPlacementMap map{EpochId{in.epoch()}, {}};
  for (const wire::ExpertLayer& layer : in.layers()) {
    TRY(ExpertLayer read, get(layer));
    map.layers.push_back(std::move(read));
  }
  return std::make_shared<const ExpertPlacementMap>(std::move(map));
}

}  // namespace

std::string encode(const HoldExperts& message, Instant) {
  wire::HoldExperts out;
  put(*message.map, *out.mutable_map());
  out.set_serves(message.serves);
  return out.SerializeAsString();
}

template <>
Result<HoldExperts> decode(std::string_view bytes, Instant) {
  TRY(const wire::HoldExperts in, parse<wire::HoldExperts>(bytes, "placement of experts"));
  HoldExperts message;
  TRY(message.map, get(in.map()));
  message.serves = in.serves();
  return message;
}

std::string encode(const ExpertsHeld& message, Instant) {
  wire::ExpertsHeld out;
  out.set_node(message.node.value);
  out.set_shard(message.shard);
  out.set_held(message.held.value);
  if (message.served != nullptr) {
    put(*message.served, *out.mutable_served());
  }
  if (message.refusal) {
    out.set_refused(true);
    out.set_code(static_cast<std::uint32_t>(message.refusal->code));
    out.set_reason(message.refusal->message);
  }
  return out.SerializeAsString();
}

template <>
Result<ExpertsHeld> decode(std::string_view bytes, Instant) {
  TRY(const wire::ExpertsHeld in, parse<wire::ExpertsHeld>(bytes, "experts held"));
  ExpertsHeld message;
  message.node = NodeId{in.node()};
  message.shard = in.shard();
  message.held = EpochId{in.held()};
  if (in.has_served()) {
    TRY(message.served, get(in.served()));
  }
  if (in.refused()) {
    TRY(const Code code, code_of(in.code()));
    message.refusal = Error{code, in.reason()};
  }
  return message;
}

}  // namespace shoal::wire_codec
