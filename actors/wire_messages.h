// The messages of interfaces.h that may leave a process, to and from the body of an Envelope. Each
// kind has one number that is never used for anything else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/interfaces.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::wire_codec {

// Whom an envelope is for on the receiving node.
enum class Role : std::uint32_t {
  kGateway = 1,
  kRouter,
  kPrefillBalancer,  // instance: its length class
  kPrefillGroup,
  kDecodeBalancer,
  kDecodeGroup,
  kSupervisor,
  kMembership,
  kExpertSource,
  kExpertShard,  // instance: its number at the node
  kEpBalancer,
};

template <class Message>
inline constexpr std::uint32_t kKind = 0;
template <>
inline constexpr std::uint32_t kKind<Submit> = 1;
template <>
inline constexpr std::uint32_t kKind<StopStream> = 2;
template <>
inline constexpr std::uint32_t kKind<CloseRequest> = 3;
template <>
inline constexpr std::uint32_t kKind<TokenBatch> = 4;
template <>
inline constexpr std::uint32_t kKind<AttemptFailed> = 5;
template <>
inline constexpr std::uint32_t kKind<PrefillStarted> = 6;
template <>
inline constexpr std::uint32_t kKind<PrefillDone> = 7;
template <>
inline constexpr std::uint32_t kKind<DecodeJoined> = 8;
template <>
inline constexpr std::uint32_t kKind<AttemptLost> = 9;
template <>
inline constexpr std::uint32_t kKind<AnswerDone> = 10;
template <>
inline constexpr std::uint32_t kKind<ReleaseAttempt> = 11;
template <>
inline constexpr std::uint32_t kKind<PlacePrefill> = 12;
template <>
inline constexpr std::uint32_t kKind<PrefillLoad> = 13;
template <>
inline constexpr std::uint32_t kKind<JoinDecode> = 14;
template <>
inline constexpr std::uint32_t kKind<DecodeLeft> = 15;
template <>
inline constexpr std::uint32_t kKind<DecodeRefused> = 16;
template <>
inline constexpr std::uint32_t kKind<DecodeLoad> = 17;
template <>
inline constexpr std::uint32_t kKind<NodeBeat> = 18;
template <>
inline constexpr std::uint32_t kKind<ViewPublished> = 19;
template <>
inline constexpr std::uint32_t kKind<RequestNoted> = 20;
template <>
inline constexpr std::uint32_t kKind<TailKept> = 21;
template <>
inline constexpr std::uint32_t kKind<KvNews> = 22;
template <>
inline constexpr std::uint32_t kKind<KvShortened> = 23;
template <>
inline constexpr std::uint32_t kKind<DecodeYielded> = 24;
template <>
inline constexpr std::uint32_t kKind<MoveDecode> = 25;
template <>
inline constexpr std::uint32_t kKind<DecodeKept> = 26;
template <>
inline constexpr std::uint32_t kKind<ReleaseHandover> = 27;
template <>
inline constexpr std::uint32_t kKind<HoldExperts> = 28;
template <>
inline constexpr std::uint32_t kKind<ExpertsHeld> = 29;
template <>
inline constexpr std::uint32_t kKind<KeepExperts> = 30;
template <>
inline constexpr std::uint32_t kKind<CountExperts> = 31;
template <>
inline constexpr std::uint32_t kKind<ExpertLoads> = 32;
template <>
inline constexpr std::uint32_t kKind<PlaceExperts> = 33;

std::string encode(const Submit& message, Instant now);
std::string encode(const StopStream& message, Instant now);
std::string encode(const CloseRequest& message, Instant now);
std::string encode(const TokenBatch& message, Instant now);
std::string encode(const AttemptFailed& message, Instant now);
std::string encode(const RequestNoted& message, Instant now);
std::string encode(const PrefillStarted& message, Instant now);
std::string encode(const PrefillDone& message, Instant now);
std::string encode(const DecodeJoined& message, Instant now);
std::string encode(const AttemptLost& message, Instant now);
std::string encode(const AnswerDone& message, Instant now);
std::string encode(const ReleaseAttempt& message, Instant now);
std::string encode(const PlacePrefill& message, Instant now);
std::string encode(const PrefillLoad& message, Instant now);
std::string encode(const JoinDecode& message, Instant now);
std::string encode(const DecodeLeft& message, Instant now);
std::string encode(const TailKept& message, Instant now);
std::string encode(const KvNews& message, Instant now);
std::string encode(const KvShortened& message, Instant now);
std::string encode(const DecodeRefused& message, Instant now);
std::string encode(const DecodeLoad& message, Instant now);
std::string encode(const DecodeYielded& message, Instant now);
std::string encode(const MoveDecode& message, Instant now);
std::string encode(const DecodeKept& message, Instant now);
std::string encode(const ReleaseHandover& message, Instant now);
std::string encode(const NodeBeat& message, Instant now);
std::string encode(const ViewPublished& message, Instant now);
std::string encode(const HoldExperts& message, Instant now);
std::string encode(const ExpertsHeld& message, Instant now);
std::string encode(const KeepExperts& message, Instant now);
std::string encode(const CountExperts& message, Instant now);
std::string encode(const ExpertLoads& message, Instant now);
std::string encode(const PlaceExperts& message, Instant now);
std::string encode(const View& view);

// kCorrupt names the field.
template <class Message>
Result<Message> decode(std::string_view bytes, Instant now);
Result<View> decode_view(std::string_view bytes);

}  // namespace shoal::wire_codec
