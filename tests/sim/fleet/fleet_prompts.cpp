// Prompts are laid over what is known; where one branches off or ends inside a run, it is cut.
#include "tests/sim/fleet/fleet_prompts.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace shoal::sim {
namespace {

class Builder {
 public:
  explicit Builder(std::vector<PromptRun>& runs) : runs_(runs) {}

  std::uint32_t add(const TraceRequest& request) {
    std::uint32_t last = kNoRun;
    for (const BlockRun& blocks : request.blocks) {
      const std::int64_t end = blocks.first + blocks.count;
      for (std::int64_t at = blocks.first; at < end;) {
        last = known(at) ? follow(at, end) : append(at, end, last);
        at = runs_[last].first + runs_[last].count;
      }
    }
    return last;
  }

 private:
  bool known(std::int64_t id) const {
    const auto next = by_first_.upper_bound(id);
    if (next == by_first_.begin()) {
      return false;
    }
    const PromptRun& run = runs_[std::prev(next)->second];
    return id < run.first + run.count;
  }

  std::uint32_t follow(std::int64_t at, std::int64_t end) {
    cut_before(at);
    const std::uint32_t run = by_first_.find(at)->second;
    if (runs_[run].first + runs_[run].count > end) {
      cut_before(end);
      return by_first_.find(at)->second;
    }
    return run;
  }

  // What is behind the cut keeps its number, so that children and prompts that end there do, too.
  void cut_before(std::int64_t id) {
    const auto place = std::prev(by_first_.upper_bound(id));
    const std::uint32_t back = place->second;
    PromptRun front = runs_[back];
    if (front.first == id) {
      return;
    }
    front.count = id - front.first;
    place->second = static_cast<std::uint32_t>(runs_.size());
    runs_[back].first = id;
    runs_[back].count -= front.count;
    runs_[back].before += front.count;
    runs_[back].parent = place->second;
    by_first_[id] = back;
    runs_.push_back(front);
  }

  std::uint32_t append(std::int64_t at, std::int64_t end, std::uint32_t parent) {
    const auto next = by_first_.lower_bound(at);
    PromptRun run{.first = at, .count = end - at, .parent = parent};
    if (next != by_first_.end()) {
      run.count = std::min(run.count, next->first - at);
    }
    run.before = parent == kNoRun ? 0 : runs_[parent].before + runs_[parent].count;
    by_first_[at] = static_cast<std::uint32_t>(runs_.size());
    runs_.push_back(run);
    return by_first_[at];
  }

  std::vector<PromptRun>& runs_;
  std::map<std::int64_t, std::uint32_t> by_first_;
};

}  // namespace

PromptRuns::PromptRuns(std::span<const TraceRequest> trace) {
  Builder builder(runs_);
  last_.reserve(trace.size());
  for (const TraceRequest& request : trace) {
    last_.push_back(builder.add(request));
  }
}

}  // namespace shoal::sim
