// The words of status lines, and when they come.
#include "tools/status_line.h"

#include <chrono>
#include <doctest/doctest.h>

using namespace shoal;
using namespace shoal::tools;
using std::chrono::seconds;

TEST_CASE("a status line comes every 30 s and counts the rate from where the work began") {
  const Instant began{seconds(1'000)};
  StatusLine line("seeds", 100, began);
  CHECK_FALSE(line.update(101, 500, began + seconds(1)));
  CHECK_FALSE(line.update(150, 500, began + seconds(29)));
  CHECK(line.update(160, 500, began + seconds(30)) == "160 of 500 seeds, 2.0 seeds/s");
  CHECK_FALSE(line.update(161, 500, began + seconds(31)));
  CHECK(line.update(400, 500, began + seconds(75)) == "400 of 500 seeds, 4.0 seeds/s");
}
