// Messages about requests: one pair of functions each, in the order of the kinds.
#include "actors/wire_messages.h"

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

}  // namespace shoal::wire_codec
