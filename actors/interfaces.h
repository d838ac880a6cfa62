// Every message and every typed interface of the node. All messages are one-way; each comment says
// who sends it, and whether it may leave the process ("wire": schemas/wire.proto has its encoding)
// or carries pointers into this one ("local").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/caf.h"
#include "actors/front_door.h"
#include "actors/kv_lease.h"
#include "actors/policy/answer_end.h"
#include "actors/policy/prefill_balancer.h"
#include "actors/policy/prefill_rows.h"
#include "actors/policy/prefill_schedule.h"
#include "kernels/launch_queue.h"
#include "schemas/basis.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal {

struct Wiring;
using WiringPtr = std::shared_ptr<const Wiring>;
using SubmissionPtr = std::shared_ptr<const Submission>;

// One try of one answer: what every message about work names, and what fences it.
struct AttemptKey {
  RequestId request;
  AttemptId attempt;

  friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;
};

// An attempt with everything decided once, at its placement.
struct Placement {
  SubmissionPtr submission;
  Basis basis;
  PrefillSpan span;
  AnswerRules rules;
  int length_class = 0;
  Nanos work{0};
  std::int64_t blocks = 0;  // worst case

  AttemptKey key() const { return {submission->request, submission->attempt}; }
};

using PlacementPtr = std::shared_ptr<const Placement>;

// A sequence between prefill and decode: a descriptor, never the KV itself.
struct Handover {
  PlacementPtr placement;
  KvLeasePtr kv;
  std::uint32_t device = 0;
  Position position = 0;  // of `token`, which is sent to the client but not computed yet
  TokenId token = 0;
  std::int64_t answered = 0;  // tokens of the answer so far, `token` included

  AttemptKey key() const { return placement->key(); }
};

// clang-format off

// All parts.
struct Rewire { WiringPtr wiring; };  // local: supervisor, at start and whenever a part was replaced
struct Ping {};                       // wire: supervisor; answered by Heartbeat
struct Tick {};                       // local: an actor to itself
struct EndPart { std::string part; };  // wire: an operator's drill or a test, to the supervisor
// wire: every part to the supervisor
struct Heartbeat { std::uint32_t part = 0; std::uint64_t progress = 0; bool has_work = false; };

// Streams: front door to gateway to router, and back.
struct Submit { SubmissionPtr submission; };              // wire: covered by the attempt
struct StopStream { AttemptKey key; Position end = 0; };  // wire: sent again with the next stray batch
// wire: covered by the deadline; `tokens` of the answer had been delivered
struct CloseRequest { RequestId request; std::int64_t tokens = 0; };
// wire: workers to gateway, one per shard and step; covered by the attempt
struct TokenBatch { std::uint32_t shard = 0; std::vector<TokenRun> runs; };
// wire: router to gateway; covered by the deadline
struct AttemptFailed { std::uint32_t shard = 0; StreamFailure failure; };

// The ledger: what parts tell the router.
struct PrefillStarted { AttemptKey key; std::uint32_t rank = 0; };  // wire: prefill group
struct PrefillDone { Handover handover; };                          // local: prefill worker
struct DecodePlaced { AttemptKey key; std::uint32_t rank = 0; };    // wire: decode balancer
struct DecodeJoined { AttemptKey key; std::uint32_t rank = 0; };    // wire: decode worker
struct AttemptLost { AttemptKey key; Error error; };                // wire: any part; the stream tries again
// wire: a worker
struct AnswerDone { AttemptKey key; Finish finish = Finish::kNone; std::int64_t tokens = 0; };
// wire: balancers
struct AttemptRefused { AttemptKey key; Error error; std::optional<Nanos> retry_after; };
// wire: router down a path: everything held for the attempt is freed
struct ReleaseAttempt { AttemptKey key; };

// Prefill.
struct PlacePrefill { PlacementPtr placement; };  // local (later wire): router to balancer to group
struct KvReleased {};                             // local: a lease to the group that took it
// wire: group to balancers, after every change
struct PrefillLoad { PrefillBacklog backlog; std::array<std::uint64_t, kPrefillClasses> received{}; };
struct PrefillOrder { PlacementPtr placement; KvLeasePtr kv; Position done = 0; std::int64_t rows = 0; };
struct PrefillStep { EpochId epoch; StepId step; std::vector<PrefillOrder> orders; };  // local: group to worker
struct PrefillComputed { kernels::CompletedStep step; };  // local: launch thread to worker
// wire: worker to group
struct PrefillStepDone { EpochId epoch; StepId step; std::uint32_t rank = 0; std::vector<AttemptKey> failed; };

// Decode.
struct PlaceDecode { Handover handover; };                         // local: router to balancer
struct JoinDecode { Handover handover; std::uint32_t rank = 0; };  // local: balancer to group to worker
struct DecodeLeft { std::vector<AttemptKey> keys; };               // wire: group to balancer: places are free again
struct DecodeStep { EpochId epoch; StepId step; std::vector<AttemptKey> rows; };  // local: group to worker
struct DecodeComputed { kernels::CompletedStep step; };            // local: launch thread to worker
// wire: worker to group
struct DecodeStepDone { EpochId epoch; StepId step; std::uint32_t rank = 0; std::vector<AttemptKey> ended; };

// clang-format on

// Interfaces: every message is one-way.

using GatewayActor =
    Interface<void(Rewire),
              void(Ping),
              void(Submit),          // a new answer or a later attempt of one
              void(StopStream),      // a stream is complete, or a stray batch named a dead attempt
              void(CloseRequest),    // a client left
              void(TokenBatch),      // to the shard's inbox
              void(AttemptFailed)>;  // to the shard's inbox

using RouterActor = Interface<void(Rewire),
                              void(Ping),
                              void(Tick),  // look at deadlines
                              void(Submit),
                              void(StopStream),
                              void(CloseRequest),
                              void(PrefillStarted),
                              void(PrefillDone),
                              void(DecodePlaced),
                              void(DecodeJoined),
                              void(AnswerDone),
                              void(AttemptLost),
                              void(AttemptRefused)>;

using PrefillBalancerActor =
    Interface<void(Rewire),
              void(Ping),
              void(PlacePrefill),  // queue, then to the instance with the least predicted finish
              void(ReleaseAttempt),
              void(PrefillLoad)>;

using PrefillGroupActor =
    Interface<void(Rewire),
              void(Ping),
              void(Tick),  // backstop for a memory release that was told to a predecessor
              void(PlacePrefill),
              void(ReleaseAttempt),
              void(KvReleased),
              void(PrefillStepDone)>;

using PrefillWorkerActor = Interface<void(Rewire),
                                     void(Ping),
                                     void(ReleaseAttempt),
                                     void(PrefillStep),
                                     void(PrefillComputed)>;

using DecodeBalancerActor =
    Interface<void(Rewire), void(Ping), void(PlaceDecode), void(ReleaseAttempt), void(DecodeLeft)>;

using DecodeGroupActor = Interface<void(Rewire),
                                   void(Ping),
                                   void(JoinDecode),
                                   void(ReleaseAttempt),
                                   void(DecodeStepDone)>;

using DecodeWorkerActor = Interface<void(Rewire),
                                    void(Ping),
                                    void(JoinDecode),
                                    void(ReleaseAttempt),
                                    void(DecodeStep),
                                    void(DecodeComputed)>;

using SupervisorActor = Interface<void(Tick),  // ping everybody, judge, publish health
                                  void(Heartbeat),
                                  void(EndPart)>;  // as if the part had died

// Who is who. Immutable; a new one is sent to everybody when a part was replaced.
struct Wiring {
  SupervisorActor supervisor;
  GatewayActor gateway;
  RouterActor router;
  std::array<PrefillBalancerActor, kPrefillClasses> prefill_balancers;
  PrefillGroupActor prefill_group;
  std::vector<PrefillWorkerActor> prefill_workers;  // one per rank
  DecodeBalancerActor decode_balancer;
  DecodeGroupActor decode_group;
  std::vector<DecodeWorkerActor> decode_workers;  // one per rank
};

}  // namespace shoal

// None of these goes through CAF's own serialisation: what leaves the process is encoded by
// actors/wire.h.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Rewire)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Ping)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Heartbeat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::EndPart)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::StopStream)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::CloseRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::TokenBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillStarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodePlaced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeJoined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AnswerDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptRefused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ReleaseAttempt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PlacePrefill)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillLoad)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvReleased)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillComputed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillStepDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PlaceDecode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::JoinDecode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeLeft)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeComputed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeStepDone)
