// One pair of functions a message, in the order of the kinds.
#include "actors/wire_messages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/wire.h"
#include "actors/wire_fields.h"
#include "actors/wire_placement.h"

namespace shoal::wire_codec {
namespace {

using wire_codec::get;
using wire_codec::put;

wire::AttemptEvent event_of(const AttemptKey& key) {
  wire::AttemptEvent out;
  put(key, *out.mutable_key());
  return out;
}

Result<wire::AttemptEvent> parse_event(std::string_view bytes) {
  return parse<wire::AttemptEvent>(bytes, "attempt event");
}

// What a router is told of a hand-over: it has the placement itself.
PlacementPtr placement_named(const AttemptKey& key) {
  auto submission = std::make_shared<Submission>();
  submission->request = key.request;
  submission->attempt = key.attempt;
  auto placement = std::make_shared<Placement>();
  placement->submission = std::move(submission);
  return placement;
}

std::string encode_handover(const Handover& handover) {
  wire::Handover out;
  put(handover, out);
  return out.SerializeAsString();
}

Result<Handover> parse_handover(std::string_view bytes) {
  TRY(const wire::Handover in, parse<wire::Handover>(bytes, "hand-over"));
  return get(in, placement_named(get(in.key())));
}

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

std::string encode(const Submit& message, Instant now) {
  wire::Submission out;
  put(*message.submission, now, true, out);
  return out.SerializeAsString();
}

template <>
Result<Submit> decode(std::string_view bytes, Instant now) {
  TRY(Submission submission, decode_submission(bytes, now));
  return Submit{std::make_shared<const Submission>(std::move(submission))};
}

std::string encode(const StopStream& message, Instant) {
  wire::Stop out;
  put(message.key, *out.mutable_key());
  out.set_end(message.end);
  return out.SerializeAsString();
}

template <>
Result<StopStream> decode(std::string_view bytes, Instant) {
  TRY(const wire::Stop in, parse<wire::Stop>(bytes, "stop"));
  return StopStream{get(in.key()), in.end()};
}

std::string encode(const CloseRequest& message, Instant) {
  wire::Close out;
  out.set_request(message.request.value);
  out.set_tokens(message.tokens);
  return out.SerializeAsString();
}

template <>
Result<CloseRequest> decode(std::string_view bytes, Instant) {
  TRY(const wire::Close in, parse<wire::Close>(bytes, "close"));
  return CloseRequest{RequestId{in.request()}, in.tokens()};
}

std::string encode(const TokenBatch& message, Instant) {
  wire::TokenBatch out;
  out.set_shard(message.shard);
  for (const TokenRun& run : message.runs) {
    put(run, *out.add_runs());
  }
  return out.SerializeAsString();
}

template <>
Result<TokenBatch> decode(std::string_view bytes, Instant) {
  TRY(ShardRuns batch, decode_runs(bytes));
  return TokenBatch{batch.shard, std::move(batch.runs)};
}

std::string encode(const AttemptFailed& message, Instant) {
  return encode(ShardFailure{message.shard, message.failure});
}

template <>
Result<AttemptFailed> decode(std::string_view bytes, Instant) {
  TRY(ShardFailure failure, decode_failure(bytes));
  return AttemptFailed{failure.shard, std::move(failure.failure)};
}

std::string encode(const RequestNoted& message, Instant) {
  wire::RequestNoted out;
  put({message.request, message.entry.attempt}, *out.mutable_key());
  out.set_tenant(message.tenant);
  out.set_choice(message.choice);
  out.set_node(message.entry.node.value);
  out.set_event(message.entry.event);
  out.set_state(message.entry.state);
  for (const TimelineField& field : message.entry.fields) {
    wire::NotedField& noted = *out.add_fields();
    noted.set_name(field.name);
    if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      noted.set_number(*number);
    } else {
      noted.set_text(std::get<std::string>(field.value));
    }
  }
  return out.SerializeAsString();
}

template <>
Result<RequestNoted> decode(std::string_view bytes, Instant) {
  TRY(const wire::RequestNoted in, parse<wire::RequestNoted>(bytes, "request noted"));
  const AttemptKey key = get(in.key());
  RequestNoted message{key.request,
                       in.tenant(),
                       in.choice(),
                       {{}, NodeId{in.node()}, key.attempt, in.event(), in.state(), {}}};
  for (const wire::NotedField& field : in.fields()) {
    if (field.has_text()) {
      message.entry.fields.push_back({field.name(), field.text()});
    } else {
      message.entry.fields.push_back({field.name(), field.number()});
    }
  }
  return message;
}

std::string encode(const PrefillStarted& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_rank(message.rank);
  return out.SerializeAsString();
}

template <>
Result<PrefillStarted> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return PrefillStarted{get(in.key()), in.rank()};
}

std::string encode(const PrefillDone& message, Instant) {
  return encode_handover(message.handover);
}

template <>
Result<PrefillDone> decode(std::string_view bytes, Instant) {
  TRY(Handover handover, parse_handover(bytes));
  return PrefillDone{std::move(handover)};
}

std::string encode(const DecodeYielded& message, Instant) {
  return encode_handover(message.handover);
}

template <>
Result<DecodeYielded> decode(std::string_view bytes, Instant) {
  TRY(Handover handover, parse_handover(bytes));
  return DecodeYielded{std::move(handover)};
}

std::string encode(const DecodeJoined& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_node(message.node.value);
  out.set_rank(message.rank);
  return out.SerializeAsString();
}

template <>
Result<DecodeJoined> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return DecodeJoined{get(in.key()), NodeId{in.node()}, in.rank()};
}

std::string encode(const AttemptLost& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_code(static_cast<std::uint32_t>(message.error.code));
  out.set_message(message.error.message);
  if (message.decode) {
    out.set_node(message.decode->value);
  }
  return out.SerializeAsString();
}

template <>
Result<AttemptLost> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  TRY(const Code code, code_of(in.code()));
  AttemptLost lost{get(in.key()), Error{code, in.message()}, {}};
  if (in.has_node()) {
    lost.decode = NodeId{in.node()};
  }
  return lost;
}

std::string encode(const AnswerDone& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_finish(static_cast<std::uint32_t>(message.finish));
  out.set_tokens(message.tokens);
  return out.SerializeAsString();
}

template <>
Result<AnswerDone> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  if (in.finish() > static_cast<std::uint32_t>(Finish::kLength)) {
    return corrupt("finish");
  }
  return AnswerDone{get(in.key()), static_cast<Finish>(in.finish()), in.tokens()};
}

std::string encode(const ReleaseAttempt& message, Instant) {
  return event_of(message.key).SerializeAsString();
}

template <>
Result<ReleaseAttempt> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return ReleaseAttempt{get(in.key())};
}

std::string encode(const PlacePrefill& message, Instant now) {
  wire::Placement out;
  put(*message.placement, now, true, out);
  return out.SerializeAsString();
}

template <>
Result<PlacePrefill> decode(std::string_view bytes, Instant now) {
  TRY(const wire::Placement in, parse<wire::Placement>(bytes, "placement"));
  TRY(PlacementPtr placement, get(in, now));
  const Submission& submission = *placement->submission;
  if (static_cast<Position>(submission.prompt->size()) != placement->span.prompt ||
      static_cast<Position>(submission.forced.size()) !=
          placement->span.total - placement->span.prompt) {
    return corrupt("prompt");
  }
  return PlacePrefill{std::move(placement)};
}

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
  out.set_draining(message.draining);
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
  load.draining = in.draining();
  return load;
}

std::string encode(const JoinDecode& message, Instant now) {
  wire::Handover out;
  put(message.handover, out);
  put(*message.handover.placement, now, false, *out.mutable_placement());
  out.set_rank(message.rank);
  return out.SerializeAsString();
}

template <>
Result<JoinDecode> decode(std::string_view bytes, Instant now) {
  TRY(const wire::Handover in, parse<wire::Handover>(bytes, "hand-over"));
  TRY(PlacementPtr placement, get(in.placement(), now));
  if (placement->key() != get(in.key())) {
    return corrupt("key");
  }
  TRY(Handover handover, get(in, std::move(placement)));
  return JoinDecode{std::move(handover), in.rank(), {}};
}

std::string encode(const DecodeLeft& message, Instant) {
  wire::Attempts out;
  for (const AttemptKey& key : message.keys) {
    put(key, *out.add_keys());
  }
  return out.SerializeAsString();
}

template <>
Result<DecodeLeft> decode(std::string_view bytes, Instant) {
  TRY(const wire::Attempts in, parse<wire::Attempts>(bytes, "attempts"));
  DecodeLeft left;
  for (const wire::AttemptKey& key : in.keys()) {
    left.keys.push_back(get(key));
  }
  return left;
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

std::string encode(const KvShortened& message, Instant) {
  wire::KvShortened out;
  put(message, out);
  return out.SerializeAsString();
}

template <>
Result<KvShortened> decode(std::string_view bytes, Instant) {
  TRY(const wire::KvShortened in, parse<wire::KvShortened>(bytes, "shortened hit"));
  return get(in);
}

std::string encode(const DecodeRefused& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_node(message.node.value);
  return out.SerializeAsString();
}

template <>
Result<DecodeRefused> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return DecodeRefused{get(in.key()), NodeId{in.node()}};
}

std::string encode(const MoveDecode& message, Instant) {
  return event_of(message.key).SerializeAsString();
}

template <>
Result<MoveDecode> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return MoveDecode{get(in.key())};
}

std::string encode(const DecodeKept& message, Instant) {
  wire::AttemptEvent out = event_of(message.key);
  out.set_node(message.node.value);
  return out.SerializeAsString();
}

template <>
Result<DecodeKept> decode(std::string_view bytes, Instant) {
  TRY(const wire::AttemptEvent in, parse_event(bytes));
  return DecodeKept{get(in.key()), NodeId{in.node()}};
}

std::string encode(const ReleaseHandover& message, Instant) {
  wire::ReleaseHandover out;
  put(message.key, *out.mutable_key());
  out.set_rank(message.rank);
  out.set_buffer(message.buffer.value);
  return out.SerializeAsString();
}

template <>
Result<ReleaseHandover> decode(std::string_view bytes, Instant) {
  TRY(const wire::ReleaseHandover in,
      parse<wire::ReleaseHandover>(bytes, "release of a hand-over"));
  return ReleaseHandover{get(in.key()), in.rank(), BufferKey{in.buffer()}};
}

std::string encode(const DecodeLoad& message, Instant) {
  wire::DecodeLoad out;
  out.set_node(message.node.value);
  out.set_received(message.received);
  out.set_step_count(message.steps);
  out.set_draining(message.draining);
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
  DecodeLoad load{
      NodeId{in.node()}, {}, in.received(), get(in.cost()), in.step_count(), in.draining()};
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
  return out.SerializeAsString();
}

Result<View> decode_view(std::string_view bytes) {
  TRY(const wire::View in, parse<wire::View>(bytes, "view"));
  View view{EpochId{in.epoch()}, {}, {}};
  for (const wire::Member& one : in.members()) {
    view.members.push_back(member(one));
  }
  for (const wire::Member& one : in.fenced()) {
    view.fenced.push_back(member(one));
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
