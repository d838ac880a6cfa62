// What a provisioner must do, for every row; and that `none` tells people.
#include "actors/provisioner.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "actors/log.h"

using namespace shoal;

TEST_CASE("every provisioner takes the same counts again, and none") {
  const EventLog log(LogLevel::kInfo, [](LogLevel, std::string_view) {});
  for (const ProvisionerRow& row : provisioner_rows()) {
    CAPTURE(row.name);
    const auto provisioner = row.make(log);
    const std::vector<RoleCount> counts{{"prefill", 3}, {"decode", 2}};
    CHECK(provisioner->request(counts));
    CHECK(provisioner->request(counts));
    CHECK(provisioner->request({}));
  }
}

TEST_CASE("without machines to give, what is wanted is logged when it changes") {
  std::vector<std::string> lines;
  const EventLog log(LogLevel::kInfo,
                     [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const ProvisionerRow& none = provisioner_rows().front();
  REQUIRE(none.name == "none");
  const auto provisioner = none.make(log);
  const std::vector<RoleCount> first{{"prefill", 3}, {"decode", 2}};
  const std::vector<RoleCount> second{{"prefill", 3}, {"decode", 1}};
  CHECK(provisioner->request(first));
  CHECK(provisioner->request(second));
  CHECK(lines == std::vector<std::string>{"provision.wanted role=prefill units=3 before=0",
                                          "provision.wanted role=decode units=2 before=0",
                                          "provision.wanted role=decode units=1 before=2"});
}
