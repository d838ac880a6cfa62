// Signals are taken by one waiting thread, so nothing has to be safe in a handler.
#include "tools/server_life.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include "tools/commands.h"

namespace shoal::tools {

namespace {

// For what a node that cannot serve has still to tell its clients.
constexpr Nanos kLastWords = std::chrono::seconds(1);

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

// True: a signal came; false: `server` cannot serve.
bool wait_for_the_end(const sigset_t& signals, const LocalServer& server) {
  constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (server.can_serve()) {
    if (sigtimedwait(&signals, nullptr, &kLook) > 0) {
      return true;
    }
  }
  return false;
}

long long in_ms(Nanos time) {
  return static_cast<long long>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

// "1 answer", "2 answers".
std::string count(std::int64_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

// What a drain waits for.
std::string draining_line(const WorkLeft& work, Nanos limit) {
  const std::string most = ", at most " + std::to_string(in_ms(limit)) + " ms (request.drain_ms)";
  if (work.has_clients) {
    return work.answers == 0 ? "no answer is open"
                             : "waits for " + count(work.answers, "open answer") + most;
  }
  if (!work.has_memory) {
    return work.routed == 0 ? "its ledger holds no answer"
                            : "waits for " + count(work.routed, "answer") +
                                  " in its ledger to end if another router takes new ones" + most;
  }
  return "no client is connected here; " +
         (work.sequences == 0 ? "its KV memory holds no answer"
                              : "waits for " + count(work.sequences, "answer") +
                                    " in its KV memory to end or to go on on another node" + most);
}

// What of that was left when the time was over.
std::string left_line(const WorkLeft& work, std::int64_t cut_before) {
  return work.has_clients ? count(work.cut - cut_before, "answer") + " cut"
                          : count(work.has_memory ? work.sequences : work.routed, "answer") +
                                " left to be tried again elsewhere";
}

void leave_at_the_next(const sigset_t& signals) {
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
  const bool asked = wait_for_the_end(signals, **server);
  const Nanos limit = asked ? life.drain_limit : std::min(life.drain_limit, kLastWords);
  const WorkLeft open = (*server)->work_left();
  if (asked) {
    std::fprintf(stderr,
                 "shoal: draining: %s; once more to leave at once\n",
                 draining_line(open, limit).c_str());
  } else {
    std::fprintf(stderr, "shoal: the node cannot serve any more, see the log; start it again\n");
  }
  leave_at_the_next(signals);
  if (!(*server)->drain(limit)) {
    std::fprintf(stderr,
                 "shoal: %s after %lld ms%s\n",
                 left_line((*server)->work_left(), open.cut).c_str(),
                 in_ms(limit),
                 asked ? " (request.drain_ms)" : "");
  }
  const bool stopped = (*server)->stop();
  if (!stopped) {
    std::fprintf(stderr, "shoal: a part of the node would not stop\n");
  }
  std::fflush(nullptr);
  // Leaves without destructors: the second-signal thread never ends, and an actor that would not
  // stop must not hold the exit. An answer that was cut has got its last event, so it is no
  // failure.
  std::_Exit(asked && stopped ? 0 : 1);
}

}  // namespace shoal::tools
