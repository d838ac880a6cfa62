// The truth that answers of a model's devices are compared with is the model's own answer, and
// nothing else passes for it.
#include "tests/sim/device_model.h"

#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace shoal;
using namespace shoal::sim;

namespace {

constexpr Position kContext = 1024;

DeviceModel guppy() {
  DeviceModel model;
  model.weights = built_in_model("guppy").value();
  return model;
}

struct Golden {
  testing::Wanted request;
  std::vector<TokenId> answer;
};

// What other programs continue the prompt with, taking the likeliest token each time.
Golden first_golden() {
  std::ifstream file(std::string(SHOAL_MODELS_DIR) + "/guppy/golden.jsonl");
  std::string line;
  std::getline(file, line);
  const auto json = nlohmann::json::parse(line);
  Golden golden;
  golden.request.prompt = json["prompt_ids"].get<std::vector<TokenId>>();
  golden.request.sampling.temperature = 0;
  golden.answer = json["output_ids"].get<std::vector<TokenId>>();
  return golden;
}

Basis basis_of(BasisMode mode, const testing::Wanted& request) {
  const Position window = guppy().weights->config.window;
  Basis basis;
  basis.mode = mode;
  basis.tail_start = mode == BasisMode::kBounded
                         ? static_cast<Position>(request.prompt.size()) - window
                         : Position{0};
  return basis;
}

std::vector<TokenId> truth(const testing::Wanted& request, const Basis& basis) {
  return true_answer(guppy(), request, {{0, basis}}, kContext);
}

}  // namespace

TEST_CASE("the truth of guppy is what its golden answers say, to their end") {
  const Golden golden = first_golden();
  for (const BasisMode mode : {BasisMode::kExact, BasisMode::kBounded}) {
    Basis basis;
    basis.mode = mode;
    CHECK(truth(golden.request, basis) == golden.answer);
  }
}

TEST_CASE("another seed, prompt or choice has another truth") {
  testing::Wanted request = testing::wanted(5, 300, 24);
  request.sampling.ignore_eos = true;
  const Basis exact = basis_of(BasisMode::kExact, request);
  const std::vector<TokenId> answer = truth(request, exact);
  CHECK(answer.size() == 24);
  CHECK(truth(request, exact) == answer);
  testing::Wanted other = request;
  ++other.sampling.seed;
  CHECK(truth(other, exact) != answer);
  other = request;
  ++other.choice;
  CHECK(truth(other, exact) != answer);
  other = request;
  other.prompt.back() = other.prompt.back() == 9 ? 8 : 9;
  CHECK(truth(other, exact) != answer);
}

TEST_CASE("behind a prompt longer than the window the basis shows in some answers") {
  int differ = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    testing::Wanted request = testing::wanted(seed, 150, 24);
    request.sampling.ignore_eos = true;
    differ += truth(request, basis_of(BasisMode::kExact, request)) !=
                      truth(request, basis_of(BasisMode::kBounded, request))
                  ? 1
                  : 0;
  }
  CHECK(differ > 0);
}

TEST_CASE("an answer ends with the context") {
  testing::Wanted request = testing::wanted(5, 60, 0);
  request.sampling.ignore_eos = true;
  CHECK(true_answer(guppy(), request, {{0, Basis{}}}, 64).size() == 4);
}

TEST_CASE("weights are loaded once, KV memory is each device's own") {
  CHECK(built_in_model("guppy").value() == built_in_model("guppy").value());
  const auto one = open_backend(guppy(), {.blocks = 2, .sequences = 1});
  const auto other = open_backend(guppy(), {.blocks = 2, .sequences = 1});
  REQUIRE(one->arena().take_blocks(2).has_value());
  CHECK(other->arena().free_blocks() == 2);
}

TEST_CASE("a model that is not built in is refused by name") {
  const auto refused = built_in_model("gupy");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message == "device: no model \"gupy\" is built in; known: guppy");
}
