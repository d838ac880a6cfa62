// Who takes which kind, role by role.
#include "actors/delivery.h"

#include <optional>
#include <utility>

#include "actors/context.h"
#include "actors/wire_messages.h"

namespace shoal {
namespace {

using wire_codec::Role;

// One envelope under way.
struct Delivery {
  const wire::Envelope& envelope;
  const Recipients& recipients;
  Instant now;
  std::optional<Error> damage;

  Role role() const { return static_cast<Role>(envelope.role()); }

  template <class Message, class Actor>
  bool as(const Actor& actor);
  bool to_control();
  bool to_router();
  bool to_workers();
};

// False: the envelope is of another kind.
template <class Message, class Actor>
bool Delivery::as(const Actor& actor) {
  if (envelope.kind() != wire_codec::kKind<Message>) {
    return false;
  }
  auto message = wire_codec::decode<Message>(envelope.body(), now);
  if (message) {
    notify(actor, *std::move(message));
  } else {
    damage = std::move(message.error());
  }
  return true;
}

bool Delivery::to_control() {
  switch (role()) {
    case Role::kSupervisor:
      return as<ViewPublished>(recipients.supervisor);
    case Role::kMembership:
      return as<NodeBeat>(recipients.wiring.membership);
    default:
      return false;
  }
}

bool Delivery::to_router() {
  const NodeParts& here = recipients.wiring.here();
  switch (role()) {
    case Role::kRouter:
      return as<Submit>(here.router) || as<StopStream>(here.router) ||
             as<CloseRequest>(here.router) || as<KvShortened>(here.router) ||
             as<PrefillStarted>(here.router) || as<PrefillDone>(here.router) ||
             as<DecodeJoined>(here.router) || as<DecodeYielded>(here.router) ||
             as<AnswerDone>(here.router) || as<AttemptLost>(here.router) ||
             as<TailKept>(here.router) || as<KvNews>(here.router);
    case Role::kPrefillBalancer:
      return envelope.instance() < static_cast<std::uint32_t>(kPrefillClasses) &&
             as<PrefillLoad>(here.prefill_balancers[envelope.instance()]);
    case Role::kDecodeBalancer:
      return as<DecodeLeft>(here.decode_balancer) || as<DecodeRefused>(here.decode_balancer) ||
             as<DecodeKept>(here.decode_balancer) || as<DecodeLoad>(here.decode_balancer);
    default:
      return false;
  }
}

bool Delivery::to_workers() {
  const NodeParts& here = recipients.wiring.here();
  switch (role()) {
    case Role::kGateway:
      return as<TokenBatch>(here.gateway) || as<AttemptFailed>(here.gateway) ||
             as<RequestNoted>(here.gateway);
    case Role::kPrefillGroup:
      return as<PlacePrefill>(here.prefill_group) || as<ReleaseAttempt>(here.prefill_group);
    case Role::kDecodeGroup:
      return as<JoinDecode>(here.decode_group) || as<ReleaseAttempt>(here.decode_group) ||
             as<MoveDecode>(here.decode_group) || as<ReleaseHandover>(here.decode_group);
    case Role::kExpertSource:
      return as<ExpertsHeld>(here.expert_source) || as<CountExperts>(here.expert_source) ||
             as<PlaceExperts>(here.expert_source);
    case Role::kExpertShard:
      return envelope.instance() < here.expert_shards.size() &&
             (as<HoldExperts>(here.expert_shards[envelope.instance()]) ||
              as<KeepExperts>(here.expert_shards[envelope.instance()]));
    case Role::kEpBalancer:
      return as<ExpertLoads>(here.ep_balancer);
    default:
      return false;
  }
}

}  // namespace

bool is_control(const wire::Envelope& envelope) {
  const auto role = static_cast<Role>(envelope.role());
  return role == Role::kSupervisor || role == Role::kMembership;
}

Result<bool> deliver(const wire::Envelope& envelope, const Recipients& recipients, Instant now) {
  Delivery delivery{envelope, recipients, now, {}};
  const bool taken = delivery.to_control() || delivery.to_router() || delivery.to_workers();
  if (delivery.damage) {
    return tl::unexpected(*std::move(delivery.damage));
  }
  return taken;
}

}  // namespace shoal
