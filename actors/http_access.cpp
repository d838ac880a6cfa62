// Keys are compared in constant time, all of them, whether one fitted or not: the time of a refusal
// tells nothing.
#include "actors/http_access.h"

namespace shoal {
namespace {

bool equals_in_constant_time(std::string_view secret, std::string_view given) {
  unsigned difference = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(expected ^ given[i]);
  }
  return difference == 0;
}

std::string_view key_of(const HttpRequest& request) {
  const std::string_view authorization = request.field("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() > kBearer.size() &&
      equals_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    const auto first = authorization.find_first_not_of(' ', kBearer.size());
    return first == std::string_view::npos ? std::string_view{} : authorization.substr(first);
  }
  return request.field("x-api-key");
}

}  // namespace

HttpAccess::HttpAccess(const std::vector<ApiKey>& keys) {
  if (keys.empty())
    find_or_add("");
  for (const ApiKey& key : keys) {
    Tenant& tenant = find_or_add(key.tenant);
    tenant.ttl = key.ttl;
    entries_.push_back({.key = key.key, .tenant = &tenant});
  }
}

Tenant& HttpAccess::find_or_add(const std::string& name) {
  for (Tenant& tenant : tenants_) {
    if (tenant.name == name)
      return tenant;
  }
  return tenants_.emplace_back(name);
}

Tenant* HttpAccess::tenant_of(const HttpRequest& request) {
  if (entries_.empty())
    return &tenants_.front();
  const std::string_view given = key_of(request);
  Tenant* found = nullptr;
  for (const Entry& entry : entries_) {
    if (equals_in_constant_time(entry.key, given))
      found = entry.tenant;
  }
  return found;
}

}  // namespace shoal
