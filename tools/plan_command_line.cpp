// What to plan from: files, and flags over them.
#include "tools/plan_command_line.h"

#include "tools/flag_checks.h"

namespace shoal::tools {

void add_plan(CLI::App& app, CommandLine& line) {
  CLI::App* plan = app.add_subcommand(
      "plan", "how many GPUs a load takes, in which parallelism, and what a token costs");
  PlanOptions& o = line.plan;
  plan->add_option("--workload", o.workload, "file, or a name in deploy/workloads")
      ->check(not_empty())
      ->capture_default_str();
  plan->add_option("--machine", o.machine, "file, or a name in deploy/machines")
      ->check(not_empty())
      ->capture_default_str();
  const CLI::Range tokens(1.0, 1e18);
  plan->add_option("--input-tokens", o.input_tokens, "a day, in place of the file's")
      ->check(tokens);
  plan->add_option("--output-tokens", o.output_tokens, "a day")->check(tokens);
  plan->add_option("--prompt-tokens", o.prompt_tokens, "of a request, mean")->check(tokens);
  plan->add_option("--hit-share", o.hit_share, "of the input, 0 to 0.999")->check(real(0.0, 0.999));
  plan->add_option("--slo-ttft-ms", o.ttft_ms, "mean time to the first token, at most")
      ->check(CLI::Range(1, 1'000'000'000));
  plan->add_option("--slo-user-rate", o.user_rate, "tokens/s of an answer, at least")
      ->check(real(0.01, 1e6));
  plan->add_flag("--all", o.all, "every layout, not only the best of each stage and reasons");
  CLI::Option* economics =
      plan->add_flag("--economics", o.economics, "size and income of published fleets instead");
  CLI::Option* storage =
      plan->add_flag("--storage", o.storage, "what the KV of the load takes to store instead")
          ->excludes(economics);
  plan->add_flag("--validate", o.validate, "published figures beside the planner's instead")
      ->excludes(economics)
      ->excludes(storage);
  plan->add_flag("--json", o.json, "a line of JSON a row");
  plan->footer(
      "Examples:\n  shoal plan --workload chat-small --machine b200-hgx --slo-user-rate 80\n"
      "  shoal plan --validate");
  plan->callback([&line] { line.status = run_plan(line.plan); });
}

}  // namespace shoal::tools
