// What nodes tell of themselves: their load, what they keep, their pulse, who is in the view.
#include <algorithm>
#include <memory>
#include <utility>

#include "actors/wire_fields.h"
#include "actors/wire_messages.h"

namespace shoal::wire_codec {
namespace {

wire::Member member(const Member& from) {
  wire::Member out;
  out.set_node(from.node.value);
  out.set_incarnation(from.incarnation.value);
  out.set_joined(from.joined.value);
  return out;
}

Member member(const wire::Member& from) {
  return {NodeId{from.node()}, IncarnationId{from.incarnation()}, EpochId{from.joined()}};
}

void put(const CostReport& from, wire::Cost& out) {
  out.set_step_ns(from.coefficients.step.count());
  out.set_row_ps(from.coefficients.row_ps);
  out.set_near_fs(from.coefficients.near_fs);
  out.set_pair_fs(from.coefficients.pair_fs);
  out.set_deep_row_ps(from.coefficients.deep_row_ps);
  out.set_deep_pair_fs(from.coefficients.deep_pair_fs);
  out.set_late_ppm(from.late_ppm);
  out.set_steps(from.steps);
}

// Whatever came: within the bounds of a model.
CostReport get(const wire::Cost& from) {
  const CostModel model({.step = Nanos{from.step_ns()},
                         .row_ps = from.row_ps(),
                         .pair_fs = from.pair_fs(),
                         .near_fs = from.near_fs(),
                         .deep_row_ps = from.deep_row_ps(),
                         .deep_pair_fs = from.deep_pair_fs()});
  return {model.coefficients(),
          std::clamp<std::int64_t>(from.late_ppm(), 0, kMostLatePpm),
          std::max<std::int64_t>(from.steps(), 0)};
}

}  // namespace

std::string encode(const PrefillLoad& message, Instant) {
  wire::PrefillLoad out;
  out.set_node(message.node.value);
  for (int k = 0; k < kPrefillClasses; ++k) {
    out.add_waiting(message.backlog.waiting[static_cast<std::size_t>(k)]);
    out.add_received(message.received[static_cast<std::size_t>(k)]);
    out.add_queued_ns(message.backlog.queued[static_cast<std::size_t>(k)].count());
  }
  for (const PrefillRankLoad& rank : message.backlog.ranks) {
    wire::PrefillRankLoad& load = *out.add_ranks();
    load.set_requests(rank.requests);
    load.set_rows(rank.rows);
    load.set_work_ns(rank.work.count());
  }
  out.set_step_left_ns(message.backlog.step_left.count());
  out.set_blocks(message.blocks);
  put(message.cost, *out.mutable_cost());
  return out.SerializeAsString();
}

template <>
Result<PrefillLoad> decode(std::string_view bytes, Instant) {
  TRY(const wire::PrefillLoad in, parse<wire::PrefillLoad>(bytes, "prefill load"));
  if (in.waiting_size() != kPrefillClasses || in.received_size() != kPrefillClasses ||
      in.queued_ns_size() != kPrefillClasses) {
    return corrupt("classes");
  }
  PrefillLoad load;
  load.node = NodeId{in.node()};
  std::copy(in.waiting().begin(), in.waiting().end(), load.backlog.waiting.begin());
  std::copy(in.received().begin(), in.received().end(), load.received.begin());
  std::transform(in.queued_ns().begin(),
                 in.queued_ns().end(),
                 load.backlog.queued.begin(),
                 [](std::int64_t ns) { return Nanos{ns}; });
  for (const wire::PrefillRankLoad& rank : in.ranks()) {
    load.backlog.ranks.push_back({rank.requests(), rank.rows(), Nanos{rank.work_ns()}});
  }
  load.backlog.step_left = Nanos{in.step_left_ns()};
  load.blocks = in.blocks();
  load.cost = get(in.cost());
  return load;
}

std::string encode(const TailKept& message, Instant) {
  wire::TailKept out;
  out.set_last(bytes_of(message.tail.last));
  out.mutable_open()->Assign(message.tail.open.begin(), message.tail.open.end());
  out.set_end(message.tail.end);
  out.set_sampled(message.tail.sampled);
  put(message.tail.basis, *out.mutable_basis());
  out.set_node(message.place.node.value);
  out.set_buffer(message.place.buffer.value);
  out.set_life_ns(message.life.count());
  out.set_identity(message.tail.identity);
  out.set_first(bytes_of(message.tail.first));
  out.set_lineage(message.tail.lineage);
  return out.SerializeAsString();
}

template <>
Result<TailKept> decode(std::string_view bytes, Instant) {
  TRY(const wire::TailKept in, parse<wire::TailKept>(bytes, "tail"));
  if (in.end() < 1 || in.end() > kLongestSequence || in.open_size() != in.end() % kBlockTokens ||
      in.sampled() < 1 || in.sampled() > in.end()) {
    return corrupt("end");
  }
  if (in.life_ns() < 0 || in.life_ns() > kLongestDeadline.count() || in.buffer() == 0) {
    return corrupt("life");
  }
  TailKept kept;
  TRY(kept.tail.last, block_key(in.last()));
  kept.tail.open.assign(in.open().begin(), in.open().end());
  kept.tail.end = in.end();
  kept.tail.sampled = in.sampled();
  TRY(kept.tail.basis, get(in.basis()));
  kept.tail.identity = in.identity();
  TRY(kept.tail.first, block_key(in.first()));
  kept.tail.lineage = in.lineage();
  kept.place = {NodeId{in.node()}, BufferKey{in.buffer()}, in.identity()};
  kept.life = Nanos{in.life_ns()};
  return kept;
}

std::string encode(const KvNews&, Instant) {
  return {};
}

template <>
Result<KvNews> decode(std::string_view bytes, Instant) {
  return bytes.empty() ? Result<KvNews>(KvNews{}) : corrupt("news");
}

std::string encode(const DecodeLoad& message, Instant) {
  wire::DecodeLoad out;
  out.set_node(message.node.value);
  out.set_received(message.received);
  out.set_step_count(message.steps);
  put(message.cost, *out.mutable_cost());
  for (const DecodeRankLoad& rank : message.ranks) {
    wire::DecodeRankLoad& entry = *out.add_ranks();
    entry.set_others(rank.others);
    entry.set_others_tokens(rank.others_tokens);
    entry.set_free_blocks(rank.room.blocks);
    entry.set_free_sequences(rank.room.sequences);
    entry.set_blocks(rank.blocks);
  }
  return out.SerializeAsString();
}

template <>
Result<DecodeLoad> decode(std::string_view bytes, Instant) {
  TRY(const wire::DecodeLoad in, parse<wire::DecodeLoad>(bytes, "decode load"));
  DecodeLoad load{NodeId{in.node()}, {}, in.received(), get(in.cost()), in.step_count()};
  for (const wire::DecodeRankLoad& rank : in.ranks()) {
    load.ranks.push_back({rank.others(),
                          rank.others_tokens(),
                          {rank.free_blocks(), rank.free_sequences()},
                          rank.blocks()});
  }
  return load;
}

std::string encode(const NodeBeat& message, Instant) {
  wire::NodeBeat out;
  out.set_node(message.node.value);
  out.set_incarnation(message.incarnation.value);
  out.set_epoch(message.epoch.value);
  out.set_prefill_demand_ns(message.demand.ns[kScaledPrefill]);
  out.set_decode_demand_ns(message.demand.ns[kScaledDecode]);
  return out.SerializeAsString();
}

template <>
Result<NodeBeat> decode(std::string_view bytes, Instant) {
  TRY(const wire::NodeBeat in, parse<wire::NodeBeat>(bytes, "node beat"));
  if (in.prefill_demand_ns() < 0 || in.decode_demand_ns() < 0) {
    return corrupt("demand");
  }
  return NodeBeat{NodeId{in.node()},
                  IncarnationId{in.incarnation()},
                  EpochId{in.epoch()},
                  {{in.prefill_demand_ns(), in.decode_demand_ns()}}};
}

std::string encode(const View& view) {
  wire::View out;
  out.set_epoch(view.epoch.value);
  for (const Member& one : view.members) {
    *out.add_members() = member(one);
  }
  for (const Member& one : view.fenced) {
    *out.add_fenced() = member(one);
  }
  for (const NodeId node : view.left) {
    out.add_left(node.value);
  }
  return out.SerializeAsString();
}

Result<View> decode_view(std::string_view bytes) {
  TRY(const wire::View in, parse<wire::View>(bytes, "view"));
  View view{EpochId{in.epoch()}, {}, {}, {}};
  for (const wire::Member& one : in.members()) {
    view.members.push_back(member(one));
  }
  for (const wire::Member& one : in.fenced()) {
    view.fenced.push_back(member(one));
  }
  for (const std::uint32_t node : in.left()) {
    view.left.push_back(NodeId{node});
  }
  return view;
}

std::string encode(const ViewPublished& message, Instant) {
  return encode(*message.view);
}

template <>
Result<ViewPublished> decode(std::string_view bytes, Instant) {
  TRY(View view, decode_view(bytes));
  return ViewPublished{std::make_shared<const View>(std::move(view))};
}

}  // namespace shoal::wire_codec
