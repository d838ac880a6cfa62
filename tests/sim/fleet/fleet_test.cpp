// Small fleets over recorded requests, sound and failing.
#include "tests/sim/fleet/fleet.h"

#include <chrono>
#include <doctest/doctest.h>
#include <fstream>
#include <set>
#include <string>

#include "actors/policy/prefill_policies.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

FleetTrace chat() {
  const auto trace = read_trace(std::string(SHOAL_TRACES) + "/chat-800.jsonl.gz", 0);
  REQUIRE(trace.has_value());
  return fleet_trace(*trace, Nanos{0}, hours(100));
}

fleet::Fleet small() {
  fleet::Fleet fleet;
  fleet.mutable_prefill()->set_instances(4);
  fleet.mutable_decode()->set_groups(2);
  fleet.mutable_decode()->set_ranks(8);
  return fleet;
}

// About half of what the small fleet can do.
FleetLoad load_of(const FleetTrace& trace) {
  return {&trace, 20, minutes(3)};
}

Result<fleet::Fleet> read(const std::string& text) {
  const std::string file = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                           "/shoal_fleet_test.txtpb";
  std::ofstream(file) << text;
  return read_fleet(file);
}

}  // namespace

TEST_CASE("every request of a sound fleet is answered at the first attempt") {
  const auto requests = chat();
  FleetFigures figures = run_fleet(small(), load_of(requests), 1);
  CHECK(figures.requests > 1'000);
  CHECK(figures.answered == figures.requests);
  CHECK(figures.attempts == figures.requests);
  CHECK(figures.recomputed_tokens == 0);
  CHECK(figures.ttft_ms.size() == static_cast<std::size_t>(figures.requests));
  CHECK(figures.minutes.size() >= 3);
}

TEST_CASE("requests of machines that fail are answered too, after computing some of them again") {
  const auto requests = chat();
  fleet::Fleet failing = small();
  failing.mutable_faults()->set_gpu_mtbf_hours(0.3);
  failing.mutable_faults()->set_repair_s(20);
  FleetFigures figures = run_fleet(failing, load_of(requests), 1);
  CHECK(figures.prefill_failures > 0);
  CHECK(figures.decode_failures > 0);
  CHECK(figures.answered == figures.requests);
  CHECK(figures.attempts > figures.requests);
  CHECK(figures.recomputed_tokens > 0);
  FleetFigures sound = run_fleet(small(), load_of(requests), 1);
  CHECK(figures.answer_tokens == sound.answer_tokens);
}

TEST_CASE("the same seed gives the same events, with every policy and with failures") {
  const auto requests = chat();
  fleet::Fleet failing = small();
  failing.mutable_faults()->set_gpu_mtbf_hours(0.3);
  std::set<std::uint64_t> hashes;
  for (const PrefillPolicyRow& row : prefill_policies()) {
    CAPTURE(row.name);
    failing.mutable_prefill()->set_policy(std::string(row.name));
    const FleetFigures first = run_fleet(failing, load_of(requests), 7);
    CHECK(first.hash == run_fleet(failing, load_of(requests), 7).hash);
    hashes.insert(first.hash);
  }
  CHECK(hashes.size() > prefill_policies().size() / 2);
  CHECK(run_fleet(failing, load_of(requests), 8).hash !=
        run_fleet(failing, load_of(requests), 7).hash);
}

TEST_CASE("all prefill instances down: requests wait until one is up again") {
  const auto requests = chat();
  fleet::Fleet failing = small();
  failing.mutable_prefill()->set_instances(1);
  failing.mutable_prefill()->set_ranks(16);
  failing.mutable_faults()->set_gpu_mtbf_hours(0.5);
  failing.mutable_faults()->set_repair_s(30);
  FleetLoad light = load_of(requests);
  light.rate = 2;
  const FleetFigures figures = run_fleet(failing, light, 3);
  CHECK(figures.prefill_failures > 0);
  CHECK(figures.answered == figures.requests);
}

TEST_CASE("an answer that no rank could ever hold is refused, the others are not held up by it") {
  FleetTrace trace = chat();
  auto& requests = trace.requests;
  requests.resize(50);
  requests[10].answer_tokens = 1'000'000'000;
  FleetLoad once{&trace, 1, requests.back().prefill.arrival + std::chrono::milliseconds(1)};
  const FleetFigures figures = run_fleet(small(), once, 1);
  CHECK(figures.refused == 1);
  CHECK(figures.answered == 49);
}

TEST_CASE("more decode work makes steps longer, and twice the ranks make them shorter") {
  const auto requests = chat();
  fleet::Fleet wide = small();
  wide.mutable_decode()->set_ranks(32);
  FleetLoad much = load_of(requests);
  FleetFigures narrow = run_fleet(small(), much, 1);
  FleetFigures wider = run_fleet(wide, much, 1);
  CHECK(wider.decode_step_ms.mean() < narrow.decode_step_ms.mean());
  much.rate = 5;
  CHECK(run_fleet(small(), much, 1).decode_step_ms.mean() < narrow.decode_step_ms.mean());
}

TEST_CASE("the fleets that come with the project are sound") {
  for (const char* name : {"/tenth.txtpb", "/whole.txtpb"}) {
    CHECK(read_fleet(std::string(SHOAL_FLEETS) + name).has_value());
  }
}

TEST_CASE("a wrong fleet file is refused by name and field") {
  CHECK(read("prefill { instances: 2 }").has_value());
  for (const auto& [text, field] :
       {std::pair<const char*, const char*>{"prefill { instance: 2 }", "instances"},
        {"prefill { instances: 0 }", "prefill"},
        {"prefill { policy: \"best\" }", "best"},
        {"decode { ranks: -1 }", "decode"},
        {"decode { moe_lb: nan }", "moe_lb"},
        {"decode { step_us: 9000000000000000000 }", "decode.step_us"},
        {"faults { gpu_mtbf_hours: 1e-300 }", "gpu_mtbf_hours"},
        {"faults { gpu_mtbf_hours: 1 repair_s: 1 } control { detect_ms: 2000 }", "detect_ms"},
        {"store { p99_us: 1 }", "store"},
        {"store { bytes: -1 }", "store"},
        {"store { eviction: \"best\" }", "lru"},
        {"vision { repeated: 2 }", "vision"},
        {"vision { encoders: 1 policy: \"best\" }", "least_left"},
        {"verify { policy: \"best\" }", "greedy"},
        {"verify { rank_share: nan }", "verify"},
        {"experts { policy: \"best\" }", "eplb"},
        {"experts { layers: 41 }", "experts"},
        {"scale { policy: \"best\" }", "reactive"},
        {"scale { least: 0 }", "scale"},
        {"control { stale_ms: -1 }", "control"}}) {
    CAPTURE(text);
    const auto fleet = read(text);
    REQUIRE_FALSE(fleet.has_value());
    CHECK(fleet.error().message.find(field) != std::string::npos);
    CHECK(fleet.error().message.find("shoal_fleet_test.txtpb") != std::string::npos);
  }
}
