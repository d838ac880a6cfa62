// What a store of KV keeps of recorded prompts, and what that does to a fleet.
#include "tests/sim/fleet/fleet_store.h"

#include <chrono>
#include <doctest/doctest.h>

#include "tests/sim/fleet/fleet_arrivals.h"
#include "tests/sim/fleet/fleet_fixture.h"
#include "tests/sim/kv_replay.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

TraceRequest prompt(std::vector<BlockRun> blocks) {
  TraceRequest request;
  for (const BlockRun& run : blocks) {
    request.input_tokens += run.count * kBlockTokens;
  }
  request.blocks = std::move(blocks);
  return request;
}

// Room for so many blocks.
fleet::Store store_of(std::int64_t blocks, const char* eviction) {
  fleet::Store options;
  options.set_bytes(blocks * 114'688);
  options.set_eviction(eviction);
  return options;
}

const CostModel kCost(kReferenceCost);

std::vector<TraceRequest> recorded(const char* file) {
  auto trace = read_trace(std::string(SHOAL_TRACES) + "/" + file, 0);
  REQUIRE(trace.has_value());
  return *std::move(trace);
}

// Share of tokens hit when the requests come one after the other.
double hit_rate(const std::vector<TraceRequest>& trace, const fleet::Store& options) {
  const PromptRuns prompts(trace);
  FleetStore store(options, kCost, prompts);
  double hits = 0;
  double tokens = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const StoredPrompt stored{0, prompts.last_of()[i]};
    const Nanos at = milliseconds(trace[i].arrival_ms);
    const std::int64_t most = (trace[i].input_tokens - 1) / kBlockTokens;
    hits += static_cast<double>(std::min(most, store.use(stored, at)) * kBlockTokens);
    tokens += static_cast<double>(trace[i].input_tokens);
    store.write(stored, TtlClass::kAgent, at);
  }
  return hits / tokens;
}

FleetFigures run_with(const FleetTrace& trace, const fleet::Store& store) {
  fleet::Fleet fleet = small_fleet();
  *fleet.mutable_store() = store;
  return run_fleet(fleet, {&trace, 1, minutes(10), 8}, 1);
}

}  // namespace

TEST_CASE("prompts are whole runs of blocks, cut where one branches off or ends") {
  const std::vector<TraceRequest> trace{
      prompt({{0, 10}}), prompt({{0, 4}, {20, 3}}), prompt({{0, 12}}), prompt({{0, 2}})};
  const PromptRuns prompts(trace);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    CAPTURE(i);
    std::int64_t blocks = 0;
    const PromptRun& last = prompts.runs()[prompts.last_of()[i]];
    for (std::uint32_t run = prompts.last_of()[i]; run != kNoRun;
         run = prompts.runs()[run].parent) {
      blocks += prompts.runs()[run].count;
    }
    CHECK(blocks * kBlockTokens == trace[i].input_tokens);
    CHECK(last.before + last.count == blocks);
  }
  CHECK(prompts.runs().size() == 5);
  CHECK(PromptRuns(std::vector<TraceRequest>{prompt({})}).last_of()[0] == kNoRun);
}

TEST_CASE("the last blocks of what was used longest ago go first, other copies share nothing") {
  const std::vector<TraceRequest> trace{prompt({{0, 4}}), prompt({{0, 6}}), prompt({{100, 4}})};
  const PromptRuns prompts(trace);
  FleetStore store(store_of(8, "lru"), kCost, prompts);
  const auto last = prompts.last_of();
  store.write({7, last[1]}, TtlClass::kChat, seconds(1));
  CHECK(store.use({8, last[1]}, seconds(2)) == 0);
  CHECK(store.use({7, last[1]}, seconds(2)) == 6);
  store.write({8, last[2]}, TtlClass::kChat, seconds(3));
  CHECK(store.blocks() == 8);
  CHECK(store.use({7, last[1]}, seconds(4)) == 4);
  CHECK(store.evicted_blocks() == 2);
}

TEST_CASE("blocks expire when their class says so, and are written again") {
  const std::vector<TraceRequest> trace{prompt({{0, 4}}), prompt({{0, 6}})};
  const PromptRuns prompts(trace);
  fleet::Store options = store_of(100, "ours");
  options.set_agent_ttl_s(60);
  FleetStore store(options, kCost, prompts);
  store.write({0, prompts.last_of()[1]}, TtlClass::kAgent, seconds(0));
  CHECK(store.use({0, prompts.last_of()[0]}, seconds(50)) == 4);
  CHECK(store.use({0, prompts.last_of()[1]}, seconds(70)) == 4);
  store.write({0, prompts.last_of()[1]}, TtlClass::kChat, seconds(71));
  CHECK(store.use({0, prompts.last_of()[1]}, hours(100)) == 6);
  store.expire(hours(400));
  CHECK(store.blocks() == 0);
  CHECK(store.expired_blocks() == 8);
}

TEST_CASE("runs of blocks are hit as the index of blocks hits them") {
  const auto trace = recorded("agentic-600.jsonl.gz");
  const std::int64_t all = distinct_blocks(trace);
  CHECK(hit_rate(trace, store_of(2 * all, "lru")) ==
        doctest::Approx(replay_kv(trace, all, KvEviction::kLru).hit_rate()));
  for (const std::int64_t part : {2, 4, 8}) {
    CAPTURE(part);
    CHECK(hit_rate(trace, store_of(all / part, "lru")) ==
          doctest::Approx(replay_kv(trace, all / part, KvEviction::kLru).hit_rate()).epsilon(0.03));
  }
  CHECK(hit_rate(trace, store_of(all / 6, "ours")) ==
        doctest::Approx(replay_kv(trace, all / 6, KvEviction::kWorth).hit_rate()).epsilon(0.05));
}

TEST_CASE("a store with room for all hits what one that forgets nothing hits, else less") {
  const FleetTrace trace = read_played("agentic-600.jsonl.gz");
  const FleetFigures ideal = run_with(trace, {});
  const FleetFigures ample = run_with(trace, store_of(1 << 20, "lru"));
  const FleetFigures small = run_with(trace, store_of(1 << 13, "lru"));
  CHECK(ideal.hit_tokens > 0);
  CHECK(static_cast<double>(ample.hit_tokens) ==
        doctest::Approx(static_cast<double>(ideal.hit_tokens)).epsilon(0.01));
  CHECK(small.hit_tokens < ample.hit_tokens);
  CHECK(small.evicted_tokens > 0);
  CHECK(small.answered == small.requests);
  CHECK(small.minutes.back().store_bytes <= std::int64_t{114'688} << 13);
  CHECK(run_with(trace, store_of(1 << 13, "lru")).hash == small.hash);
}

TEST_CASE("what would take too long to load is computed") {
  const FleetTrace trace = read_played("agentic-600.jsonl.gz");
  fleet::Store slow;
  slow.set_bytes_per_s(2'000'000'000);
  slow.set_patience_ms(20);
  const FleetFigures figures = run_with(trace, slow);
  CHECK(figures.loads_refused > 0);
  CHECK(figures.hit_tokens < run_with(trace, {}).hit_tokens);
  CHECK(figures.answered == figures.requests);
}

TEST_CASE("copies of a recording arrive at its own pace, each beginning a little later") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  FleetArrivals one({&trace, 1, hours(1)}, false);
  FleetArrivals four({&trace, 1, hours(1), 4}, false);
  std::int64_t in_one = 0;
  std::int64_t in_four = 0;
  Nanos before{0};
  for (; one.next().at < hours(1);) {
    ++in_one;
  }
  for (FleetArrival next = four.next(); next.at < hours(1); next = four.next()) {
    CHECK(next.at >= before);
    before = next.at;
    ++in_four;
  }
  CHECK(static_cast<double>(in_four) ==
        doctest::Approx(4 * static_cast<double>(in_one)).epsilon(0.01));
}

TEST_CASE("a curve of rates slows arrivals down where it is low") {
  const FleetTrace trace = read_played("chat-800.jsonl.gz");
  FleetArrivals arrivals({&trace, 100, hours(1), 1, {.row = minutes(1), .rates = {1, 0.25}}},
                         false);
  std::int64_t counts[2] = {0, 0};
  for (FleetArrival next = arrivals.next(); next.at < minutes(10); next = arrivals.next()) {
    ++counts[next.at / minutes(1) % 2];
  }
  CHECK(static_cast<double>(counts[0]) / static_cast<double>(counts[1]) ==
        doctest::Approx(4).epsilon(0.1));
}
