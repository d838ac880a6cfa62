// The phases of a run.
#include "tests/sim/scenario.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "actors/policy/verify_histogram.h"
#include "tests/sim/counters.h"
#include "tests/sim/faults.h"
#include "tests/sim/invariants.h"
#include "tests/sim/listed.h"
#include "tests/sim/monitor.h"
#include "tests/sim/workload.h"

namespace shoal::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) {
      text = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message;
    }
  }

  std::string text;
};

Result<NodeRoles> roles_of(const std::string& words) {
  NodeRoles roles;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    if (word == "all") {
      roles = kAllRoles;
    } else if (word == "gateway") {
      roles.gateway = true;
    } else if (word == "router") {
      roles.router = true;
    } else if (word == "prefill") {
      roles.prefill = true;
    } else if (word == "decode") {
      roles.decode = true;
    } else if (word == "experts") {
      roles.experts = true;
    } else {
      return fail(Code::kMisconfigured,
                  "node: unknown role \"" + word +
                      "\"; known: all, gateway, router, prefill, decode, experts");
    }
  }
  return roles;
}

// Of the models whose traces there are; less where the KV memory of the devices ends first.
constexpr Position kTraceContext = 1 << 20;

Result<DeviceModel> model_of(const scenario::Scenario& scenario) {
  const scenario::Device& device = scenario.device();
  DeviceModel model;
  if (!device.model().empty()) {
    if (device.has_eos_period() || device.has_image_bytes() || device.has_drafts()) {
      return fail(
          Code::kMisconfigured,
          "device: eos_period, image_bytes and drafts are for hashes; leave them out with a model");
    }
    TRY(model.weights, built_in_model(device.model()));
  }
  model.hashes.eos_period = device.eos_period();
  model.hashes.image_padding = device.image_bytes();
  model.hashes.drafts = device.drafts();
  if (scenario.workload().has_trace()) {
    model.hashes.max_positions = kTraceContext;
  }
  return model;
}

// Tails of sessions are on offer for so long, unless the scenario says otherwise: less than most
// pauses between turns, so that these start behind tails and behind blocks.
constexpr std::int64_t kTailMs = 1'000;

WorldSetup setup_of(const scenario::Scenario& scenario, const RunOptions& options) {
  WorldSetup setup;
  setup.seed = options.seed;
  setup.tamper = options.tamper;
  setup.nodes.clear();
  for (const std::string& node : scenario.node()) {
    setup.nodes.push_back(roles_of(node).value());
  }
  setup.model = model_of(scenario).value();
  setup.size = {.blocks = scenario.device().blocks(), .sequences = scenario.device().sequences()};
  setup.ranks = scenario.device().ranks();
  setup.transport.offered = Bytes(scenario.device().offered_bytes());
  setup.cost.step = microseconds(scenario.device().step_us());
  setup.cost.row = microseconds(scenario.device().row_us());
  setup.stream.progress = milliseconds(scenario.clients().progress_ms());
  setup.stream.first_token = milliseconds(scenario.clients().first_token_ms());
  setup.unread_tokens = scenario.clients().unread_tokens();
  setup.keeps_kv = scenario.has_store();
  setup.kv.bytes = Bytes(scenario.store().bytes());
  setup.kv.queued = Bytes(scenario.store().queued_bytes());
  setup.kv.loading = Bytes(scenario.store().loading_bytes());
  setup.kv.hours.fill(scenario.store().hours());
  setup.configure = [&scenario](Config& config) {
    config.MergeFrom(scenario.config());
    config.mutable_log()->set_level("debug");
    if (scenario.has_store() && !scenario.config().kv().has_tail_ms()) {
      config.mutable_kv()->set_tail_ms(kTailMs);
    }
  };
  return setup;
}

Result<Trace> trace_of(const scenario::Workload& workload) {
  if (!(workload.trace_rate() >= 0.01)) {
    return fail(Code::kMisconfigured, workload.trace() + ": trace_rate: expected 0.01 or more");
  }
  TRY(auto requests, read_trace(workload.trace(), workload.trace_requests()));
  return Trace(std::move(requests), workload.trace_rate());
}

// What its file says was checked when the scenario was read.
std::optional<Trace> checked_trace_of(const scenario::Workload& workload) {
  return workload.has_trace() ? std::optional(trace_of(workload).value()) : std::nullopt;
}

void count_answers(const Workload& workload, std::map<std::string, std::int64_t>& counts) {
  for (const auto& [how, count] : workload.unsent()) {
    counts[how] += count;
  }
  for (const Asked& asked : workload.asked()) {
    const testing::Answer answer = asked.clients->answer(asked.request);
    const bool expired = answer.error && answer.error->code == Code::kDeadline;
    ++counts[answer.reset   ? "reset"
             : answer.left  ? "cancelled"
             : answer.cut   ? "cut"
             : expired      ? "expired"
             : answer.error ? "failed"
                            : "completed"];
  }
}

Result<void> check_roles(const std::vector<NodeRoles>& nodes) {
  constexpr std::pair<const char*, bool NodeRoles::*> kRoles[] = {{"gateway", &NodeRoles::gateway},
                                                                  {"router", &NodeRoles::router},
                                                                  {"prefill", &NodeRoles::prefill},
                                                                  {"decode", &NodeRoles::decode}};
  for (const auto& [name, role] : kRoles) {
    if (std::none_of(nodes.begin(), nodes.end(), [role = role](const NodeRoles& node) {
          return node.*role;
        })) {
      return fail(Code::kMisconfigured,
                  std::string("node: no node has the role ") + name + "; give it to one");
    }
  }
  return {};
}

Result<void> check_reaches(const std::string& counter) {
  const auto known = counter_names();
  if (std::find(known.begin(), known.end(), counter) != known.end()) {
    return {};
  }
  const auto nearest = nearest_name(counter, known);
  return fail(Code::kMisconfigured,
              "reaches: unknown counter \"" + counter + "\", " +
                  (nearest ? "nearest: " + *nearest : "known: " + listed(known)));
}

Result<void> check_range(const char* field,
                         std::int64_t value,
                         std::int64_t low,
                         std::int64_t high) {
  if (value < low || value > high) {
    return fail(Code::kMisconfigured,
                std::string(field) + ": " + std::to_string(value) + " is outside " +
                    std::to_string(low) + " .. " + std::to_string(high));
  }
  return {};
}

Result<void> check_sizes(const scenario::Scenario& scenario) {
  constexpr std::int64_t kMost = 1'000'000;
  const scenario::Workload& workload = scenario.workload();
  TRY_VOID(check_range("device.blocks", scenario.device().blocks(), 1, kMost));
  TRY_VOID(check_range("device.ranks", scenario.device().ranks(), 1, 64));
  TRY_VOID(check_range("device.drafts", scenario.device().drafts(), 0, kMostDrafts));
  TRY_VOID(check_range("device.offered_bytes", scenario.device().offered_bytes(), 0, 1LL << 40));
  TRY_VOID(check_range("device.sequences", scenario.device().sequences(), 1, kMost));
  TRY_VOID(check_range("workload.requests", workload.requests(), 0, kMost));
  TRY_VOID(check_range("workload.burst", workload.burst(), 0, kMost));
  TRY_VOID(check_range("workload.prompt_min", workload.prompt_min(), 1, kMost));
  TRY_VOID(check_range("workload.answer_min", workload.answer_min(), 1, kMost));
  TRY_VOID(check_range("workload.texts", workload.texts(), 0, kMost));
  TRY_VOID(check_range("workload.tenants", workload.tenants(), 1, kMost));
  TRY_VOID(check_range("settle_s", scenario.settle_s(), 0, kMost));
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  TRY_VOID(check_range("store.bytes", scenario.store().bytes(), kLeast, kLargest));
  TRY_VOID(check_range("store.queued_bytes", scenario.store().queued_bytes(), 0, kLargest));
  TRY_VOID(check_range("store.loading_bytes", scenario.store().loading_bytes(), 0, kLargest));
  TRY_VOID(check_range("store.hours", scenario.store().hours(), 1, kMost));
  return validate(scenario.config());
}

Breakable breakable(const scenario::Scenario& scenario, std::vector<NodeRoles> nodes) {
  return {.nodes = std::move(nodes),
          .has_store = scenario.has_store(),
          .shards = scenario.config().experts().shards()};
}

Result<void> check(const scenario::Scenario& scenario) {
  std::vector<NodeRoles> nodes;
  for (const std::string& words : scenario.node()) {
    TRY(const NodeRoles roles, roles_of(words));
    nodes.push_back(roles);
  }
  TRY_VOID(check_roles(nodes));
  TRY_VOID(check_sizes(scenario));
  TRY_VOID(model_of(scenario));
  const Breakable there = breakable(scenario, nodes);
  if (there.expert_shards() > 0 && scenario.device().model().empty()) {
    return fail(Code::kMisconfigured,
                "device: hashes have no experts for shards; name a model, or leave out "
                "experts.shards and the role experts");
  }
  for (const scenario::Fault& fault : scenario.fault()) {
    TRY_VOID(check_fault(fault, there));
  }
  for (const std::string& counter : scenario.reaches()) {
    TRY_VOID(check_reaches(counter));
  }
  return {};
}

}  // namespace

Result<scenario::Scenario> parse_scenario(const std::string& text, const std::string& name) {
  scenario::Scenario scenario;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &scenario)) {
    return fail(Code::kMisconfigured, name + ":" + error.text);
  }
  if (scenario.node_size() == 0) {
    return fail(Code::kMisconfigured, name + ": node: a scenario needs at least one");
  }
  if (const auto sound = check(scenario); !sound) {
    return fail(Code::kMisconfigured, name + ": " + sound.error().message);
  }
  return scenario;
}

Result<scenario::Scenario> read_scenario(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) {
    return fail(Code::kMisconfigured, file.string() + ": cannot be read; name a scenario file");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  TRY(scenario::Scenario scenario, parse_scenario(text.str(), file.string()));
  if (scenario.workload().has_trace()) {
    scenario::Workload& workload = *scenario.mutable_workload();
    workload.set_trace((file.parent_path() / workload.trace()).string());
    TRY_VOID(trace_of(workload));
  }
  return scenario;
}

Result<TraceSize> measure_trace(const TraceChoice& choice) {
  scenario::Scenario scenario;
  play_trace(scenario, choice);
  TRY(const Trace trace, trace_of(scenario.workload()));
  return TraceSize{static_cast<std::int64_t>(trace.size()), trace.span()};
}

void play_trace(scenario::Scenario& scenario, const TraceChoice& choice) {
  scenario::Workload& workload = *scenario.mutable_workload();
  workload.set_trace(choice.file);
  workload.set_trace_requests(choice.requests);
  workload.set_trace_rate(choice.rate);
}

scenario::Scenario written_out(const scenario::Scenario& scenario, std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL + 1);
  std::vector<NodeRoles> nodes;
  for (const std::string& node : scenario.node()) {
    nodes.push_back(roles_of(node).value());
  }
  const Breakable there = breakable(scenario, std::move(nodes));
  scenario::Scenario written = scenario;
  for (scenario::Fault& fault : draw_faults(scenario.random(), there, random)) {
    *written.add_fault() = std::move(fault);
  }
  written.clear_random();
  return written;
}

std::string scenario_text(const scenario::Scenario& scenario) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(scenario, &text);
  return text;
}

namespace {

std::int64_t requests_of(const scenario::Workload& workload) {
  const auto trace = checked_trace_of(workload);
  return trace ? static_cast<std::int64_t>(trace->size()) : workload.requests();
}

// Of a trace at least one: none would mean all.
void set_requests(scenario::Workload& workload, std::int64_t requests) {
  if (workload.has_trace()) {
    workload.set_trace_requests(std::max<std::int64_t>(1, requests));
  } else {
    workload.set_requests(static_cast<std::int32_t>(requests));
  }
}

}  // namespace

scenario::Scenario shrink(const scenario::Scenario& scenario,
                          std::uint64_t seed,
                          const std::string& invariant,
                          const std::function<void(int runs)>& progress) {
  scenario::Scenario smallest = written_out(scenario, seed);
  int runs = 0;
  const auto still_fails = [&](const scenario::Scenario& candidate) {
    const Outcome outcome = run_scenario(candidate, {seed, false});
    progress(++runs);
    return std::any_of(outcome.violations.begin(),
                       outcome.violations.end(),
                       [&invariant](const Violation& v) { return v.invariant == invariant; });
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (int f = smallest.fault_size() - 1; f >= 0; --f) {
      scenario::Scenario candidate = smallest;
      candidate.mutable_fault()->DeleteSubrange(f, 1);
      if (still_fails(candidate)) {
        smallest = std::move(candidate);
        smaller = true;
      }
    }
    const std::int64_t requests = requests_of(smallest.workload());
    for (const std::int64_t fewer : {requests / 2, requests - 1}) {
      scenario::Scenario candidate = smallest;
      set_requests(*candidate.mutable_workload(), fewer);
      if (fewer >= 0 && fewer < requests && still_fails(candidate)) {
        smallest = std::move(candidate);
        smaller = true;
        break;
      }
    }
  }
  return smallest;
}

Outcome run_scenario(const scenario::Scenario& scenario, const RunOptions& options) {
  Outcome outcome;
  const DeviceModel model = model_of(scenario).value();
  World world(setup_of(scenario, options));
  Monitor monitor(world);
  monitor.start();
  const Instant began = world.now();
  Workload workload(world, scenario.workload(), checked_trace_of(scenario.workload()));
  if (!world.run_until_whole(seconds(30))) {
    outcome.violations.push_back({"full_service_returns", "the cluster never became whole", {}});
  }

  // Safety: faults and clients together.
  world.count_time();
  const auto faults = written_out(scenario, options.seed).fault();
  Nanos last{0};
  for (const scenario::Fault& fault : faults) {
    schedule_fault(world, fault, outcome.faults);
    last = std::max<Nanos>(last, milliseconds(fault.at_ms() + fault.for_ms()));
  }
  workload.schedule();
  const Instant quiet = world.now() + last;
  world.run([&] { return world.now() >= quiet && workload.all_came(); }, workload.longest());
  const auto over = [&] { return workload.all_came() && world.all_over(); };

  // Liveness: nothing is broken any more.
  world.end_disturbances();
  const Instant mended = world.now();
  Finished run{world, workload, model};
  run.whole_again = world.run_until_whole(seconds(30));
  const Instant whole = world.now();
  outcome.whole = whole - mended;
  run.settled = world.run(over, seconds(scenario.settle_s()));
  outcome.settled = world.now() - whole;
  world.run(over, std::chrono::minutes(6));
  for (int round = 0; round < scenario.probes(); ++round) {
    workload.probe();
    world.run_until_all_over(std::chrono::minutes(6));
  }
  // A node that was silent as the faults ended may have been left out since.
  run.whole_again = run.whole_again && world.run_until_whole(seconds(30));
  // What was cancelled is given up within a second.
  world.run(
      [&world] {
        return world.memory_is_free() && world.nothing_offered() && world.nothing_queued() &&
               world.believed_answers().empty();
      },
      seconds(2) + (world.keeps_kv() ? milliseconds(world.config().kv().tail_ms()) : Nanos{0}));
  run.memory_free = world.memory_is_free();
  if (world.keeps_kv()) {
    world.run_for(seconds(4));  // all see what was stored last
  }
  outcome.violations.insert(
      outcome.violations.end(), monitor.violations().begin(), monitor.violations().end());
  for (Violation& violation : check_invariants(run)) {
    outcome.violations.push_back(std::move(violation));
  }
  outcome.hash = world.hash();
  outcome.time = world.now() - began;
  outcome.messages = world.messages();
  count_answers(workload, outcome.answers);
  count_events(world.events(), outcome.counters);
  outcome.kv = world.kv_counts();
  if (options.keep_events) {
    for (std::size_t i = 0; i < world.events().size(); ++i) {
      outcome.events.push_back(world.timed_event(i));
    }
  }
  return outcome;
}

}  // namespace shoal::sim
