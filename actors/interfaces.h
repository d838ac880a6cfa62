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
#include "actors/kv_names.h"
#include "actors/kv_reason.h"
#include "actors/link.h"
#include "actors/policy/answer_end.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/kv_reuse.h"
#include "actors/policy/membership.h"
#include "actors/policy/prefill_balancer.h"
#include "actors/policy/prefill_rows.h"
#include "actors/policy/prefill_schedule.h"
#include "actors/policy/service_demand.h"
#include "actors/policy/session_tails.h"
#include "actors/policy/verify_temperature.h"
#include "actors/timeline.h"
#include "kernels/expert_engine.h"
#include "kernels/launch_queue.h"
#include "schemas/basis.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/block_store.h"
#include "transport/cluster_store.h"

namespace shoal {

struct Wiring;
using WiringPtr = std::shared_ptr<const Wiring>;
using ViewPtr = std::shared_ptr<const View>;
using SubmissionPtr = std::shared_ptr<const Submission>;
struct ExpertOrder;
struct ExpertPlacementMap;
struct ExpertReport;
using ExpertMapPtr = std::shared_ptr<const ExpertPlacementMap>;

// One try of one answer: what every message about work names, and what fences it.
struct AttemptKey {
  RequestId request;
  AttemptId attempt;

  friend auto operator<=>(const AttemptKey&, const AttemptKey&) = default;
};

// A node as somebody saw it: another session means that whatever was there is lost.
struct SiteRef {
  NodeId node;
  std::uint64_t session = 0;

  friend bool operator==(const SiteRef&, const SiteRef&) = default;
};

// An attempt with everything decided once, at its placement.
struct Placement {
  SubmissionPtr submission;  // in another process than the prefill: without the prompt's tokens
  NodeId router;             // whose ledger owns the attempt
  Basis basis;
  PrefillSpan span;
  AnswerRules rules;
  int length_class = 0;
  Nanos work{0};
  std::int64_t blocks = 0;          // worst case
  KvNamesPtr kv;                    // null: none of its blocks is stored or loaded
  std::uint64_t lineage = 0;        // of the blocks that are loaded
  std::optional<TailPlace> tail{};  // that it goes on from
  Position cached = 0;              // prompt tokens that are not computed

  bool loads() const { return span.reuse.hit > 0 || tail; }

  AttemptKey key() const { return {submission->request, submission->attempt}; }
};

using PlacementPtr = std::shared_ptr<const Placement>;
using KvImage = std::shared_ptr<const std::vector<std::byte>>;

// A sequence between prefill and decode: a descriptor, never the KV itself. Either its KV is on a
// device of this process, and the sequence stays there, or it waits in a buffer to be fetched.
struct Handover {
  PlacementPtr placement;
  KvLeasePtr kv;           // null: fetch `buffer` from `node`, see transport/transport.h
  NodeId node;             // where the KV is
  std::uint32_t rank = 0;  // likewise, when `kv` is set
  BufferKey buffer;
  Position position = 0;  // of `token`, which is sent to the client but not computed yet
  TokenId token = 0;
  std::int64_t answered = 0;  // tokens of the answer so far, `token` included
  KvChain chain{};            // up to `position`, if its blocks are stored
  TokenTallyPtr seen{};       // `token` included; in another process it comes with the buffer

  AttemptKey key() const { return placement->key(); }
};

// What a rank's decode step came to.
struct StepTally {
  StepWork work;                        // of answers, one row each, whether they had drafts or not
  std::int64_t rows = 0;                // those of drafts included
  std::int64_t drawn = 0;               // tokens that stay
  std::int64_t drafted = 0;             // answers for which drafts were made
  std::vector<DraftedRequest> made;     // of those, as the head says
  std::vector<VerifyOutcome> outcomes;  // of drafts that were made behind the step before
};

// clang-format off

// All parts.
struct Rewire { WiringPtr wiring; };  // local: supervisor, at start and whenever a part was replaced
struct Ping {};                       // wire: supervisor; answered by Heartbeat
struct Tick {};                       // local: an actor to itself
struct EndPart { std::string part; };  // wire: an operator's drill or a test, to the supervisor
struct DrainNode {};  // local: to the supervisor: the process ends when its work is over
// wire: every part to the supervisor
struct Heartbeat { std::uint32_t part = 0; std::uint64_t progress = 0; bool has_work = false; std::string trouble{}; };

// The cluster.
// wire: a node's supervisor to the membership's owner, every heartbeat; the first one asks to join
struct NodeBeat { NodeId node; IncarnationId incarnation; EpochId epoch; ServiceDemand demand{}; };
struct ViewPublished { ViewPtr view; };  // wire: membership to every supervisor it can reach
struct RecordRead { Result<transport::ClusterRecord> record; };        // local: store to membership
struct RecordWritten { ViewPtr view; Result<std::optional<std::uint64_t>> version; };
struct NodeUnlinked { NodeId node; bool left = false; };
struct LinkUp { LinkPtr link; };                        // local: link port to peer
struct LinkAccepted { NodeId from; LinkPtr link; };  // local: link port to supervisor to peer
struct DialFailed { Error error; };
struct LinkBytes { std::uint64_t link = 0; std::string bytes; };
struct LinkLost { std::uint64_t link = 0; Error error; };
struct PeerView { ViewPtr view; };      // local: supervisor to peer, who is in
struct ResetLink { std::string reason; };  // local: supervisor to peer, all it held for others is lost
// local: proxy to peer, for the session it was made for
struct Outgoing { std::uint64_t link = 0; std::uint32_t role = 0; std::uint32_t instance = 0; std::uint32_t kind = 0; std::string body; };

// Streams: front door to gateway to router, and back.
struct Submit { SubmissionPtr submission; };              // wire: covered by the attempt
struct StopStream { AttemptKey key; Position end = 0; };  // wire: sent again with the next stray batch
// wire: covered by the deadline; `tokens` of the answer had been delivered
struct CloseRequest { RequestId request; std::int64_t tokens = 0; };
// wire: workers to gateway, one per shard and step; covered by the attempt
struct TokenBatch { std::uint32_t shard = 0; std::vector<TokenRun> runs; };
// wire: router to gateway; covered by the deadline
struct AttemptFailed { std::uint32_t shard = 0; StreamFailure failure; };

// wire: router to a gateway of another node, for the story of the request; a lost one is missing there
struct RequestNoted { RequestId request; std::string tenant; std::uint32_t choice = 0; TimelineEntry entry; };

// The ledger: what parts tell the router.
// local: prefill balancer; `first_token`: predicted, from now, 0 where the policy predicts nothing
struct PrefillPlaced { AttemptKey key; SiteRef site; Nanos first_token{0}; };
struct PrefillStarted { AttemptKey key; std::uint32_t rank = 0; };  // wire: prefill group
struct PrefillDone { Handover handover; };                          // wire: prefill worker
// local: decode balancer; `step`: how long the rank's steps are predicted to take with it
struct DecodePlaced { AttemptKey key; SiteRef site; Nanos step{0}; };
// local: decode balancer, which asked for a move: what it brings, of a step, and costs
struct DecodeMoving { AttemptKey key; NodeId to; Nanos gain{0}; Nanos cost{0}; };
// wire: decode worker to router and (local) to its group: out of the batch, its KV on offer for another rank
struct DecodeYielded { Handover handover; };
struct DecodeJoined { AttemptKey key; NodeId node; std::uint32_t rank = 0; };  // wire: decode worker
// wire: any part; the stream tries again. `decode`: the node that did not get to the KV, which may
// still be on offer for another one.
struct AttemptLost { AttemptKey key; Error error; std::optional<NodeId> decode{}; };
// wire: a worker
struct AnswerDone { AttemptKey key; Finish finish = Finish::kNone; std::int64_t tokens = 0; };
// local: balancers; `why`: a word and its figures, for the timeline
struct AttemptRefused { AttemptKey key; Error error; std::optional<Nanos> retry_after; TimelineFields why{}; };
// wire: router down a path: everything held for the attempt is freed. `failed` (local: router to
// balancer): the node that had it could not go on with it
struct ReleaseAttempt { AttemptKey key; bool failed = false; };

// The KV store: between the parts of a node and its kv client. All local.
struct LookUpKv { SubmissionPtr submission; };                          // router
// `why`, and that so many leading tokens are stored, stay with the router
struct KvFound { AttemptKey key; KvNamesPtr names; KvReuse reuse; Basis basis; std::uint64_t lineage = 0; std::optional<TailPlace> tail{}; KvReason why = KvReason::kNoStore; Position stored = 0; };
struct KvClosed { AttemptKey key; };                                    // router: its leases end
struct LoadKv { PlacementPtr placement; };                              // prefill group
// router, whatever node it was on: its blocks were read as far as `sound`
struct KvLoadFailed { PlacementPtr placement; Position sound = 0; Code code = Code::kInternal; };
struct KvBytes { std::vector<kernels::BlockBytes> blocks; kernels::BlockBytes tail; };
// What a placement goes on behind in the place of its hit: `cause` says why, blocks were read as far as `sound`.
// wire: prefill group to router, before PrefillStarted; as the placement, covered by the attempt
struct KvShortened { KvFound found; Position sound = 0; Error cause{}; };
struct KvLoaded { AttemptKey key; KvBytes bytes; std::optional<KvShortened> instead{}; };
struct StoreKv { std::vector<SavedBlock> blocks; };                     // workers; a lost one is a later miss
struct KvRead { AttemptKey key; std::vector<transport::Loaded> blocks; };  // the store
struct StoreTail { SessionTail tail; kernels::BlockBytes bytes; };      // workers
struct TailRead { AttemptKey key; Result<kernels::BlockBytes> bytes; };   // the transport
// wire: kv client to the routers of all nodes, and from them to theirs
struct TailKept { SessionTail tail; TailPlace place; Nanos life{0}; };
struct KvNews {};  // wire: likewise: blocks became durable that their stores may not have seen; a lost one is seen later
struct KvStored { std::int64_t stored = 0; std::int64_t refused = 0; Error error; };            // the store
struct KvHedge { AttemptKey key; };                                        // itself, later: is that load still waiting?

// Prefill.
struct PlacePrefill { PlacementPtr placement; };  // wire: router to balancer to group
struct KvReleased {};                             // local: a lease to the group that took it
// wire: group to balancers, after every change; `received` counts placements of the receiver's router,
// `blocks` is the whole KV memory of a rank
struct PrefillLoad { NodeId node; PrefillBacklog backlog; std::array<std::uint64_t, kPrefillClasses> received{}; std::int64_t blocks = 0; CostReport cost{}; };
struct PrefillOrder { PlacementPtr placement; KvLeasePtr kv; Position done = 0; std::int64_t rows = 0; bool stays = true; KvBytes loads{}; };
struct PrefillStep { EpochId epoch; StepId step; std::vector<PrefillOrder> orders; };  // local: group to worker
struct PrefillComputed { kernels::CompletedStep step; };  // local: launch thread to worker
// local: launch thread to a worker of prefill or decode, the KV of a sequence that goes to another process
struct KvExported { Handover handover; Result<std::vector<std::byte>> image; };
// wire: worker to group, with what the step did and how long the device took
struct PrefillStepDone { EpochId epoch; StepId step; std::uint32_t rank = 0; std::vector<AttemptKey> failed; StepWork work{}; Nanos compute{0}; };

// Decode.
struct PlaceDecode { Handover handover; };                         // local: router to balancer
struct JoinDecode { Handover handover; std::uint32_t rank = 0; EpochId epoch; };  // wire: balancer to group to worker
struct DecodeLeft { std::vector<AttemptKey> keys; };               // wire: group to balancer: places are free again
struct DecodeRefused { AttemptKey key; NodeId node; };             // wire: group to balancer: no KV memory there now
// wire: group to balancers, after every change; `others` were placed by other routers, `blocks` is
// the whole KV memory
struct DecodeRankLoad { std::int64_t others = 0; std::int64_t others_tokens = 0; KvRoom room; std::int64_t blocks = 0; };
// `steps`: tokens that an answer of it got since the start, in the mean
struct DecodeLoad { NodeId node; std::vector<DecodeRankLoad> ranks; std::uint64_t received = 0; CostReport cost{}; std::uint64_t steps = 0; };
struct MoveDecode { AttemptKey key; };  // wire: balancer to group to worker: out of the batch, to another rank
struct DecodeKept { AttemptKey key; NodeId node; };  // wire: worker or group to balancer: it stays where it is
// wire: router to group to worker: what it yielded is on another rank, or is wanted no more
struct ReleaseHandover { AttemptKey key; std::uint32_t rank = 0; BufferKey buffer; };
// local: transport and launch thread to worker; `arrival` tells the tries of one attempt apart
struct KvFetched { AttemptKey key; std::uint64_t arrival = 0; Result<KvImage> image; };
struct KvImported { AttemptKey key; std::uint64_t arrival = 0; Result<void> outcome; };
struct DecodeReady { EpochId epoch; std::uint32_t rank = 0; AttemptKey key; };  // local: worker to group
// local: group to worker. `verifies`: at most so many drafts of each; the rank's `fill` says of whom
struct DecodeStep { EpochId epoch; StepId step; std::vector<AttemptKey> rows; bool feeds_drafts = true; bool drafts = false; int verifies = 0; std::shared_ptr<const kernels::DraftFill> fill{}; };
struct DecodeComputed { kernels::CompletedStep step; };            // local: launch thread to worker
// local: worker to group
struct DecodeStepDone { EpochId epoch; StepId step; std::uint32_t rank = 0; std::vector<AttemptKey> ended; StepTally tally{}; Nanos compute{0}; };

// Experts in other processes; the first two are told again when a link, a shard or a source is a new one, and asked for again where nothing comes.
// wire: the source of a node to a shard: to hold that placement beside the one it serves, or to serve it, too; one of epoch 0 asks for what it serves
struct HoldExperts { ExpertMapPtr map; bool serves = false; NodeId source{}; };
// wire: a shard to all sources, after every change: epochs that it holds and serves, and serves beside that, 0: none; `map`: of what it
// serves, for a source that asked by an older one; why it does not hold `held`
struct ExpertsHeld { NodeId node; std::uint32_t shard = 0; EpochId held; EpochId served; EpochId before; kernels::ExpertEngineUse use{}; ExpertMapPtr map{}; std::optional<Error> refusal{}; };
struct ExpertsLoaded { std::uint64_t load = 0; Result<void> outcome; };  // local: background to shard
// local: any thread to the source or the balancer: there is something to ask
struct ExpertsDue {};
// wire: the cluster's balancer to sources, again and again: how they are, what they were given since; `known`: the newest placement it has
struct CountExperts { EpochId known; bool counts = false; };
struct ExpertLoads { std::shared_ptr<const ExpertReport> report; };  // wire: the answer; a lost one makes a window poorer
struct PlaceExperts { std::shared_ptr<const ExpertOrder> order; };   // wire: balancer to one source; a lost one is planned anew
// wire: balancer to shards, again and again: all sources use that placement, and no other is wanted
struct KeepExperts { EpochId epoch; };

// clang-format on

// Carry handles, so they follow the interfaces.
struct NodeLinked;
struct PeerLinked;
struct PeerUp;
struct PeerDown;
struct PeerDrains;
struct DrainKnown;

// Interfaces: every message is one-way.

using GatewayActor =
    Interface<void(Rewire),
              void(Ping),
              void(Submit),         // a new answer or a later attempt of one
              void(StopStream),     // a stream is complete, or a stray batch named a dead attempt
              void(CloseRequest),   // a client left
              void(TokenBatch),     // to the shard's inbox
              void(AttemptFailed),  // to the shard's inbox
              void(RequestNoted)>;  // to the node's timelines

using RouterActor = Interface<void(Rewire),
                              void(Ping),
                              void(Tick),  // look at deadlines
                              void(Submit),
                              void(StopStream),
                              void(CloseRequest),
                              void(KvFound),
                              void(KvShortened),
                              void(TailKept),
                              void(KvNews),
                              void(PrefillPlaced),
                              void(PrefillStarted),
                              void(PrefillDone),
                              void(DecodePlaced),
                              void(DecodeJoined),
                              void(DecodeMoving),
                              void(DecodeYielded),
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
              void(KvLoaded),
              void(KvReleased),
              void(PrefillStepDone)>;

using PrefillWorkerActor = Interface<void(Rewire),
                                     void(Ping),
                                     void(Tick),  // look at what waits to be fetched
                                     void(ReleaseAttempt),
                                     void(PrefillStep),
                                     void(PrefillComputed),
                                     void(KvExported)>;

using DecodeBalancerActor = Interface<void(Rewire),
                                      void(Ping),
                                      void(PlaceDecode),
                                      void(ReleaseAttempt),
                                      void(DecodeLeft),
                                      void(DecodeRefused),
                                      void(DecodeKept),
                                      void(DecodeLoad)>;

using DecodeGroupActor = Interface<void(Rewire),
                                   void(Ping),
                                   void(Tick),  // tell free memory that came back
                                   void(JoinDecode),
                                   void(ReleaseAttempt),
                                   void(MoveDecode),
                                   void(DecodeYielded),
                                   void(ReleaseHandover),
                                   void(DecodeReady),
                                   void(DecodeStepDone)>;

using DecodeWorkerActor = Interface<void(Rewire),
                                    void(Ping),
                                    void(Tick),  // look at what waits to be fetched
                                    void(JoinDecode),
                                    void(ReleaseAttempt),
                                    void(MoveDecode),
                                    void(KvExported),
                                    void(ReleaseHandover),
                                    void(KvFetched),
                                    void(KvImported),
                                    void(DecodeStep),
                                    void(DecodeComputed)>;

// One per node that has a KV store.
using KvClientActor =
    Interface<void(Rewire),
              void(Ping),
              void(LookUpKv),  // answered by KvFound
              void(KvClosed),
              void(LoadKv),  // answered by KvLoaded
              void(KvLoadFailed),
              void(KvRead),
              void(KvStored),
              void(TailRead),
              void(StoreTail),
              void(TailKept),
              void(KvNews),
              void(Tick),  // what was kept long enough goes, and what is new is told
              void(KvHedge),
              void(StoreKv)>;

// One per shard of a node.
using ExpertShardActor =
    Interface<void(Rewire), void(Ping), void(HoldExperts), void(KeepExperts), void(ExpertsLoaded)>;

// One per node whose device has its experts on other nodes.
using ExpertSourceActor = Interface<void(Rewire),
                                    void(Ping),
                                    void(ExpertsHeld),
                                    void(ExpertsDue),
                                    void(CountExperts),
                                    void(PlaceExperts)>;

using SupervisorActor = Interface<void(Tick),  // ping everybody, judge, publish health
                                  void(Heartbeat),
                                  void(EndPart),        // as if the part had died
                                  void(DrainNode),      // others are to send nothing new
                                  void(ViewPublished),  // who is in; this node too?
                                  void(LinkAccepted),
                                  void(PeerLinked),
                                  void(PeerUp),
                                  void(PeerDown),
                                  void(PeerDrains),
                                  void(DrainKnown)>;

// One per other node.
using PeerActor = Interface<void(Rewire),
                            void(Tick),  // ping, redial, judge silence
                            void(PeerView),
                            void(ResetLink),
                            void(LinkUp),
                            void(DialFailed),
                            void(LinkBytes),
                            void(LinkLost),
                            void(Outgoing)>;

// One per cluster, on the owner's node.
using MembershipActor = Interface<void(Rewire),
                                  void(Tick),
                                  void(NodeBeat),
                                  void(NodeLinked),
                                  void(NodeUnlinked),
                                  void(RecordRead),
                                  void(RecordWritten)>;

// Likewise; the membership passes on to it what it hears.
using AutoscalerActor = Interface<void(Tick),  // plan
                                  void(NodeBeat),
                                  void(ViewPublished)>;

// On a node whose experts are on its shards, or, where they are on nodes of their own, one per
// cluster, on the owner's node.
using EpBalancerActor = Interface<void(Tick),  // ask, and plan at the end of a window
                                  void(Rewire),
                                  void(ExpertLoads),
                                  void(ExpertsDue)>;

// The parts of one node that others may address. Null: the node has no such part, or cannot be
// reached now. In another process each handle is a local proxy that lives as long as the session.
struct NodeParts {
  std::uint64_t session = 0;  // counts up whenever what this node held for others is lost
  std::uint64_t link = 0;     // its peer's number of the link behind the proxies
  bool draining = false;      // told to end: nothing new is for it
  GatewayActor gateway;
  RouterActor router;
  std::array<PrefillBalancerActor, kPrefillClasses> prefill_balancers;  // of the router
  DecodeBalancerActor decode_balancer;                                  // of the router
  PrefillGroupActor prefill_group;
  DecodeGroupActor decode_group;
  ExpertSourceActor expert_source;
  std::vector<ExpertShardActor> expert_shards;
  EpBalancerActor ep_balancer;  // of its own shards, or the cluster's
};

// Who is who, as one node sees it. Immutable; a new one is sent to the node's parts when anything
// was replaced, lost or found.
struct Wiring {
  NodeId self;
  SupervisorActor supervisor;
  MembershipActor membership;                       // null: another node owns it
  AutoscalerActor autoscaler;                       // likewise
  std::vector<NodeParts> nodes{1};                  // by NodeId
  std::vector<PrefillWorkerActor> prefill_workers;  // of this node, one per rank
  std::vector<DecodeWorkerActor> decode_workers;    // of this node, one per rank
  KvClientActor kv_client;                          // of this node; null: it has no KV store

  const NodeParts& here() const { return nodes[self.value]; }

  // No node of the topology has that number: as if it could not be reached.
  const NodeParts& at(NodeId node) const {
    static const NodeParts kNowhere;
    return node.value < nodes.size() ? nodes[node.value] : kNowhere;
  }

  SiteRef site(NodeId node) const { return {node, at(node).session}; }

  bool lost(const SiteRef& site) const { return at(site.node).session != site.session; }
};

// local: supervisor to membership
struct NodeLinked {
  NodeId node;
  SupervisorActor supervisor;
};

// local: peer to supervisor. Said hello: control may pass.
struct PeerLinked {
  NodeId node;
  std::uint64_t link = 0;
  SupervisorActor supervisor;
  MembershipActor membership;  // null: that node does not own it
};

// local: peer to supervisor. Both are in the view: work may pass.
struct PeerUp {
  NodeId node;
  std::uint64_t link = 0;
  NodeParts parts;
};

// local: peer to supervisor. `left`: it had said that it would.
struct PeerDown {
  NodeId node;
  std::uint64_t link = 0;
  std::string reason;
  bool left = false;
};

// local: peer to supervisor. The other node ends when its work is over.
struct PeerDrains {
  NodeId node;
  std::uint64_t link = 0;
};

// local: peer to supervisor. The other node knows that this one does.
struct DrainKnown {
  NodeId node;
  std::uint64_t link = 0;
};

}  // namespace shoal

// None of these goes through CAF's own serialisation: what leaves the process is encoded by
// actors/wire.h.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Rewire)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Ping)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Heartbeat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::EndPart)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DrainNode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Submit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::StopStream)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::CloseRequest)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::TokenBatch)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::RequestNoted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillStarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodePlaced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeJoined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AnswerDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::AttemptRefused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ReleaseAttempt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LookUpKv)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvFound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LoadKv)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvLoaded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvShortened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvLoadFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::StoreKv)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvRead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvHedge)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvStored)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvClosed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::StoreTail)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::TailRead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::TailKept)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvNews)
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
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PrefillPlaced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvExported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeRefused)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeLoad)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeMoving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeYielded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::MoveDecode)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeKept)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ReleaseHandover)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvFetched)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KvImported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DecodeReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::HoldExperts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ExpertsHeld)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ExpertsLoaded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ExpertsDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::CountExperts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ExpertLoads)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PlaceExperts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::KeepExperts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::NodeBeat)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ViewPublished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::RecordRead)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::RecordWritten)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::NodeLinked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::NodeUnlinked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LinkUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DialFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LinkBytes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LinkLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PeerView)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::ResetLink)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::Outgoing)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PeerLinked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PeerUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PeerDown)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::PeerDrains)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::DrainKnown)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(shoal::LinkAccepted)
