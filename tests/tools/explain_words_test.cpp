// Every reason that a server gives has words.
#include "tools/explain_words.h"

#include <doctest/doctest.h>
#include <map>
#include <string>
#include <utility>

#include "actors/kv_reason.h"

using namespace shoal;
using namespace shoal::tools;

namespace {

FieldText fields(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

}  // namespace

TEST_CASE("every reason of a hit or a miss is told in words, an unknown one as it is") {
  for (int r = 0; r < kKvReasons; ++r) {
    const std::string word(to_string(static_cast<KvReason>(r)));
    CHECK(kv_words(fields({{"kv_reason", word}})) != word);
  }
  CHECK(kv_words(fields({{"kv_reason", "of_tomorrow"}})) == "of_tomorrow");
}

TEST_CASE("a hit is told with what is stored and what is loaded") {
  const FieldText hit = fields({{"kv_reason", "blocks"}, {"stored", "512"}, {"loaded", "384"}});
  CHECK(kv_words(hit) == "blocks of the store; 512 leading tokens are stored, 384 loaded");
}

TEST_CASE("a refusal is told with the figures that it was decided by") {
  const FieldText late = fields({{"why", "too_late"},
                                 {"first_token_ns", "3250000000"},
                                 {"left_ns", "1000000000"},
                                 {"work_ns", "3000000000"}});
  CHECK(refusal_words(late) ==
        "too late: its first token was predicted in 3.250 s at the latest, its time was over in "
        "1.000 s; its prefill alone takes 3.000 s");
  CHECK(refusal_words(fields({{"why", "queue_full"}, {"queued", "7"}})) ==
        "the queue is full: 7 wait before it");
  CHECK(refusal_words(fields({{"why", "cannot_fit"}, {"blocks", "9"}})) ==
        "it cannot fit: prompt and answer may need 9 KV blocks, more than any node that is up has");
  CHECK(refusal_words(fields({{"why", "of_tomorrow"}})) == "of_tomorrow");
}
