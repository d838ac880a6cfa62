// What became of drafts: how often those of each place were accepted, and the temperatures that
// make the head's confidences true, fitted anew as outcomes come in.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/policy/draft_step.h"
#include "actors/policy/verify_temperature.h"
#include "schemas/units.h"

namespace shoal {

class DraftOutcomes {
 public:
  static constexpr std::size_t kRemembered = 4'096;

  void add(std::span<const RankDrafts> ranks);

  const Temperatures& temperatures() const { return temperatures_; }

  // Drafts of each place that were verified, and that were accepted, since the beginning.
  std::array<std::int64_t, kMostDrafts> verified() const { return at_least(verified_); }

  std::array<std::int64_t, kMostDrafts> accepted() const { return at_least(accepted_); }

  // Calibration error at the last fit over the outcomes that it looked at: of what the head says,
  // and by the temperatures that came of it.
  double error_as_said() const { return error_as_said_; }

  double error_tempered() const { return error_tempered_; }

  std::int64_t fits() const { return fits_; }

  std::size_t remembered() const { return ring_.size(); }

 private:
  using ByCount = std::array<std::int64_t, kMostDrafts + 1>;

  static std::array<std::int64_t, kMostDrafts> at_least(const ByCount& counts);
  void remember(std::span<const RankDrafts> ranks, std::int64_t outcomes);
  bool may_fit() const;
  void fit();

  std::vector<VerifyOutcome> ring_;
  std::size_t next_ = 0;  // of the ring, once it is full
  std::int64_t steps_ = 0;
  std::int64_t since_fit_ = 0;  // outcomes
  Nanos time_since_fit_{0};
  Temperatures temperatures_ = kUntempered;
  ByCount verified_{};
  ByCount accepted_{};
  double error_as_said_ = 0;
  double error_tempered_ = 0;
  std::int64_t fits_ = 0;
};

}  // namespace shoal
