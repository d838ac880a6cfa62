// Images, drafts, experts and machines that come and go, each in a small fleet.
#include <chrono>
#include <doctest/doctest.h>

#include "actors/policy/autoscale.h"
#include "actors/policy/expert_plan.h"
#include "actors/policy/verify_plan.h"
#include "actors/policy/vision_balancer.h"
#include "tests/sim/fleet/fleet_fixture.h"
#include "tests/sim/fleet/fleet_vision.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

namespace {

FleetFigures run_small(const fleet::Fleet& fleet, const FleetTrace& trace, double rate = 20) {
  return run_fleet(fleet, {&trace, rate, minutes(1)}, 1);
}

fleet::Fleet with_encoders(int encoders) {
  fleet::Fleet fleet = small_fleet();
  fleet.mutable_vision()->set_encoders(encoders);
  return fleet;
}

fleet::Fleet drafting(const char* row) {
  fleet::Fleet fleet = small_fleet();
  fleet.mutable_verify()->set_policy(row);
  return fleet;
}

fleet::Fleet with_experts(const char* row) {
  fleet::Fleet fleet = small_fleet();
  fleet.mutable_decode()->set_ranks(64);
  fleet.mutable_experts()->set_policy(row);
  fleet.mutable_experts()->set_layers(2);
  return fleet;
}

// A rate that is low for a while.
FleetLoad tidal(const FleetTrace& trace) {
  return {&trace, 4, minutes(36), 1, {.row = minutes(12), .rates = {1, 0.4, 1}}};
}

fleet::Fleet of_small_units() {
  fleet::Fleet fleet = small_fleet();
  fleet.mutable_prefill()->set_ranks(2);
  fleet.mutable_scale()->set_least(2);
  fleet.mutable_decode()->set_groups(4);
  fleet.mutable_decode()->set_ranks(2);
  return fleet;
}

fleet::Fleet scaled(const char* row) {
  fleet::Fleet fleet = of_small_units();
  fleet.mutable_scale()->set_policy(row);
  fleet.mutable_scale()->set_provision_s(60);
  return fleet;
}

}  // namespace

TEST_CASE("requests wait for their images, with more encoders for less time") {
  const FleetTrace trace = read_played("vision-800.jsonl.gz");
  FleetFigures one = run_small(with_encoders(1), trace, 1);
  FleetFigures four = run_small(with_encoders(4), trace, 1);
  CHECK(one.images > one.requests);
  CHECK(one.images == one.images_encoded);
  CHECK(one.answered == one.requests);
  CHECK(one.images_ready_ms.mean() > four.images_ready_ms.mean());
  CHECK(one.ttft_ms.mean() > four.ttft_ms.mean());
  CHECK(four.ttft_ms.mean() > run_small(small_fleet(), trace, 1).ttft_ms.mean());
}

TEST_CASE("an image that was seen before is not encoded again") {
  const FleetTrace trace = read_played("vision-800.jsonl.gz");
  fleet::Fleet fleet = with_encoders(4);
  fleet.mutable_vision()->set_repeated(0.3);
  const FleetFigures figures = run_small(fleet, trace, 1);
  CHECK(static_cast<double>(figures.images_encoded) ==
        doctest::Approx(0.7 * static_cast<double>(figures.images)).epsilon(0.1));
  CHECK(figures.answered == figures.requests);
}

TEST_CASE("images are drawn for a share of requests where the trace has none") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  fleet::Fleet fleet = with_encoders(8);
  CHECK(run_small(fleet, trace).images == 0);
  fleet.mutable_vision()->set_share(0.2);
  FleetFigures figures = run_small(fleet, trace);
  CHECK(static_cast<double>(figures.images_ready_ms.size()) ==
        doctest::Approx(0.2 * static_cast<double>(figures.requests)).epsilon(0.15));
  CHECK(static_cast<double>(figures.images) ==
        doctest::Approx(1.5 * static_cast<double>(figures.images_ready_ms.size())).epsilon(0.15));
}

TEST_CASE("images of an encoder that fails are encoded by others") {
  const FleetTrace trace = read_played("vision-800.jsonl.gz");
  for (const VisionRow& row : vision_policies()) {
    CAPTURE(row.name);
    fleet::Fleet fleet = with_encoders(4);
    fleet.mutable_vision()->set_policy(std::string(row.name));
    fleet.mutable_faults()->set_gpu_mtbf_hours(0.1);
    fleet.mutable_faults()->set_repair_s(20);
    const FleetFigures figures = run_small(fleet, trace, 1);
    CHECK(figures.vision_failures > 0);
    CHECK(figures.answered == figures.requests);
    CHECK(run_small(fleet, trace, 1).hash == figures.hash);
  }
}

TEST_CASE("what a step gains follows from what is verified") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  const FleetFigures plain = run_small(small_fleet(), trace);
  CHECK(plain.tokens_a_step == doctest::Approx(3.2));
  for (const char* row : {"group", "greedy", "threshold0.5"}) {
    CAPTURE(row);
    const FleetFigures figures = run_small(drafting(row), trace);
    CHECK(figures.answered == figures.requests);
    CHECK(figures.tokens_a_step > 1);
    CHECK(figures.tokens_a_step < 1 + figures.drafts_a_step);
    CHECK(figures.drafts_a_step <= 5);
  }
  const FleetFigures fixed = run_small(drafting("fixed5"), trace);
  CHECK(fixed.drafts_a_step == doctest::Approx(5));
  CHECK(fixed.tokens_a_step == doctest::Approx(1 + .84 + .67 + .50 + .35 + .25).epsilon(0.01));
}

TEST_CASE("the shipped planner of drafts makes tokens sooner than five for each request") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  fleet::Fleet ours = drafting("group");
  fleet::Fleet fixed = drafting("fixed5");
  for (fleet::Fleet* fleet : {&ours, &fixed}) {
    fleet->mutable_verify()->set_row_ns(100'000);
  }
  FleetFigures planned = run_small(ours, trace, 40);
  FleetFigures always = run_small(fixed, trace, 40);
  CHECK(planned.drafts_a_step < always.drafts_a_step);
  CHECK(planned.tpot_ms.mean() < always.tpot_ms.mean());
}

TEST_CASE("experts that are placed anew load GPUs more evenly than those that stay") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  FleetFigures ours = run_small(with_experts("ours"), trace);
  FleetFigures published = run_small(with_experts("eplb"), trace);
  FleetFigures still = run_small(with_experts("contiguous"), trace);
  CHECK(ours.moe_lb < published.moe_lb);
  CHECK(published.moe_lb < still.moe_lb);
  CHECK(ours.decode_step_ms.mean() < still.decode_step_ms.mean());
  CHECK(ours.expert_bytes_an_hour > 0);
  CHECK(still.expert_bytes_an_hour == 0);
  REQUIRE(!ours.expert_gpus.empty());
  CHECK(ours.expert_gpus.front().size() == 64);
  CHECK(ours.experts.front().size() == 384);
}

TEST_CASE("machines go when load falls and come back before it is high again") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  const FleetFigures always = run_fleet(of_small_units(), tidal(trace), 1);
  const FleetFigures ours = run_fleet(scaled("ours"), tidal(trace), 1);
  CHECK(always.gpu_hours == doctest::Approx(16 * 0.6).epsilon(0.02));
  CHECK(ours.gpu_hours < 0.95 * always.gpu_hours);
  CHECK(ours.answered == ours.requests);
  CHECK(ours.scale_changes > 0);
  CHECK(run_fleet(scaled("ours"), tidal(trace), 1).hash == ours.hash);
  const FleetFigures fixed = run_fleet(scaled("static"), tidal(trace), 1);
  CHECK(fixed.gpu_hours == doctest::Approx(always.gpu_hours));
  CHECK(fixed.answer_tokens == always.answer_tokens);
}

TEST_CASE("machines that come and go fail, too, and every request is answered") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  for (const AutoscaleRow& row : autoscale_policies()) {
    CAPTURE(row.name);
    fleet::Fleet fleet = scaled(std::string(row.name).c_str());
    fleet.mutable_faults()->set_gpu_mtbf_hours(1);
    fleet.mutable_faults()->set_repair_s(30);
    const FleetFigures figures = run_fleet(fleet, tidal(trace), 1);
    CHECK(figures.prefill_failures + figures.decode_failures > 0);
    CHECK(figures.answered == figures.requests);
  }
}

TEST_CASE("everything at once is the same again with the same seed") {
  const FleetTrace trace = read_played("vision-800.jsonl.gz");
  fleet::Fleet fleet = scaled("ours");
  fleet.mutable_vision()->set_encoders(4);
  fleet.mutable_verify()->set_policy("group");
  fleet.mutable_experts()->set_policy("ours");
  fleet.mutable_experts()->set_layers(1);
  fleet.mutable_store()->set_bytes(std::int64_t{1} << 32);
  fleet.mutable_faults()->set_gpu_mtbf_hours(1);
  const FleetLoad load{&trace, 1, minutes(3), 2};
  const FleetFigures first = run_fleet(fleet, load, 5);
  CHECK(first.answered == first.requests);
  CHECK(run_fleet(fleet, load, 5).hash == first.hash);
  CHECK(run_fleet(fleet, load, 6).hash != first.hash);
}

TEST_CASE("a row of any registry is chosen by its role, a wrong one is refused") {
  const fleet::Fleet fleet = small_fleet();
  CHECK(with_rows(fleet, "round_robin")->prefill().policy() == "round_robin");
  CHECK(with_rows(fleet, "verify:greedy")->verify().policy() == "greedy");
  CHECK(with_rows(fleet, "experts:eplb")->experts().policy() == "eplb");
  CHECK(with_rows(fleet, "experts:eplb+split:even")->experts().policy() == "eplb");
  CHECK(with_rows(fleet, "experts:eplb+split:even")->experts().split() == "even");
  CHECK(with_rows(fleet, "vision:rr_image")->vision().policy() == "rr_image");
  CHECK(with_rows(fleet, "scale:reactive")->scale().policy() == "reactive");
  CHECK(with_rows(fleet, "store:lru")->store().eviction() == "lru");
  CHECK(with_rows(fleet, "verify:best").error().message.find("greedy") != std::string::npos);
  CHECK(with_rows(fleet, "gate:ours").error().message.find("experts") != std::string::npos);
}
