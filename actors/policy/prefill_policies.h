// Ways to choose the instance of a prefill, beside each other: the one that is shipped first, then
// what others do. An object per chooser: its turn or its draws are in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "actors/policy/prefill_balancer.h"

namespace shoal {

class PrefillPolicy {
 public:
  virtual ~PrefillPolicy() = default;
  // Nothing: no instance that is up, can hold the request and is below the limit of waiting ones.
  virtual std::optional<PrefillChoice> pick(std::span<const PrefillInstance> instances,
                                            const PrefillNeed& need) = 0;
};

struct PrefillPolicyRow {
  std::string_view name;
  std::string_view what;
  bool binds_ranks;  // it names a rank, too: for groups that see only a queue a rank
  std::unique_ptr<PrefillPolicy> (*make)(std::uint64_t seed);
};

std::span<const PrefillPolicyRow> prefill_policies();
// None of that name: nullptr.
const PrefillPolicyRow* find_prefill_policy(std::string_view name);

}  // namespace shoal
