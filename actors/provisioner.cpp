// The row that has no machines to give.
#include "actors/provisioner.h"

#include <algorithm>

#include "actors/log.h"

namespace shoal {
namespace {

// Logs what it would ask for, once a change, so that people can do it or check the decisions.
class NoProvisioner final : public Provisioner {
 public:
  explicit NoProvisioner(const EventLog& log) : log_(log) {}

  Result<void> request(std::span<const RoleCount> counts) override {
    for (const RoleCount& count : counts) {
      const auto known = std::find_if(known_.begin(), known_.end(), [&count](const RoleCount& k) {
        return k.role == count.role;
      });
      if (known != known_.end() && known->units == count.units) {
        continue;
      }
      log_.event(LogLevel::kInfo,
                 "provision.wanted",
                 {{"role", count.role},
                  {"units", count.units},
                  {"before", known == known_.end() ? 0 : known->units}});
      if (known == known_.end()) {
        known_.push_back(count);
      } else {
        known->units = count.units;
      }
    }
    return {};
  }

 private:
  const EventLog& log_;
  std::vector<RoleCount> known_;  // a handful
};

constexpr ProvisionerRow kRows[] = {
    {"none",
     "logs what it would ask for",
     [](const EventLog& log) -> std::unique_ptr<Provisioner> {
       return std::make_unique<NoProvisioner>(log);
     }},
};

}  // namespace

std::span<const ProvisionerRow> provisioner_rows() {
  return kRows;
}

}  // namespace shoal
