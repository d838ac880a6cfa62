// The path of a request as actors/README.md tells it is the path a request takes.
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/actors/node_world.h"

using namespace shoal;
using namespace shoal::testing;

namespace {

// The names in the numbered block.
std::vector<std::string> told_path() {
  std::ifstream readme(std::string(SHOAL_MODELS_DIR) + "/../../actors/README.md");
  REQUIRE(readme.good());
  std::vector<std::string> names;
  for (std::string line; std::getline(readme, line);) {
    std::istringstream words(line);
    std::size_t number = 0;
    std::string name;
    if (words >> number >> name && number == names.size() + 1) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("a request takes the path that the README tells") {
  // Decode steps are held until the request is known to decode: the order between two actors'
  // messages is otherwise the scheduler's.
  World world({});
  world.clients().ask(wanted(1, 300, 5));
  REQUIRE(world.run_until_all_over());
  world.settle();
  std::vector<std::string> taken;
  for (const std::string& event : world.events()) {
    if (event.find("request=1 ") != std::string::npos) {
      taken.push_back(event.substr(0, event.find(' ')));
    }
  }
  CHECK(taken == told_path());
}
