// What the tests of POST /v1/completions share: bodies out, JSON in.
#pragma once

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/actors/http_bed.h"
#include "tests/actors/http_client.h"

namespace shoal::test {

using Json = nlohmann::json;

inline constexpr const char* kCompletions = "/v1/completions";
inline constexpr TokenId kEos = 1;

inline Json body_of(const HttpResponse& response) {
  return Json::parse(response.body);
}

inline Json data_of(const std::optional<std::string>& event) {
  REQUIRE(event);
  REQUIRE(event->starts_with("data: "));
  return Json::parse(event->substr(6));
}

inline std::string text_of(const Json& chunk) {
  return chunk["choices"][0]["text"];
}

inline std::vector<TokenId> with_eos(std::string_view text) {
  auto ids = ids_of(text);
  ids.push_back(kEos);
  return ids;
}

inline Json ask(const std::string& prompt, Json more = Json::object()) {
  more["prompt"] = prompt;
  return more;
}

inline int status_of(HttpBed& bed, const Json& body) {
  return post(bed.port(), kCompletions, body.dump()).status;
}

inline std::string message_of(HttpBed& bed, const Json& body) {
  return body_of(post(bed.port(), kCompletions, body.dump()))["error"]["message"];
}

}  // namespace shoal::test
