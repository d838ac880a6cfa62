// Placements of experts and what they were given, as they travel: every size and slot is checked
// before anything is made of them.
#include <cmath>
#include <memory>
#include <utility>

#include "actors/expert_dispatch.h"
#include "actors/expert_report.h"
#include "actors/wire_fields.h"
#include "actors/wire_messages.h"

namespace shoal::wire_codec {
namespace {

// More of anything is damage.
constexpr std::int32_t kMost = 1 << 20;

void put(const ExpertLayer& layer, wire::ExpertLayer& to) {
  to.set_experts(layer.shape.experts);
  to.set_ranks(layer.shape.ranks);
  to.set_slots(layer.shape.slots);
  to.set_node_ranks(layer.shape.node_ranks);
  to.mutable_expert_at()->Assign(layer.expert_at.begin(), layer.expert_at.end());
  for (const double load : layer.loads) {
    to.add_loads(static_cast<float>(load));
  }
}

void put(const ExpertPlacementMap& map, wire::ExpertMap& out) {
  out.set_epoch(map.epoch.value);
  for (const ExpertLayer& layer : map.layers) {
    put(layer, *out.add_layers());
  }
}

Result<void> get_loads(const wire::ExpertLayer& in, ExpertLayer& layer) {
  if (in.loads_size() != 0 && in.loads_size() != in.experts()) {
    return corrupt("loads of a placement");
  }
  for (const float load : in.loads()) {
    if (!std::isfinite(load) || load < 0) {
      return corrupt("a load of a placement");
    }
    layer.loads.push_back(load);
  }
  return {};
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
  TRY_VOID(get_loads(in, layer));
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
  out.set_source(message.source.value);
  return out.SerializeAsString();
}

template <>
Result<HoldExperts> decode(std::string_view bytes, Instant) {
  TRY(const wire::HoldExperts in, parse<wire::HoldExperts>(bytes, "placement of experts"));
  HoldExperts message;
  TRY(message.map, get(in.map()));
  message.serves = in.serves();
  message.source = NodeId{in.source()};
  return message;
}

std::string encode(const ExpertsHeld& message, Instant) {
  wire::ExpertsHeld out;
  out.set_node(message.node.value);
  out.set_shard(message.shard);
  out.set_held(message.held.value);
  out.set_served(message.served.value);
  out.set_before(message.before.value);
  out.set_experts(message.use.experts);
  out.set_weights(message.use.weights.value);
  if (message.map != nullptr) {
    put(*message.map, *out.mutable_map());
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
  message.served = EpochId{in.served()};
  message.before = EpochId{in.before()};
  message.use = {in.experts(), Bytes{in.weights()}};
  if (in.has_map()) {
    TRY(message.map, get(in.map()));
    if (message.map->epoch != message.served) {
      return corrupt("the placement that is served");
    }
  }
  if (in.refused()) {
    TRY(const Code code, code_of(in.code()));
    message.refusal = Error{code, in.reason()};
  }
  return message;
}

std::string encode(const KeepExperts& message, Instant) {
  wire::KeepExperts out;
  out.set_epoch(message.epoch.value);
  return out.SerializeAsString();
}

template <>
Result<KeepExperts> decode(std::string_view bytes, Instant) {
  TRY(const wire::KeepExperts in, parse<wire::KeepExperts>(bytes, "experts to keep"));
  return KeepExperts{EpochId{in.epoch()}};
}

std::string encode(const CountExperts& message, Instant) {
  wire::CountExperts out;
  out.set_known(message.known.value);
  out.set_counts(message.counts);
  return out.SerializeAsString();
}

template <>
Result<CountExperts> decode(std::string_view bytes, Instant) {
  TRY(const wire::CountExperts in, parse<wire::CountExperts>(bytes, "experts to count"));
  return CountExperts{EpochId{in.known()}, in.counts()};
}

namespace {

void put(const ExpertTraffic& traffic, wire::ExpertTraffic& out) {
  out.set_exchanges(traffic.exchanges);
  out.mutable_experts()->Assign(traffic.experts.begin(), traffic.experts.end());
  out.mutable_ranks()->Assign(traffic.ranks.begin(), traffic.ranks.end());
}

// Sums of several sources must not overflow.
Result<std::vector<std::int64_t>> get(const google::protobuf::RepeatedField<std::int64_t>& in) {
  constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
  if (in.size() > kMost) {
    return corrupt("counts of a layer");
  }
  for (const std::int64_t count : in) {
    if (count < 0 || count > kMostRows) {
      return corrupt("a count of a layer");
    }
  }
  return std::vector<std::int64_t>(in.begin(), in.end());
}

Result<ExpertTraffic> get(const wire::ExpertTraffic& in) {
  ExpertTraffic traffic;
  traffic.exchanges = in.exchanges();
  TRY(traffic.experts, get(in.experts()));
  TRY(traffic.ranks, get(in.ranks()));
  return traffic;
}

}  // namespace

std::string encode(const ExpertLoads& message, Instant) {
  const ExpertReport& report = *message.report;
  wire::ExpertLoads out;
  out.set_node(report.node.value);
  out.set_epoch(report.epoch.value);
  if (report.map != nullptr) {
    put(*report.map, *out.mutable_map());
  }
  out.set_settled(report.settled);
  out.set_whole(report.whole);
  for (const ExpertTraffic& layer : report.traffic) {
    put(layer, *out.add_traffic());
  }
  out.set_expert_bytes(report.expert.value);
  out.set_plan(report.plan);
  out.set_plan_state(static_cast<std::uint32_t>(report.plan_state));
  out.set_reason(report.reason);
  return out.SerializeAsString();
}

template <>
Result<ExpertLoads> decode(std::string_view bytes, Instant) {
  TRY(const wire::ExpertLoads in, parse<wire::ExpertLoads>(bytes, "loads of experts"));
  auto report = std::make_shared<ExpertReport>();
  report->node = NodeId{in.node()};
  report->epoch = EpochId{in.epoch()};
  if (in.has_map()) {
    TRY(report->map, get(in.map()));
    if (report->map->epoch != report->epoch) {
      return corrupt("the placement in force");
    }
  }
  report->settled = in.settled();
  report->whole = in.whole();
  for (const wire::ExpertTraffic& layer : in.traffic()) {
    TRY(ExpertTraffic traffic, get(layer));
    report->traffic.push_back(std::move(traffic));
  }
  report->expert = Bytes{in.expert_bytes()};
  report->plan = in.plan();
  if (in.plan_state() > static_cast<std::uint32_t>(ExpertPlanState::kFailed)) {
    return corrupt("the state of a plan");
  }
  report->plan_state = static_cast<ExpertPlanState>(in.plan_state());
  report->reason = in.reason();
  return ExpertLoads{std::move(report)};
}

std::string encode(const PlaceExperts& message, Instant) {
  wire::PlaceExperts out;
  out.set_plan(message.order->plan);
  out.set_base(message.order->base.value);
  for (const ExpertLayer& layer : message.order->layers) {
    put(layer, *out.add_layers());
  }
  out.set_limit_ns(message.order->limit.count());
  return out.SerializeAsString();
}

template <>
Result<PlaceExperts> decode(std::string_view bytes, Instant) {
  TRY(const wire::PlaceExperts in, parse<wire::PlaceExperts>(bytes, "experts to place"));
  auto order = std::make_shared<ExpertOrder>();
  order->plan = in.plan();
  order->base = EpochId{in.base()};
  for (const wire::ExpertLayer& layer : in.layers()) {
    TRY(ExpertLayer read, get(layer));
    order->layers.push_back(std::move(read));
  }
  if (in.limit_ns() < 0 || Nanos{in.limit_ns()} > kLongestDeadline) {
    return corrupt("the limit of a placement");
  }
  order->limit = Nanos{in.limit_ns()};
  return PlaceExperts{std::move(order)};
}

}  // namespace shoal::wire_codec
