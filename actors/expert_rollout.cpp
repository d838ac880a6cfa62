// A shard is asked once for each epoch, and again after it said that it has less. One that serves a
// later placement than the source knows answers an older one with it.
#include "actors/expert_rollout.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

ExpertMapPtr no_placement() {
  static const auto kNone = std::make_shared<const ExpertPlacementMap>();
  return kNone;
}

}  // namespace

ExpertRollout::ExpertRollout(std::size_t ranks, ExpertMapPtr first, Placer placer)
    : placer_(placer),
      ranks_(ranks),
      front_(std::move(first)) {}

void ExpertRollout::told(std::size_t rank, const Told& said) {
  Rank& of = ranks_.at(rank);
  of.can_be_asked = true;
  of.served = said.served;
  of.before = said.before;
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
  if (rank == asked_rank_ && said.map == nullptr) {
    asked_for_ = {};  // or it did not know yet that it was asked
  }
  if (said.map != nullptr && said.map->epoch > front_->epoch) {
    front_ = said.map;
    if (next_ != nullptr && next_->epoch <= front_->epoch) {
      next_ = nullptr;
    }
  }
  go_on();
}

void ExpertRollout::lost(std::size_t rank) {
  ranks_.at(rank) = Rank{};
  asked_for_ = {};
}

void ExpertRollout::doubt() {
  Rank doubted;
  doubted.can_be_asked = true;
  std::ranges::fill(ranks_, doubted);
  asked_for_ = {};
  go_on();
}

void ExpertRollout::ask_again() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& of = ranks_[rank];
    if (of.can_be_asked) {
      of.asked_to_serve = of.asked_to_hold = EpochId{};
      orders_.push_back({rank, no_placement(), true});
    }
  }
  asked_for_ = {};
  go_on();
}

EpochId ExpertRollout::place(std::vector<ExpertLayer> layers) {
  EpochId newest = std::max({front_->epoch, next_ == nullptr ? EpochId{} : next_->epoch, given_});
  for (const Rank& rank : ranks_) {
    newest = std::max({newest, rank.held, rank.served});
  }
  given_ = EpochId{newest.value + 1 +
                   (placer_.place + placer_.of - (newest.value + 1) % placer_.of) % placer_.of};
  next_ = std::make_shared<const ExpertPlacementMap>(ExpertPlacementMap{given_, std::move(layers)});
  go_on();
  return given_;
}

void ExpertRollout::give_up() {
  next_ = nullptr;
}

bool ExpertRollout::waits() const {
  return std::ranges::any_of(ranks_, [this](const Rank& r) {
    return r.can_be_asked &&
           (r.served != front_->epoch || (next_ != nullptr && r.held < next_->epoch));
  });
}

void ExpertRollout::go_on() {
  const bool all_hold_next = next_ != nullptr && std::ranges::all_of(ranks_, [this](const Rank& r) {
                               return r.served >= front_->epoch && r.held >= next_->epoch;
                             });
  if (std::ranges::all_of(ranks_, [this](const Rank& r) { return r.served == front_->epoch; })) {
    in_force_ = front_;
  }
  if (all_hold_next) {
    front_ = std::exchange(next_, nullptr);
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
  if (of.served > front_->epoch) {
    if (asked_for_ < of.served) {
      asked_for_ = of.served;
      asked_rank_ = rank;
      orders_.push_back({rank, no_placement(), true});
    }
  } else if (of.served < front_->epoch) {
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
    const Rank& of = ranks_[rank];
    away[rank] =
        in_force_ == nullptr || (of.served != in_force_->epoch && of.before != in_force_->epoch);
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
