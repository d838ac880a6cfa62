// shoal serve: a node until SIGTERM or SIGINT; the first one drains, a second one leaves at once.
// shoal config: what serve would run with.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tools/commands.h"
#include "tools/local_server.h"
#include "tools/server_plan.h"

namespace shoal::tools {

namespace {

// Blocked in every thread that starts after this, so that only the waiting one gets them.
sigset_t block_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

void print_ready(const LocalServer& server, Nanos took, bool has_key) {
  const std::string url = server.url();
  std::printf(
      "shoal serves %s at %s (ready in %lld ms)\n",
      server.model_name().c_str(),
      url.c_str(),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  std::printf(
      "try: curl -s %s/v1/chat/completions %s-H 'Content-Type: application/json' -d '{\"model\": "
      "\"%s\", \"messages\": "
      "[{\"role\": \"user\", \"content\": \"What is shoal?\"}], \"thinking\": {\"type\": "
      "\"disabled\"}}'\n",
      url.c_str(),
      has_key ? "-H 'Authorization: Bearer KEY' " : "",
      server.model_name().c_str());
  std::fflush(stdout);
}

}  // namespace

int run_serve(const Config& config) {
  const sigset_t signals = block_end_signals();
  const Instant began = monotonic_now();
  auto server = LocalServer::start(config);
  if (!server) {
    return report(server.error());
  }
  print_ready(**server, monotonic_now() - began, config.http().api_key_size() > 0);
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "shoal: draining; once more to leave at once\n");
  std::thread([signals] {
    int again = 0;
    sigwait(&signals, &again);
    std::_Exit(128 + again);
  }).detach();
  const std::chrono::milliseconds limit(config.request().drain_ms());
  if (!(*server)->drain(limit)) {
    std::fprintf(stderr,
                 "shoal: some answers were cut after %lld ms (request.drain_ms)\n",
                 static_cast<long long>(limit.count()));
  }
  const bool stopped = (*server)->stop();
  if (!stopped) {
    std::fprintf(stderr, "shoal: a part of the node would not stop\n");
  }
  std::fflush(nullptr);
  // Leaves without destructors: the second-signal thread never ends, and an actor that would not
  // stop must not hold the exit. An answer that was cut has got its last event, so it is no
  // failure.
  std::_Exit(stopped ? 0 : 1);
}

int run_config(const ConfigSources& sources) {
  if (const auto plan = plan_server(sources.config); !plan) {
    return report(plan.error());
  }
  std::fputs(describe_config(sources).c_str(), stdout);
  return 0;
}

}  // namespace shoal::tools
