// Files of rates, good and bad.
#include "tests/sim/fleet/rates_file.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>

using namespace shoal;
using namespace shoal::sim;

namespace {

Result<std::vector<ServiceRates>> read(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() / "shoal-rates-test.csv";
  std::ofstream(file) << text;
  auto rates = read_rates(file);
  std::filesystem::remove(file);
  return rates;
}

std::string error_of(const std::string& text) {
  const auto rates = read(text);
  REQUIRE_FALSE(rates);
  return rates.error().message;
}

}  // namespace

TEST_CASE("services have their rates until the last, and holes repeat the row above") {
  const auto rates = read(
      "start_s,a_req_per_s,a_clients,b_req_per_s,c_req_per_s\n"
      "0,1.5,3,2,\n"
      "300,,3,0,\n"
      "600,2.5,3,,\n");
  REQUIRE(rates);
  REQUIRE(rates->size() == 2);  // c has none
  CHECK((*rates)[0].name == "a");
  CHECK((*rates)[0].per_s == std::vector<double>{1.5, 1.5, 2.5});
  CHECK((*rates)[0].row_s == 300);
  CHECK((*rates)[1].per_s == std::vector<double>{2, 0});
}

TEST_CASE("a file of recorded rates is read, compressed") {
  const auto rates = read_rates(std::string(SHOAL_TRACES) + "/rates-2d.csv.gz");
  REQUIRE_MESSAGE(rates.has_value(), rates.error().message);
  CHECK(rates->size() == 5);
  CHECK(rates->front().per_s.size() == 288);
}

TEST_CASE("a bad file of rates says which line, and what is expected") {
  CHECK(error_of("").find(":1: a rates file has columns start_s and NAME_req_per_s") !=
        std::string::npos);
  CHECK(error_of("start_s,x\n0,1\n").find(":1:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0,1\n0,1\n").find(":3:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0,-1\n").find(":2:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0,1x\n").find(":2:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0\n").find(":2:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0,nan\n").find(":2:") != std::string::npos);
  CHECK(error_of("start_s,a_req_per_s\n0,\n").find("has no rates") != std::string::npos);
  CHECK_FALSE(read_rates("/does/not/exist"));
}
