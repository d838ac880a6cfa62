// The promises of the vocabulary: codes name who acts, TRY hands errors on, ids do not mix.
#include "schemas/result.h"

#include <doctest/doctest.h>
#include <set>
#include <string>
#include <type_traits>

#include "schemas/ids.h"

namespace shoal {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) {
    return fail(Code::kInvalid, "odd");
  }
  return n / 2;
}

Result<int> quarter(int n) {
  TRY(const int h, half(n));
  return half(h);
}

}  // namespace

TEST_CASE("every code has its own name and somebody who acts") {
  std::set<std::string_view> names;
  for (int i = 0; i < kCodeCount; ++i) {
    names.insert(to_string(static_cast<Code>(i)));
  }
  CHECK(names.size() == kCodeCount);
  CHECK(names.count("unknown") == 0);
  CHECK(who_acts(Code::kInvalid) == WhoActs::kClient);
  CHECK(who_acts(Code::kMisconfigured) == WhoActs::kOperator);
  CHECK(who_acts(Code::kPeerLost) == WhoActs::kSupervisor);
}

TEST_CASE("TRY returns the first error and otherwise the value") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).error().message == "odd");
}

TEST_CASE("ids of different things are different types") {
  CHECK_FALSE(std::is_convertible_v<RequestId, StepId>);
  CHECK_FALSE(std::is_convertible_v<std::uint64_t, RequestId>);
  CHECK(RequestId{3} < RequestId{4});
}

}  // namespace shoal
