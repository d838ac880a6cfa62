// The row `sim`: a record in memory that several stores of one process share. A scheduler decides
// when anything happens and a hook what becomes of every call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "transport/cluster_store.h"
#include "transport/scheduler.h"

namespace shoal::transport {

enum class StoreFate : std::uint8_t {
  kAnswer,
  kUnavailable,  // refused, nothing is written
  kLostCall,     // never arrives: the call ends by its deadline, nothing is written
  kLostAnswer,   // a write is done, and nobody hears of it
};

struct StoreVerdict {
  Nanos there{0};
  Nanos back{0};
  StoreFate fate = StoreFate::kAnswer;
};

// What all stores of one cluster see.
class SimRecord {
 public:
  ClusterRecord read() const;
  std::optional<std::uint64_t> compare_and_swap(std::uint64_t expected, std::string bytes);

 private:
  mutable std::mutex mutex_;
  ClusterRecord record_;
};

struct SimStoreParts {
  std::shared_ptr<SimRecord> record;
  Scheduler scheduler;
  std::function<StoreVerdict(bool is_write)> verdict;  // none: answered at once
};

std::unique_ptr<ClusterStore> make_sim_store(SimStoreParts parts);

}  // namespace shoal::transport
