// Who calls: the key of a request to its tenant, and how much each tenant has in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/http_config.h"
#include "actors/http_message.h"

namespace shoal {

struct Tenant {
  explicit Tenant(std::string tenant_name) : name(std::move(tenant_name)) {}

  std::string name;
  std::optional<TtlClass> ttl;  // as in ApiKey
  std::atomic<std::size_t> choices_in_flight{0};
};

// Fixed after construction; any thread may ask.
class HttpAccess {
 public:
  explicit HttpAccess(const std::vector<ApiKey>& keys);

  // By `Authorization: Bearer KEY` or `x-api-key: KEY`; null when no key fits. Without keys
  // everybody is the tenant "".
  Tenant* tenant_of(const HttpRequest& request);

 private:
  struct Entry {
    std::string key;
    Tenant* tenant;
  };

  Tenant& find_or_add(const std::string& name);

  std::deque<Tenant> tenants_;  // never moves: requests point into it
  std::vector<Entry> entries_;
};

}  // namespace shoal
