// The same node on real threads and the real launch queue.
#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <vector>

#include "actors/node.h"
#include "kernels/launch_queue.h"
#include "kernels/sim/sim_backend.h"
#include "tests/sim/node_clients.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using std::chrono::seconds;

Instant clock_now() {
  return std::chrono::steady_clock::now();
}

struct ThreadedNode {
  kernels::SimModel model;
  kernels::SimBackend backend{model, {.blocks = 256, .sequences = 32}};
  kernels::LaunchQueue queue{backend, clock_now};
  std::unique_ptr<Node> node;
  std::unique_ptr<Clients> clients;

  ThreadedNode() {
    auto built = build_node(Config(),
                            Parts{backend.shape(),
                                  {{&backend, &queue}},
                                  clock_now,
                                  [](LogLevel, std::string_view) {},
                                  nullptr,
                                  {}});
    REQUIRE(built.has_value());
    node = *std::move(built);
    clients = std::make_unique<Clients>(*node, clock_now, StreamLimits{.attempts = 50});
  }

  ~ThreadedNode() { CHECK(node->shut_down(seconds(20))); }
};

}  // namespace

TEST_CASE(
    "two hundred concurrent answers on real threads are the device's truth, through deaths of "
    "workers") {
  ThreadedNode threaded;
  std::mt19937_64 random(1);
  MESSAGE("seed 1");
  std::vector<std::pair<RequestId, Wanted>> asked;
  for (int i = 0; i < 200; ++i) {
    const Wanted request = wanted(random(),
                                  static_cast<std::int64_t>(1 + random() % 400),
                                  static_cast<int>(1 + random() % 40));
    asked.emplace_back(threaded.clients->ask(request), request);
    if (i % 50 == 25) {
      threaded.node->end_part(i % 100 == 25 ? "decode_worker.0" : "prefill_worker.0");
    }
  }
  REQUIRE(threaded.clients->wait_until_all_over(seconds(60)));
  for (const auto& [id, request] : asked) {
    const Answer answer = threaded.clients->answer(id);
    CHECK_FALSE(answer.error.has_value());
    REQUIRE(answer.basis.has_value());
    CHECK(answer.tokens ==
          sim_answer(threaded.model, request, *answer.basis, threaded.node->context()));
  }
  CHECK(threaded.node->drain(seconds(20)));
}

TEST_CASE("the default options of streams are the streams' own defaults") {
  const StreamLimits configured = stream_limits(Config());
  const StreamLimits built_in;
  CHECK(configured.attempts == built_in.attempts);
  CHECK(configured.held_tokens == built_in.held_tokens);
  CHECK(configured.hold == built_in.hold);
  CHECK(configured.progress == built_in.progress);
  CHECK(configured.first_token == built_in.first_token);
}

TEST_CASE("a node that is stopped under load fails what is open and gives all memory back") {
  kernels::SimBackend* backend = nullptr;
  {
    ThreadedNode threaded;
    for (std::uint64_t i = 0; i < 50; ++i) {
      threaded.clients->ask(wanted(i, 300, 2'000));
    }
    REQUIRE(threaded.clients->wait_for_tokens(RequestId{1}, 3, seconds(20)));
    CHECK(threaded.node->shut_down(seconds(20)));
    CHECK(threaded.clients->open() == 0);
    backend = &threaded.backend;
    CHECK(backend->arena().free_blocks() == backend->arena().blocks());
    CHECK(backend->arena().free_sequences() == backend->arena().sequences());
  }
}
