// What others do: rows beside the shipped planner.
#pragma once

#include <memory>

#include "actors/policy/verify_plan.h"

namespace shoal {

std::unique_ptr<VerifyPlanner> make_all_drafts();
std::unique_ptr<VerifyPlanner> make_best_fixed();
std::unique_ptr<VerifyPlanner> make_threshold_50();
std::unique_ptr<VerifyPlanner> make_threshold_80();
std::unique_ptr<VerifyPlanner> make_greedy();
std::unique_ptr<VerifyPlanner> make_greedy_early();

}  // namespace shoal
