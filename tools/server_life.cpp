// Signals are taken by one waiting thread, so nothing has to be safe in a handler.
#include "tools/server_life.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tools/commands.h"

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

void wait_for_the_first(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  std::fprintf(stderr, "shoal: draining; once more to leave at once\n");
  std::thread([signals] {
    int again = 0;
    sigwait(&signals, &again);
    std::_Exit(128 + again);
  }).detach();
}

}  // namespace

int run_until_signal(const ServerLife& life) {
  const sigset_t signals = block_end_signals();
  const Instant began = monotonic_now();
  auto server = life.start();
  if (!server) {
    return report(server.error());
  }
  life.ready(**server, monotonic_now() - began);
  wait_for_the_first(signals);
  if (!(*server)->drain(life.drain_limit)) {
    std::fprintf(
        stderr,
        "shoal: some answers were cut after %lld ms (request.drain_ms)\n",
        static_cast<long long>(
            std::chrono::duration_cast<std::chrono::milliseconds>(life.drain_limit).count()));
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

}  // namespace shoal::tools
