// What both sides of the supervisor share: keeping the node's parts alive (supervisor.cpp), and the
// node's life in its cluster (supervisor_cluster.cpp). For these two files only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "actors/context.h"
#include "actors/interfaces.h"
#include "actors/policy/health.h"
#include "actors/supervisor.h"

namespace shoal {

// The worst part speaks for the node; busy parts make a busy node.
int severity(PartState state);

struct Supervisor {
  static inline const char* name = "supervisor";

  struct Watched {
    bool present = false;
    PartPulse pulse;
    std::uint64_t progress = 0;
    bool lost = false;
  };

  ContextPtr node;
  SupervisorActor me;
  Blueprint blueprint;
  Wiring wiring;
  std::vector<Watched> watched;
  Monitors<std::uint32_t> monitors;
  EpBalancerActor ep_balancer;  // null: there are no experts to balance
  std::deque<Instant> restarts;
  bool gave_up = false;

  // The cluster.
  std::vector<PeerActor> peers;      // by NodeId; null: this node
  std::vector<std::uint64_t> links;  // by NodeId: the session whose parts are wired in
  MembershipActor owner;             // local, or a proxy while its node is linked
  ViewPtr view = std::make_shared<const View>();
  bool joined = false;                  // the newest view has this life of the node
  std::vector<bool> left;               // by NodeId: ended as it was told to, and is not back
  std::vector<std::uint64_t> informed;  // by NodeId: the session in which it heard of the drain
  OpenCount uninformed;

  ~Supervisor() {
    end_pipeline();
    end_actor(here().gateway);
    for (const PeerActor& peer : peers) {
      end_actor(peer);
    }
    end_actor(wiring.membership);
    end_actor(wiring.autoscaler);
    end_actor(ep_balancer);
  }

  // supervisor.cpp
  void start();
  void tick();
  void heartbeat(const Heartbeat& message);
  void end_part(const EndPart& message);
  void lose(std::uint32_t lost, const std::string& reason);

  template <class Visit>
  void for_each_pipeline_part(Visit visit) const;
  void start_ep_balancer();
  void build_pipeline();
  void end_pipeline();
  void rebuild(const std::string& because_of);
  void replace_worker(std::uint32_t lost);
  void tell_wiring();
  bool within_budget();
  void stop_serving();
  void reset_pulse(std::uint32_t part);
  void judge(Instant now);

  // supervisor_cluster.cpp
  void see(const ViewPublished& message);
  void accept(const LinkAccepted& message) const;
  void peer_linked(const PeerLinked& message);
  void peer_up(const PeerUp& message);
  void peer_down(const PeerDown& message);
  void drain();
  void peer_drains(const PeerDrains& message);
  void drain_known(const DrainKnown& message);

  void start_cluster();
  bool needs_link(NodeId remote) const;
  void start_peer(NodeId remote);
  void start_membership();
  void start_autoscaler();
  void begin_life();
  void beat() const;
  bool is_given_up() const;
  void set_transport_peers() const;
  void drop_node(NodeId remote);
  void reset_links(const std::string& reason) const;
  void count_uninformed();
  bool is_up(NodeId id) const;
  bool has_left(NodeId id) const;
  NodeRoles reached_at(NodeId id) const;
  PartHealth judge_node(NodeId id) const;
  void judge_nodes(NodeHealth& health) const;

  NodeParts& here() { return wiring.nodes[wiring.self.value]; }
};

}  // namespace shoal
