// A store of its own on the Ceph that tests/transport/ceph_loopback.sh started.
#pragma once

#include <atomic>
#include <cstdlib>
#include <doctest/doctest.h>
#include <string>

#include "transport/block_store_params.h"

namespace shoal::testing {

inline std::string ceph_variable(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE_MESSAGE(value != nullptr, "start this with tests/transport/ceph_loopback.sh");
  return value;
}

inline transport::RadosPlace fresh_ceph_place() {
  static std::atomic<int> number = 0;
  transport::RadosPlace place;
  place.conf = ceph_variable("SHOAL_CEPH_CONF");
  place.store = "test" + std::to_string(++number);
  return place;
}

}  // namespace shoal::testing
