// A trace as workload: which request is sent when, and prompts that share what they shared.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schemas/ids.h"
#include "schemas/units.h"
#include "tests/sim/trace_file.h"

namespace shoal::sim {

class Trace {
 public:
  // Arrivals and pauses are `rate` times shorter than in the file.
  Trace(std::vector<TraceRequest> requests, double rate);

  std::size_t size() const { return requests_.size(); }

  struct Coming {
    std::size_t request = 0;
    Nanos after{0};
  };

  // From the first request on: all but those that wait for the end of an earlier turn.
  std::vector<Coming> arrivals() const;
  // The turn that waited for the end of `request`, which is `now` after the first request: after
  // its pause; where that is unknown, not before its arrival.
  std::optional<Coming> next_turn(std::size_t request, Nanos now) const;
  // Of the arrivals in the file, first to last.
  Nanos span() const;
  // Until the last request comes, when each one takes at most `answer`.
  Nanos longest(Nanos answer) const;

  // Equal block ids give equal tokens.
  std::vector<TokenId> prompt(std::size_t request) const;

  std::int64_t prompt_tokens(std::size_t request) const { return requests_[request].input_tokens; }

  // At least one: a request without an answer in the file failed there.
  std::int64_t answer_tokens(std::size_t request) const;

 private:
  Nanos scaled(std::int64_t ms) const;
  Nanos arrival(std::size_t request) const;

  std::vector<TraceRequest> requests_;
  double rate_;
  std::vector<std::optional<std::size_t>> earlier_;  // turn of the same session
  std::vector<std::optional<std::size_t>> later_;
};

}  // namespace shoal::sim
