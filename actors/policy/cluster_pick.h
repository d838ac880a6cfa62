// Which cluster takes a request, each of at most some 256 processes: the one where its first token
// would be with the client first (predicted ns: the cluster's own prediction, work that was sent
// there since, KV that must be brought, the way there and back). Clusters that are ill are taken
// only where no other can; those within a sixteenth of the first share the requests, so that
// routers with the same old report do not all choose the same one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "actors/policy/health.h"
#include "schemas/units.h"

namespace shoal {

inline constexpr int kClusterProcesses = 256;

// What is known of a cluster: its last report, and what this chooser did since.
struct ClusterState {
  std::uint32_t id = 0;  // the same at every chooser
  HealthVerdict health = HealthVerdict::kStarting;
  Nanos first_token{0};    // predicted there for a request of this class, without its own work
  Nanos sent{0};           // predicted work that was sent there since that report
  std::int64_t ranks = 0;  // that share work
  Nanos distance{0};       // one way
  Nanos fetch{0};          // until the request's KV would be there; 0: it is shared
  std::int64_t open = 0;   // requests that it has
  std::int64_t limit = 0;  // and may have
  bool avoided = false;    // it failed a moment ago
};

struct ClusterNeed {
  Nanos work{0};          // predicted
  Nanos deadline{0};      // of the first token, from now; 0: none
  std::uint64_t tie = 0;  // the request: which of equal clusters it gets
};

enum class ClusterReason : std::uint8_t {
  kFirst,    // nowhere is the first token earlier
  kShared,   // it is little later than elsewhere
  kOnlyIll,  // no healthy cluster has room
  kByRow,    // a baseline's own rule
  kNone,     // refused: there is no cluster
  kAllDown,  // refused: none answers
  kAllFull,  // refused: none that answers has room
  kTooLate,  // refused: the deadline would pass everywhere
};

struct ClusterPick {
  std::optional<std::size_t> cluster;  // none: refused
  ClusterReason reason = ClusterReason::kNone;
  Nanos first_token{0};  // predicted, of the one that was chosen or of the earliest that was not
  Nanos runner_up{0};    // of the next best; 0: there is none
  std::size_t able = 0;  // clusters to choose from
};

// With the request's own work, at the client. Never beyond 292 years, whatever is reported.
Nanos predict_first_token(const ClusterState& cluster, const ClusterNeed& need);

bool may_take(const ClusterState& cluster);
// Starting, dead: no. Degraded, or it failed a moment ago: only where no other may.
bool is_ill(const ClusterState& cluster);

class ClusterPolicy {
 public:
  virtual ~ClusterPolicy() = default;
  virtual ClusterPick pick(std::span<const ClusterState> clusters, const ClusterNeed& need) = 0;
};

struct ClusterPolicyRow {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<ClusterPolicy> (*make)(std::uint64_t seed);
};

// Ours first.
std::span<const ClusterPolicyRow> cluster_policies();
// None of that name: nullptr.
const ClusterPolicyRow* find_cluster_policy(std::string_view name);

std::string_view name_of(ClusterReason reason);

}  // namespace shoal
