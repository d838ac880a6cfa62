// What a trace file says is what the clients do.
#include "tests/sim/trace.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/sim/event_line.h"
#include "tests/sim/scenario.h"

using namespace shoal;
using namespace shoal::sim;
using std::chrono::milliseconds;
using std::chrono::minutes;

namespace {

// A file that is gone with the test.
class TraceFile {
 public:
  explicit TraceFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("shoal_" + std::to_string(::getpid()) + "_trace_test.jsonl")) {
    std::ofstream(path_) << text;
  }

  ~TraceFile() { std::filesystem::remove(path_); }

  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Trace trace_of(const std::string& text, double rate = 1) {
  const TraceFile file(text);
  return {read_trace(file.path(), 0).value(), rate};
}

std::vector<TokenId> block(const std::vector<TokenId>& prompt, std::ptrdiff_t number) {
  const auto begin = prompt.begin() + number * kBlockTokens;
  return {begin, begin + kBlockTokens};
}

// A conversation of three turns, the pause before the last one unknown; another request between.
constexpr char kSession[] =
    R"({"arrival_ms":5000,"session":"a","turn":0,"input_tokens":200,"output_tokens":3,"think_ms":0}
{"arrival_ms":6000,"session":"a","turn":1,"input_tokens":300,"output_tokens":4,"think_ms":700}
{"arrival_ms":6500,"input_tokens":10,"output_tokens":0}
{"arrival_ms":9000,"session":"a","turn":2,"input_tokens":400,"output_tokens":5}
)";

}  // namespace

TEST_CASE(
    "a trace file gives lengths, sessions, pauses and blocks, in order and as many as asked") {
  const TraceFile file(
      R"({"arrival_ms":7,"input_tokens":300,"output_tokens":20,"kind":"chat","blocks":[[4,1],[9,1]]}
{"arrival_ms":8,"session":"s","turn":1,"input_tokens":5,"output_tokens":0,"think_ms":12,"blocks":[],"image_tokens":[324,0]})");
  const auto all = read_trace(file.path(), 0);
  REQUIRE_MESSAGE(all.has_value(), (all ? "" : all.error().message));
  REQUIRE(all->size() == 2);
  CHECK((*all)[0].arrival_ms == 7);
  CHECK((*all)[0].blocks[1].first == 9);
  CHECK((*all)[1].session == "s");
  CHECK((*all)[1].think_ms == 12);
  CHECK((*all)[1].image_tokens == std::vector<std::int64_t>{324, 0});
  CHECK_FALSE((*all)[0].think_ms.has_value());
  CHECK(read_trace(file.path(), 1)->size() == 1);
}

TEST_CASE("a malformed line of a trace is named with what was expected") {
  const std::string good = R"({"arrival_ms":10,"input_tokens":300,"output_tokens":20})";
  const auto error = [](const std::string& text) {
    const TraceFile file(text);
    const auto read = read_trace(file.path(), 0);
    REQUIRE_FALSE(read.has_value());
    return read.error().message;
  };
  const auto second = [&](const std::string& line, const std::string& expected) {
    const std::string message = error(good + "\n" + line + "\n");
    CAPTURE(message);
    CHECK(message.find("trace_test.jsonl:2: ") != std::string::npos);
    CHECK(message.find(expected) != std::string::npos);
  };
  second("nonsense", "not a JSON object");
  second("", "not a JSON object");
  second("[1]", R"({"arrival_ms":0,"input_tokens":300,"output_tokens":20})");
  second(R"({"input_tokens":300,"output_tokens":20})", "arrival_ms: ");
  second(R"({"arrival_ms":1.5,"input_tokens":300,"output_tokens":20})", "arrival_ms: ");
  second(R"({"arrival_ms":10,"input_tokens":0,"output_tokens":20})", "input_tokens: ");
  second(R"({"arrival_ms":10,"input_tokens":9e99,"output_tokens":20})", "input_tokens: ");
  second(R"({"arrival_ms":10,"input_tokens":18446744073709551615,"output_tokens":20})", "input_");
  second(R"({"arrival_ms":10,"input_tokens":3,"output_tokens":-1})", "output_tokens: ");
  second(R"({"arrival_ms":10,"input_tokens":3,"output_tokens":1,"think_ms":"1"})", "think_ms: ");
  second(R"({"arrival_ms":10,"input_tokens":3,"output_tokens":1,"session":7})", "session: ");
  second(R"({"arrival_ms":9,"input_tokens":3,"output_tokens":1})", "order of their arrival");
  for (const char* blocks : {"[[0,1]]", "[[0,3]]", "[[0,1],[2]]", "[[0,-2]]", "7", "[[-1,2]]"}) {
    second(R"({"arrival_ms":10,"input_tokens":300,"output_tokens":1,"blocks":)" +
               std::string(blocks) + "}",
           "2 blocks in all");
  }
  for (const char* images : {"7", "[-1]", "[1.5]", "[324,\"9\"]"}) {
    second(R"({"arrival_ms":10,"input_tokens":3,"output_tokens":1,"image_tokens":)" +
               std::string(images) + "}",
           "image_tokens: ");
  }
  CHECK(error("").find("is empty") != std::string::npos);
  CHECK(error("\x1f\x8b\x08 no gzip").find("gzip data is damaged") != std::string::npos);
  CHECK(read_trace("/nowhere/x.jsonl", 0).error().message.find("/nowhere/x.jsonl") == 0);
}

TEST_CASE("equal block ids of a trace are equal tokens, the rest is each request's own") {
  const Trace trace = trace_of(
      R"({"arrival_ms":0,"input_tokens":300,"output_tokens":1,"blocks":[[0,2]]}
{"arrival_ms":0,"input_tokens":300,"output_tokens":1,"blocks":[[0,1],[5,1]]}
{"arrival_ms":0,"input_tokens":300,"output_tokens":1})");
  const auto first = trace.prompt(0);
  const auto second = trace.prompt(1);
  const auto third = trace.prompt(2);
  CHECK(first.size() == 300);
  CHECK(third.size() == 300);
  CHECK(block(first, 0) == block(second, 0));
  CHECK(block(first, 1) != block(second, 1));
  CHECK(block(first, 0) != block(third, 0));
  CHECK(std::vector(first.begin() + 256, first.end()) !=
        std::vector(second.begin() + 256, second.end()));
  CHECK(first == trace.prompt(0));
}

TEST_CASE("a turn waits for the end of the one before it and its pause, others for their arrival") {
  const Trace trace = trace_of(kSession);
  const auto arrivals = trace.arrivals();
  REQUIRE(arrivals.size() == 2);
  CHECK(arrivals[0].request == 0);
  CHECK(arrivals[0].after == Nanos{0});
  CHECK(arrivals[1].request == 2);
  CHECK(arrivals[1].after == milliseconds(1500));
  const auto second = trace.next_turn(0, milliseconds(9000));
  REQUIRE(second.has_value());
  CHECK(second->request == 1);
  CHECK(second->after == milliseconds(700));
  CHECK_FALSE(trace.next_turn(2, minutes(1)).has_value());
  CHECK_FALSE(trace.next_turn(3, minutes(1)).has_value());
}

TEST_CASE("a turn whose pause is unknown comes at its arrival, or later with the one before it") {
  const Trace trace = trace_of(kSession);
  CHECK(trace.next_turn(1, milliseconds(1000))->after == milliseconds(3000));
  CHECK(trace.next_turn(1, milliseconds(5000))->after == Nanos{0});
}

TEST_CASE("a rate makes arrivals and pauses so many times shorter") {
  const Trace trace = trace_of(kSession, 10);
  CHECK(trace.arrivals()[1].after == milliseconds(150));
  CHECK(trace.next_turn(0, milliseconds(1))->after == milliseconds(70));
  CHECK(trace.span() == milliseconds(400));
}

TEST_CASE("the longest play of a trace has every turn of a session answered as late as can be") {
  const Trace trace = trace_of(kSession);
  CHECK(trace.longest(Nanos{0}) == milliseconds(4000));
  CHECK(trace.longest(minutes(1)) == 2 * minutes(1) + milliseconds(700));
}

namespace {

scenario::Scenario playing(const TraceFile& file, const std::string& more) {
  const TraceChoice choice{file.path().string(), 0, 1};
  auto scenario = parse_scenario("node: \"gateway router\" node: \"prefill decode\" " + more, "x");
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  scenario->mutable_workload()->set_leave_percent(0);
  scenario->mutable_workload()->set_stop_percent(0);
  play_trace(*scenario, choice);
  return *std::move(scenario);
}

std::int64_t count_of(const Outcome& outcome, const std::string& answer) {
  const auto found = outcome.answers.find(answer);
  return found == outcome.answers.end() ? 0 : found->second;
}

}  // namespace

TEST_CASE("a session goes on after its gateway died, refused and reset turns included") {
  std::string text;
  for (int turn = 0; turn < 12; ++turn) {
    text += R"({"arrival_ms":)" + std::to_string(100 * turn) + R"(,"session":"a","turn":)" +
            std::to_string(turn) +
            R"(,"input_tokens":50,"output_tokens":60,"think_ms":100,"blocks":[]})" + "\n";
  }
  const TraceFile file(text);
  const Outcome outcome = run_scenario(
      playing(file, "fault { kind: KILL node: 0 at_ms: 250 for_ms: 400 } probes: 0 device { drafts: 0 }"), {3, false});
  CHECK(outcome.violations.empty());
  CHECK(count_of(outcome, "reset") == 1);
  CHECK(count_of(outcome, "refused") > 0);
  CHECK(count_of(outcome, "reset") + count_of(outcome, "refused") +
            count_of(outcome, "completed") ==
        12);
}

TEST_CASE("requests of a trace that do not fit the context are counted, their session goes on") {
  const TraceFile file(
      R"({"arrival_ms":0,"session":"a","turn":0,"input_tokens":100,"output_tokens":10,"blocks":[],"think_ms":0}
{"arrival_ms":1,"session":"a","turn":1,"input_tokens":1015,"output_tokens":10,"think_ms":5}
{"arrival_ms":2,"session":"a","turn":2,"input_tokens":1014,"output_tokens":10,"think_ms":5}
)");
  const Outcome outcome = run_scenario(playing(file, "device { blocks: 8 } probes: 0"), {1, false});
  CHECK(outcome.violations.empty());
  CHECK(count_of(outcome, "too_long") == 1);
  CHECK(count_of(outcome, "completed") == 2);
}

TEST_CASE("answers of a trace are as long as it says, also beyond the default context") {
  const TraceFile file(R"({"arrival_ms":0,"input_tokens":9000,"output_tokens":17})");
  const Outcome outcome =
      run_scenario(playing(file, "device { blocks: 80 row_us: 1 } probes: 0"), {1, true});
  CHECK(outcome.violations.empty());
  const auto finished =
      std::find_if(outcome.events.begin(), outcome.events.end(), [](const std::string& line) {
        return line.find(" request.finished ") != std::string::npos;
      });
  REQUIRE(finished != outcome.events.end());
  CHECK(event_field(*finished, "tokens") == "17");
}

TEST_CASE("a scenario file names its trace relative to itself") {
  const auto scenario = read_scenario(SHOAL_SCENARIOS "/agents_over_a_kill.txtpb");
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  CHECK(read_trace(scenario->workload().trace(), 0)->size() == 60);
}

TEST_CASE("a trace that cannot be played is refused when it is measured") {
  const TraceFile file(kSession);
  CHECK(measure_trace({file.path().string(), 3, 1})->requests == 3);
  CHECK_FALSE(measure_trace({file.path().string(), 3, 0}).has_value());
  CHECK_FALSE(measure_trace({"none.jsonl", 3, 1}).has_value());
}
