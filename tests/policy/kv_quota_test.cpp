// What one tenant may add, whoever else writes.
#include "actors/policy/kv_quota.h"

#include <doctest/doctest.h>

using namespace shoal;

namespace {

constexpr Instant kNow{};

BlockKey tenant(int number) {
  BlockKey root;
  root.bytes[0] = std::byte(number);
  return root;
}

}  // namespace

TEST_CASE("without a limit everybody writes") {
  KvQuota quota(KvQuotaLimits{});
  CHECK(quota.take(tenant(1), Bytes{1'000'000'000}, kNow));
}

TEST_CASE("a tenant has its share of each window, and no part of another's") {
  KvQuota quota({.bytes = Bytes{100}, .window = std::chrono::hours(1)});
  CHECK(quota.take(tenant(1), Bytes{60}, kNow));
  CHECK_FALSE(quota.take(tenant(1), Bytes{60}, kNow));
  CHECK(quota.take(tenant(1), Bytes{40}, kNow));
  CHECK(quota.take(tenant(2), Bytes{100}, kNow));
  CHECK_FALSE(quota.take(tenant(1), Bytes{1}, kNow + std::chrono::minutes(59)));
  CHECK(quota.take(tenant(1), Bytes{100}, kNow + std::chrono::minutes(60)));
}

TEST_CASE("more tenants than are known share one share, until a window has passed") {
  KvQuota quota({.bytes = Bytes{100}, .window = std::chrono::hours(1), .tenants = 2});
  CHECK(quota.take(tenant(1), Bytes{100}, kNow));
  CHECK(quota.take(tenant(2), Bytes{100}, kNow));
  CHECK(quota.take(tenant(3), Bytes{70}, kNow));
  CHECK_FALSE(quota.take(tenant(4), Bytes{70}, kNow));
  CHECK(quota.take(tenant(4), Bytes{70}, kNow + std::chrono::hours(1)));
}
