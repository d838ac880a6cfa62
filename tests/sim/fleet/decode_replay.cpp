// Steps until the time is over: answers end, others come, some move, the slowest rank sets the
// pace.
#include "tests/sim/fleet/decode_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "actors/policy/draw.h"
#include "schemas/check.h"

namespace shoal::sim {

namespace {

// Accepted tokens of one answer in one step, in tenths, so that sums are exact.
constexpr std::int64_t kTenthsAStep = 32;
constexpr std::int64_t kTenths = 10;

std::int64_t steps_of(const DecodeLength& length) {
  const std::int64_t tenths = length.output * kTenths;
  return std::max<std::int64_t>(1, (tenths + kTenthsAStep - 1) / kTenthsAStep);
}

double exponential(Draw& draw, double mean) {
  return -mean * std::log1p(-draw.unit());
}

// What the group looks like when all ranks are equal.
struct Balance {
  double mean_steps = 0;  // of an answer
  double gap_ns = 0;      // between arrivals
};

Balance balance_of(std::span<const DecodeLength> lengths, const DecodeFleet& fleet) {
  double steps = 0;
  double token_steps = 0;
  for (const DecodeLength& length : lengths) {
    const auto count = static_cast<double>(steps_of(length));
    steps += count;
    token_steps +=
        count * (static_cast<double>(length.input) + static_cast<double>(length.output) / 2);
  }
  const auto held = static_cast<double>(fleet.per_rank);
  const Nanos step =
      CostModel(fleet.cost).decode_step(fleet.per_rank, std::llround(held * token_steps / steps));
  const double mean_steps = steps / static_cast<double>(lengths.size());
  return {
      mean_steps,
      mean_steps * static_cast<double>(step.count()) / (held * static_cast<double>(fleet.ranks))};
}

// Largest over mean.
struct Spread {
  std::int64_t sum = 0;
  std::int64_t most = 0;
  std::int64_t count = 0;

  void add(std::int64_t value) {
    sum += value;
    most = std::max(most, value);
    ++count;
  }

  double ratio() const {
    return sum == 0
               ? 1
               : static_cast<double>(most) * static_cast<double>(count) / static_cast<double>(sum);
  }
};

class Group {
 public:
  Group(std::span<const DecodeLength> lengths, const DecodeFleet& fleet, const DecodeRow& row)
      : lengths_(lengths),
        fleet_(fleet),
        policy_(row.make(CostModel(fleet.believed), fleet.seed)),
        moves_(row.moves ? fleet.moves_a_step : 0),
        cost_(fleet.cost),
        believed_(fleet.believed),
        draw_(fleet.seed),
        balance_(balance_of(lengths, fleet)),
        ranks_(static_cast<std::size_t>(fleet.ranks)),
        tenths_(ranks_.size()) {
    for (DecodeRank& rank : ranks_) {
      rank = {.alive = true, .room = {kPlenty, kPlenty}, .blocks = kPlenty};
    }
  }

  DecodeReplay run() {
    fill();
    next_ns_ = exponential(draw_, balance_.gap_ns);
    while (now_ < fleet_.warm_up + fleet_.measured) {
      end_answers();
      take_arrivals();
      move_answers();
      step();
    }
    return summary();
  }

 private:
  static constexpr std::int64_t kPlenty = std::numeric_limits<std::int32_t>::max();

  struct Answer {
    std::size_t rank = 0;
    std::int64_t tenths = 0;  // of KV tokens when it joined
    std::int64_t joined = 0;  // step
    std::int64_t leaves = 0;  // step
  };

  void fill();
  void end_answers();
  void take_arrivals();
  void move_answers();
  void step();
  void place(const DecodeLength& length, std::int64_t done);
  void join(const Answer& answer);
  void leave(const Answer& answer);
  void measure();
  DecodeReplay summary();

  std::int64_t tenths_of(const Answer& answer) const {
    return answer.tenths + kTenthsAStep * (step_ - answer.joined);
  }

  std::span<const DecodeLength> lengths_;
  DecodeFleet fleet_;
  std::unique_ptr<DecodePolicy> policy_;
  int moves_;
  CostModel cost_;
  CostModel believed_;
  Draw draw_;
  Balance balance_;
  std::vector<DecodeRank> ranks_;
  std::vector<std::int64_t> tenths_;  // of KV tokens, by rank
  std::vector<Answer> answers_;
  std::size_t next_length_ = 0;
  double next_ns_ = 0;
  Nanos now_{0};
  Nanos last_step_{0};
  std::int64_t step_ = 0;
  DecodeReplay sum_;
  double measured_ns_ = 0;
};

// An answer that runs now is drawn by the steps it takes in all, and is anywhere in them.
void Group::fill() {
  std::vector<std::int64_t> ends;
  std::int64_t steps = 0;
  for (const DecodeLength& length : lengths_) {
    ends.push_back(steps += steps_of(length));
  }
  for (std::int64_t i = 0; i < fleet_.ranks * fleet_.per_rank; ++i) {
    const auto at = static_cast<std::int64_t>(draw_.unit() * static_cast<double>(steps));
    const auto one =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
    place(lengths_[one], at - (ends[one] - steps_of(lengths_[one])));
  }
}

void Group::end_answers() {
  std::erase_if(answers_, [this](const Answer& answer) {
    if (answer.leaves > step_) {
      return false;
    }
    leave(answer);
    return true;
  });
}

void Group::take_arrivals() {
  while (next_ns_ <= static_cast<double>(now_.count())) {
    place(lengths_[next_length_], 0);
    next_length_ = (next_length_ + 1) % lengths_.size();
    next_ns_ += exponential(draw_, balance_.gap_ns);
  }
}

void Group::place(const DecodeLength& length, std::int64_t done) {
  const DecodeNeed need{.device = {},
                        .blocks = worst_case_blocks(length.input, length.output),
                        .tokens = length.input + done * kTenthsAStep / kTenths,
                        .tie = draw_.next()};
  const DecodePlacement placement = policy_->place(ranks_, need, kPlenty);
  CHECK(placement.choice);
  ++sum_.placed;
  answers_.push_back({.rank = placement.choice->rank,
                      .tenths = length.input * kTenths + done * kTenthsAStep,
                      .joined = step_,
                      .leaves = step_ + steps_of(length) - done});
  join(answers_.back());
}

void Group::join(const Answer& answer) {
  ++ranks_[answer.rank].live;
  tenths_[answer.rank] += tenths_of(answer);
  ranks_[answer.rank].kv_tokens = tenths_[answer.rank] / kTenths;
}

void Group::leave(const Answer& answer) {
  --ranks_[answer.rank].live;
  tenths_[answer.rank] -= tenths_of(answer);
  ranks_[answer.rank].kv_tokens = tenths_[answer.rank] / kTenths;
}

// How long an answer will be nobody knows: it is expected to take as many steps as answers do on
// average.
void Group::move_answers() {
  for (int moved = 0; moved < moves_; ++moved) {
    std::vector<DecodeAnswer> candidates;
    for (const Answer& answer : answers_) {
      candidates.push_back({.rank = answer.rank,
                            .tokens = tenths_of(answer) / kTenths,
                            .steps = static_cast<std::int64_t>(balance_.mean_steps)});
    }
    const auto move = pick_move(ranks_, candidates, believed_, kPlenty, fleet_.move);
    if (!move) {
      return;
    }
    Answer& answer = answers_[move->answer];
    leave(answer);
    answer.rank = move->to;
    answer.leaves += 1 + move->cost / std::max(last_step_, Nanos{1});
    join(answer);
    ++sum_.moves;
  }
}

void Group::step() {
  const auto time = [this](const DecodeRank& rank) { return step_of(rank, cost_); };
  const auto slowest = std::max_element(
      ranks_.begin(), ranks_.end(), [&time](const DecodeRank& a, const DecodeRank& b) {
        return time(a) < time(b);
      });
  last_step_ = time(*slowest);
  if (now_ >= fleet_.warm_up) {
    measure();
  }
  now_ += last_step_;
  ++step_;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    tenths_[r] += kTenthsAStep * ranks_[r].live;
    ranks_[r].kv_tokens = tenths_[r] / kTenths;
  }
}

void Group::measure() {
  Spread requests;
  Spread kv;
  Spread time;
  for (const DecodeRank& rank : ranks_) {
    requests.add(rank.live);
    kv.add(rank.kv_tokens);
    time.add((step_of(rank, cost_) - fleet_.cost.step).count());
  }
  const auto weight = static_cast<double>(last_step_.count());
  sum_.requests += weight * requests.ratio();
  sum_.kv += weight * kv.ratio();
  sum_.time += weight * time.ratio();
  sum_.live += weight * static_cast<double>(requests.sum) / static_cast<double>(ranks_.size());
  sum_.step_ms.add(weight / 1e6);
  measured_ns_ += weight;
}

DecodeReplay Group::summary() {
  sum_.requests /= measured_ns_;
  sum_.kv /= measured_ns_;
  sum_.time /= measured_ns_;
  sum_.live /= measured_ns_;
  return std::move(sum_);
}

}  // namespace

std::vector<DecodeLength> decode_lengths(std::span<const TraceRequest> requests,
                                         std::span<const std::int64_t> contexts,
                                         std::uint64_t seed) {
  Draw draw(seed);
  std::vector<DecodeLength> lengths;
  for (const TraceRequest& request : requests) {
    lengths.push_back(
        {contexts.empty() ? request.input_tokens : contexts[draw.below(contexts.size())],
         request.output_tokens});
  }
  for (std::size_t i = lengths.size(); i > 1; --i) {
    std::swap(lengths[i - 1], lengths[draw.below(i)]);
  }
  return lengths;
}

DecodeReplay replay_decode(std::span<const DecodeLength> lengths,
                           const DecodeFleet& fleet,
                           const DecodeRow& row) {
  CHECK(!lengths.empty() && fleet.ranks > 0 && fleet.per_rank > 0);
  return Group(lengths, fleet, row).run();
}

}  // namespace shoal::sim
