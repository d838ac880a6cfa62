// A shard is asked once for each epoch, and again after it said that it has less.
#include "actors/expert_rollout.h"

#include <algorithm>
#include <utility>

namespace shoal {

ExpertRollout::ExpertRollout(std::size_t ranks, ExpertMapPtr first)
    : ranks_(ranks),
      front_(std::move(first)) {}

void ExpertRollout::told(std::size_t rank, const Told& said) {
  Rank& of = ranks_.at(rank);
  of.can_be_asked = true;
  of.served = said.served == nullptr ? EpochId{} : said.served->epoch;
  if (said.refusal) {
    of.refusal = said.refusal->message;
    if (next_ != nullptr && next_->epoch == said.held) {
      next_ = nullptr;
    }
  } else {
    of.refusal.clear();
    of.held = std::max(said.held, of.served);
    of.asked_to_serve = of.served;
    of.asked_to_hold = of.held;
  }
  if (of.served > front_->epoch) {
    front_ = said.served;
    if (next_ != nullptr && next_->epoch <= front_->epoch) {
      next_ = nullptr;
    }
  }
  go_on();
}

void ExpertRollout::lost(std::size_t rank) {
  ranks_.at(rank) = Rank{};
}

void ExpertRollout::doubt() {
  Rank doubted;
  doubted.can_be_asked = true;
  std::ranges::fill(ranks_, doubted);
  go_on();
}

void ExpertRollout::place(std::vector<ExpertLayer> layers) {
  EpochId newest = std::max(front_->epoch, next_ == nullptr ? EpochId{} : next_->epoch);
  for (const Rank& rank : ranks_) {
    newest = std::max(newest, rank.held);
  }
  next_ = std::make_shared<const ExpertPlacementMap>(
      ExpertPlacementMap{EpochId{newest.value + 1}, std::move(layers)});
  go_on();
}

void ExpertRollout::go_on() {
  const bool all_hold_next = next_ != nullptr && std::ranges::all_of(ranks_, [this](const Rank& r) {
                               return r.served >= front_->epoch && r.held >= next_->epoch;
                             });
  if (all_hold_next) {
    front_ = std::exchange(next_, nullptr);
  }
  if (std::ranges::all_of(ranks_, [this](const Rank& r) { return r.served == front_->epoch; })) {
    in_force_ = front_;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ask(rank);
  }
}

void ExpertRollout::ask(std::size_t rank) {
  Rank& of = ranks_[rank];
  if (!of.can_be_asked) {
    return;
  }
  if (of.served < front_->epoch) {
    if (of.asked_to_serve < front_->epoch) {
      of.asked_to_serve = front_->epoch;
      orders_.push_back({rank, front_, true});
    }
  } else if (next_ != nullptr && of.asked_to_hold < next_->epoch) {
    of.asked_to_hold = next_->epoch;
    orders_.push_back({rank, next_, false});
  }
}

std::vector<ExpertRollout::Order> ExpertRollout::take_orders() {
  return std::exchange(orders_, {});
}

std::vector<bool> ExpertRollout::away() const {
  std::vector<bool> away(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    away[rank] = in_force_ == nullptr || ranks_[rank].served < in_force_->epoch;
  }
  return away;
}

std::string ExpertRollout::refusals() const {
  for (const Rank& rank : ranks_) {
    if (!rank.refusal.empty()) {
      return rank.refusal;
    }
  }
  return {};
}

}  // namespace shoal
