// An exchange that notes what it is sent, and serves nothing; what comes of it, the derived one
// says.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/expert_exchange.h"

namespace shoal {

class NotingExchange : public transport::ExpertExchange {
 public:
  void dispatch(Dispatch dispatch, Combined done) override {
    dispatches.push_back(std::move(dispatch));
    answer(dispatches.back(), std::move(done));
  }

  void abort_before(EpochId) override {}

  void lose(NodeId) override {}

  void serve(std::uint32_t, transport::Scheduler, transport::ExpertWork) override {}

  void end(std::uint32_t) override {}

  void stop() override {}

  Use use() const override { return {}; }

  std::vector<Dispatch> dispatches;

 private:
  virtual void answer(const Dispatch& dispatch, Combined done) = 0;
};

}  // namespace shoal
