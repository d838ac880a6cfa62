// Defects list themselves when the program starts.
#include "tests/sim/defects/defect.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace shoal::sim {
namespace {

std::vector<Defect*>& listed() {
  static std::vector<Defect*> defects;
  return defects;
}

}  // namespace

Defect::Defect(Plan plan) : plan_(std::move(plan)) {
  listed().push_back(this);
}

Tamper LinkDefect::tamper() {
  Tamper tamper;
  tamper.messages = [this](NodeId from, NodeId to, std::string bytes) {
    return instead(from, to, std::move(bytes));
  };
  return tamper;
}

StoreDefect::StoreDefect(const Mistake& mistake)
    : Defect({mistake.name,
              mistake.story,
              R"(
node: "gateway router"
node: "prefill"
node: "prefill"
node: "decode"
store { }
)" + mistake.scenario,
              {"blocks_are_true", "true_tokens"}}) {}

std::vector<Defect*> all_defects() {
  std::vector<Defect*> defects = listed();
  std::sort(defects.begin(), defects.end(), [](const Defect* a, const Defect* b) {
    return std::string_view(a->plan().name) < std::string_view(b->plan().name);
  });
  return defects;
}

Defect*& defect_at_work() {
  static Defect* defect = nullptr;
  return defect;
}

}  // namespace shoal::sim
