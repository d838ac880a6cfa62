// The port through which a cluster gets and returns machines. The autoscaler says how many units of
// each role there should be; a row makes it so, or only tells people. Calls come from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/result.h"

namespace shoal {

class EventLog;

// Units are whole: a machine, or the machines of a group that only works complete.
struct RoleCount {
  std::string role;  // prefill, decode, vision
  std::int64_t units = 0;
};

class Provisioner {
 public:
  virtual ~Provisioner() = default;

  // How many units each role should have, from now on; always all roles, so that a lost call is
  // made good by the next. Returns before machines have come or gone. kUnavailable: ask again.
  virtual Result<void> request(std::span<const RoleCount> counts) = 0;
};

struct ProvisionerRow {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<Provisioner> (*make)(const EventLog& log);  // which outlives it
};

// `none` first: nothing changes unless somebody asks for it.
std::span<const ProvisionerRow> provisioner_rows();

}  // namespace shoal
