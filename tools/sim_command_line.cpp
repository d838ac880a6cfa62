// What is simulated: actors, as scenarios and seeds say, or a fleet without them.
#include "tools/sim_command_line.h"

#include "tools/flag_checks.h"

namespace shoal::tools {

namespace {

// A fleet has no actors: what says how theirs run means nothing to it.
constexpr const char* kOfActors[] = {
    "--scenario", "--seeds", "--nodes", "--topology", "--requests", "--kv", "--shrink", "--log"};

void add_fleet_flags(CLI::App& sim, SimOptions& o, CLI::Option& trace) {
  CLI::Option* fleet =
      sim.add_option(
             "--fleet",
             o.fleet,
             "a fleet without actors, from this file: thousands of GPUs for hours; the same "
             "policies")
          ->check(CLI::ExistingFile)
          ->needs(&trace);
  for (const char* flag : kOfActors) {
    fleet->excludes(sim.get_option(flag));
  }
  sim.add_option(
         "--compare",
         o.compare,
         "rows of policies, a run of the fleet each: ROLE:ROW, ROLE one of prefill, store, vision, "
         "verify, experts, split, scale; ROW alone is one of prefill")
      ->delimiter(',')
      ->needs(fleet);
  sim.add_option("--hours", o.hours, "of arrivals at the fleet; the trace comes again and again")
      ->check(real(0.001, 10000.0))
      ->needs(fleet)
      ->capture_default_str();
  sim.add_option("--from-hour", o.from_hour, "of the trace, for a fleet")
      ->check(CLI::Range(0, 100000))
      ->needs(fleet);
  sim.add_option("--to-hour", o.to_hour, "of the trace, for a fleet; 0: its end")
      ->check(CLI::Range(0, 100000))
      ->needs(fleet);
  sim.add_option("--copies",
                 o.copies,
                 "so many of the trace run at once at its own pace, each beginning a little later: "
                 "pauses stay as recorded")
      ->check(CLI::Range(1, 1000000))
      ->needs(fleet)
      ->capture_default_str();
  CLI::Option* rates =
      sim.add_option("--rates",
                     o.rates,
                     "arrivals follow this week of rates (CSV as for bench autoscale); --rate and "
                     "--copies are for its busiest rows")
          ->check(CLI::ExistingFile)
          ->needs(fleet);
  sim.add_option("--service", o.service, "of --rates; default: its first")->needs(rates);
  sim.add_option("--plot", o.plot, "folder for charts of the fleet (SVG)")->needs(fleet);
  sim.add_flag("--json", o.json, "a line of JSON a run of the fleet")->needs(fleet);
}

}  // namespace

void add_sim(CLI::App& app, CommandLine& line) {
  CLI::App* sim = app.add_subcommand(
      "sim", "run the production actors of a whole cluster under faults, from a seed");
  SimOptions& o = line.sim;
  CLI::Option* scenario =
      sim->add_option("--scenario", o.scenarios, "scenario file, or folder of them; repeatable")
          ->check(CLI::ExistingPath);
  CLI::Option* seed = sim->add_option("--seed", o.seed, "run this seed")->capture_default_str();
  sim->add_option("--seeds", o.seeds, "run all seeds of a range A..B")->excludes(seed);
  CLI::Option* nodes =
      sim->add_option("--nodes", o.nodes, "nodes of a scenario that the seed draws")
          ->check(CLI::Range(1, 64))
          ->excludes(scenario)
          ->capture_default_str();
  sim->add_option("--topology", o.topology, "draw scenarios for the nodes of this topology file")
      ->check(not_empty())
      ->excludes(scenario)
      ->excludes(nodes);
  CLI::Option* trace =
      sim->add_option("--trace",
                      o.trace,
                      "play the requests of this file (JSON Lines, plain or gzip; format in "
                      "tests/sim/README.md) in place of drawn ones")
          ->check(CLI::ExistingFile);
  sim->add_option("--requests", o.requests, "play the first so many of the trace; 0: all")
      ->check(CLI::Range(0, 1000000000))
      ->needs(trace)
      ->capture_default_str();
  sim->add_option("--rate", o.rate, "arrivals and pauses of the trace are that many times shorter")
      ->check(real(0.01, 1e6))
      ->needs(trace)
      ->capture_default_str();
  sim->add_flag("--kv", o.keeps_kv, "nodes keep KV in a store that they share, in every run");
  sim->add_flag("--shrink", o.shrink, "reduce a failing run to the fewest faults and requests");
  sim->add_option("--log",
                  o.log,
                  "file for the event log of a single run; or for the progress of a range of "
                  "seeds, which goes on there when it was interrupted")
      ->check(not_empty());
  add_fleet_flags(*sim, o, *trace);
  sim->footer(
      "Examples:\n  shoal sim --seed 7\n  shoal sim --nodes 8 --seeds 1..1000 --log soak.log\n"
      "  shoal sim --scenario tests/sim/scenarios --seeds 1..20\n"
      "  shoal sim --trace chat.jsonl.gz --requests 500 --nodes 5\n"
      "  shoal sim --fleet tests/sim/fleet/fleets/tenth.txtpb --trace agentic.jsonl.gz --rate 400");
  sim->callback([&line] {
    line.status = line.sim.fleet.empty() ? run_sim(line.sim) : run_sim_fleet(line.sim);
  });
}

}  // namespace shoal::tools
