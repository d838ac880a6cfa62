// How many units each role has: enough to be busy for the target share of the time with the work
// that is expected when a machine asked for now is up, and below the limit with twice the surprise
// of late. More at once, fewer when fewer would have done for a while; whole units; a unit that
// another role has to spare comes first where the hardware allows. Work is predicted ns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "schemas/units.h"

namespace shoal {

// What is remembered and looked ahead; longer times count as that.
inline constexpr std::int64_t kMostScaleBuckets = 1'440;

struct ScaleTiming {
  Nanos bucket = std::chrono::minutes(1);        // between two plans
  Nanos provisioning = std::chrono::minutes(3);  // until a unit that is asked for takes work
  Nanos hold = std::chrono::minutes(5);          // that fewer must be enough before some go
  // Demand that halves within minutes was cut off rather than satisfied, and comes back at once:
  // all units stay for so long. 0: they go like others.
  Nanos outage = std::chrono::hours(2);
};

// What makes up a role.
struct PoolShape {
  std::int64_t ranks = 8;  // of a unit, which comes and goes whole: a machine, an EP group
  int target_permille = 750;
  int limit_permille = 900;  // busier ranks miss their latency targets
  std::int64_t least = 1;    // units
  std::int64_t most = 1'024;
  std::int64_t spares = 0;
  std::uint32_t hardware = 0;  // equal: a unit may change to the other role; 0: it may not
};

struct PoolLoad {
  std::int64_t demand_ns = 0;  // work that came in a second; a busy rank does 1e9
  std::int64_t units = 0;      // that take work, or were asked for
};

enum class ScaleReason : std::uint8_t {
  kEnough,
  kGrows,
  kShrinks,
  kHeld,    // fewer would do, but not for long enough
  kAtMost,  // more are needed than the role may have
};

struct ScaleDecision {
  std::int64_t units = 0;  // to have
  ScaleReason reason = ScaleReason::kEnough;
  std::int64_t expected_ns = 0;  // work a second when a unit asked for now is up
  int margin_permille = 0;       // by which more may come, as recent surprises were
};

// Units that change role; the decisions count them in already.
struct RoleFlip {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t units = 0;
};

struct ScalePlan {
  std::vector<ScaleDecision> pools;
  std::vector<RoleFlip> flips;
};

// One a cluster; keeps what it saw.
class Autoscaler {
 public:
  virtual ~Autoscaler() = default;

  // Once a bucket, with as many loads as there are shapes.
  virtual ScalePlan plan(std::span<const PoolLoad> loads) = 0;
};

struct AutoscaleRow {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<Autoscaler> (*make)(const ScaleTiming& timing, std::span<const PoolShape> shapes);
};

// The shipped one first.
std::span<const AutoscaleRow> autoscale_policies();

// Fewest units of `shape` that are busy for `permille` of the time at most; within its bounds.
std::int64_t units_for(double demand_ns, int permille, const PoolShape& shape);

}  // namespace shoal
