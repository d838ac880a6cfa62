// The node on the built-in model: an answer that is cut off by a dying worker goes on with the very
// tokens it would have had.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/expert_shards.h"
#include "actors/node.h"
#include "actors/policy/expert_plan.h"
#include "actors/shard_group.h"
#include "kernels/launch_queue.h"
#include "kernels/registry.h"
#include "tests/sim/node_clients.h"
#include "transport/memory/memory_blocks.h"
#include "transport/registry.h"
#include "transport/thread_scheduler.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using std::chrono::seconds;

Instant clock_now() {
  return std::chrono::steady_clock::now();
}

std::unique_ptr<transport::BlockStore> open_store() {
  transport::BlockStoreParams params;
  params.policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  params.now = clock_now;
  params.wall = [] { return WallMillis{1}; };
  return transport::make_memory_blocks(std::move(params));
}

// Keeps prefill steps back while it is shut, and remembers the rows of each.
class GatedLauncher final : public kernels::Launcher {
 public:
  explicit GatedLauncher(kernels::Launcher& queue) : queue_(queue) {}

  void launch(kernels::Launch launch) override {
    const std::lock_guard lock(mutex_);
    if (launch.plan.queue != kernels::Queue::kPrefill) {
      queue_.launch(std::move(launch));
      return;
    }
    auto& rows = steps_.emplace_back();
    for (const kernels::RowRun& run : launch.plan.runs) {
      rows.push_back(run.rows());
    }
    if (shut_) {
      held_ = std::move(launch);
    } else {
      queue_.launch(std::move(launch));
    }
    changed_.notify_all();
  }

  void copy_out(kernels::KvExport copy) override { queue_.copy_out(std::move(copy)); }

  void copy_in(kernels::KvImport copy) override { queue_.copy_in(std::move(copy)); }

  void stop() override { queue_.stop(); }

  // Returns when a prefill step is held; false: none came.
  bool shut() {
    std::unique_lock lock(mutex_);
    shut_ = true;
    return changed_.wait_for(lock, seconds(60), [this] { return held_.has_value(); });
  }

  // Lets the held step run. The number of the next one.
  std::size_t open() {
    const std::lock_guard lock(mutex_);
    shut_ = false;
    queue_.launch(*std::exchange(held_, std::nullopt));
    return steps_.size();
  }

  // The rows of each run of a step; none: there was no such step.
  std::vector<std::int64_t> rows_of(std::size_t step) {
    const std::lock_guard lock(mutex_);
    return step < steps_.size() ? steps_[step] : std::vector<std::int64_t>{};
  }

 private:
  kernels::Launcher& queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::int64_t>> steps_;
  std::optional<kernels::Launch> held_;
  bool shut_ = false;
};

struct GuppyNode {
  std::unique_ptr<transport::BlockStore> store;
  std::unique_ptr<kernels::Device> device;
  transport::ThreadScheduler timers{clock_now};
  transport::ThreadScheduler executor{clock_now};
  std::unique_ptr<ExpertShards> experts;  // null: the device runs them itself
  std::unique_ptr<ShardGroup> group;
  transport::ThreadScheduler background{clock_now};  // ends before what it plans and loads for
  std::unique_ptr<kernels::LaunchQueue> queue;
  std::unique_ptr<GatedLauncher> gate;
  std::unique_ptr<Node> node;
  std::unique_ptr<Clients> clients;

  // `balance`: the policy by which experts move all the time; none: they stay.
  explicit GuppyNode(bool keeps_kv = false,
                     bool keeps_tails = true,
                     int expert_shards = 0,
                     std::string_view balance = {}) {
    kernels::DeviceConfig config;
    config.model = std::string(SHOAL_MODELS_DIR) + "/guppy";
    config.kv_blocks = 80;
    config.sequences = 8;
    config.yields_experts = expert_shards > 0;
    auto opened = kernels::open_device("cpu", config);
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    device = *std::move(opened);
    queue = std::make_unique<kernels::LaunchQueue>(
        device->backend(), clock_now, expert_shards > 0 ? open_experts(expert_shards) : nullptr);
    gate = std::make_unique<GatedLauncher>(*queue);
    KvParts kv;
    if (keeps_kv) {
      store = open_store();
      kv = {store.get(), {"guppy", "", device->backend().shape().block_layout, "", ""}, [] {
              return WallMillis{1};
            }};
    }
    Config options;
    if (!keeps_tails) {
      options.mutable_kv()->set_tail_bytes(0);
    }
    options.mutable_experts()->set_window_ms(balance.empty() ? 0 : 2);
    options.mutable_experts()->set_window_rows(1);
    options.mutable_experts()->set_policy(balance.empty() ? "ours" : std::string(balance));
    auto built = build_node(options,
                            Parts{device->backend().shape(),
                                  {{&device->backend(), gate.get()}},
                                  clock_now,
                                  [](LogLevel, std::string_view) {},
                                  nullptr,
                                  {},
                                  kv,
                                  {group.get(), background.port()}});
    REQUIRE(built.has_value());
    node = *std::move(built);
    clients = std::make_unique<Clients>(*node, clock_now);
  }

  ~GuppyNode() { CHECK(node->shut_down(seconds(20))); }

  kernels::ExchangeRunner open_experts(int shards) {
    auto exchange =
        transport::open_expert_exchange("shards", {.self = {}, .timers = timers.port()});
    REQUIRE(exchange.has_value());
    auto made = ExpertShards::open(
        {.shards = shards, .redundant = 1},
        [this](const auto& limits) { return device->make_expert_engine(limits); },
        *std::move(exchange),
        executor.port());
    REQUIRE(made.has_value());
    experts = *std::move(made);
    group = std::make_unique<ShardGroup>(*experts, background.port());
    return experts->runner();
  }

  // Returns when all full blocks of the prompt are there.
  Answer ask_and_store(const Wanted& request) {
    const Answer answer = wait(clients->ask(request));
    const auto blocks = static_cast<std::int64_t>(request.prompt.size()) / kBlockTokens;
    for (const Instant limit = clock_now() + seconds(20);
         store->use().blocks < blocks && clock_now() < limit;) {
      std::this_thread::yield();
    }
    REQUIRE(store->use().blocks >= blocks);
    return answer;
  }

  // Returns when the tails of prompt and answer are kept, too.
  Answer ask_and_keep(const Wanted& request) {
    const std::int64_t kept = node->metrics().kv_tails + 2;
    const Answer answer = ask_and_store(request);
    for (const Instant limit = clock_now() + seconds(20);
         node->metrics().kv_tails < kept && clock_now() < limit;) {
      std::this_thread::yield();
    }
    REQUIRE(node->metrics().kv_tails == kept);
    return answer;
  }

  // Returns when its prefill group was sent it.
  void wait_until_placed(RequestId id) const {
    const auto is_placed = [this, id] {
      const auto timeline = node->explain(id);
      return timeline &&
             std::any_of(timeline->entries.begin(), timeline->entries.end(), [](const auto& entry) {
               return entry.event == "prefill_placed";
             });
    };
    for (const Instant limit = clock_now() + seconds(20); !is_placed() && clock_now() < limit;) {
      std::this_thread::yield();
    }
    REQUIRE(is_placed());
  }

  Answer wait(RequestId id) {
    REQUIRE(clients->wait_until_all_over(seconds(60)));
    return clients->answer(id);
  }
};

Wanted story(BasisMode mode, std::int64_t prompt) {
  Wanted request = wanted(77, prompt, 24);
  request.mode = mode;
  request.sampling.ignore_eos = true;
  return request;
}

// The turn after `before` was answered: `more` tokens behind the answer.
Wanted next_turn(const Wanted& before, const Answer& answer, std::int64_t more) {
  Wanted next = before;
  next.prompt.insert(next.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<TokenId> said = wanted(5, more, 1).prompt;
  next.prompt.insert(next.prompt.end(), said.begin(), said.end());
  return next;
}

}  // namespace

TEST_CASE("a dying worker changes no token of a real answer, bounded or exact") {
  GuppyNode guppy;
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    for (const std::int64_t prompt : {20, 300}) {
      CAPTURE(static_cast<int>(mode));
      CAPTURE(prompt);
      const Wanted request = story(mode, prompt);
      const Answer whole = guppy.wait(guppy.clients->ask(request));
      REQUIRE(whole.tokens.size() == 24);
      const RequestId cut = guppy.clients->ask(request);
      REQUIRE(guppy.clients->wait_for_tokens(cut, 5, seconds(60)));
      guppy.node->end_part("decode_worker.0");
      const Answer resumed = guppy.wait(cut);
      CHECK(resumed.attempts == 2);
      CHECK(resumed.basis == whole.basis);
      CHECK(resumed.tokens == whole.tokens);
    }
  }
}

TEST_CASE("experts on shards change no token, and one that dies costs its step and no token") {
  GuppyNode guppy;
  GuppyNode sharded(false, true, 4);
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    CAPTURE(static_cast<int>(mode));
    Wanted request = story(mode, 200);
    request.sampling.max_tokens = 400;
    const Answer whole = guppy.wait(guppy.clients->ask(request));
    CHECK(sharded.wait(sharded.clients->ask(request)).tokens == whole.tokens);
    const auto failed = [&] { return sharded.experts->exchange_use().failed; };
    const std::int64_t before = failed();
    const RequestId cut = sharded.clients->ask(request);
    REQUIRE(sharded.clients->wait_for_tokens(cut, 5, seconds(60)));
    for (const Instant limit = clock_now() + seconds(20);
         failed() == before && clock_now() < limit;) {
      sharded.experts->end(2);
      REQUIRE(sharded.experts->restore(2).has_value());
    }
    const Answer resumed = sharded.wait(cut);
    CHECK(resumed.attempts == 1 + failed() - before);
    CHECK(resumed.attempts >= 2);
    CHECK(resumed.tokens == whole.tokens);
  }
}

TEST_CASE("experts that move all the time, by any policy, change no token and lose no step") {
  GuppyNode guppy;
  for (const ExpertPlanRow& row : expert_planners()) {
    CAPTURE(row.name);
    GuppyNode moving(false, true, 4, row.name);
    for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
      Wanted request = story(mode, 200);
      request.sampling.max_tokens = 300;
      const Answer whole = guppy.wait(guppy.clients->ask(request));
      const RequestId among = moving.clients->ask(request);
      for (std::uint64_t i = 0; i < 4; ++i) {
        moving.clients->ask(wanted(i, static_cast<std::int64_t>(10 + 40 * i), 60));
      }
      const Answer answer = moving.wait(among);
      CHECK(answer.tokens == whole.tokens);
      CHECK(answer.attempts == 1);
    }
    CHECK(moving.experts->exchange_use().failed == 0);
    // A fixed order of experts is reached once.
    CHECK(moving.experts->placement().epoch.value >= (row.name == "contiguous" ? 2 : 10));
    CHECK(moving.node->metrics_text().find("shoal_expert_plans_total{end=\"placed\"} ") !=
          std::string::npos);
  }
}

TEST_CASE("an answer does not depend on who else is served") {
  GuppyNode guppy;
  const Wanted request = story(BasisMode::kBounded, 200);
  const Answer alone = guppy.wait(guppy.clients->ask(request));
  const RequestId among = guppy.clients->ask(request);
  for (std::uint64_t i = 0; i < 6; ++i) {
    guppy.clients->ask(wanted(i, static_cast<std::int64_t>(10 + 40 * i), 20));
  }
  CHECK(guppy.wait(among).tokens == alone.tokens);
}

TEST_CASE("behind the blocks of an earlier request an exact answer is the one without them") {
  GuppyNode cold;
  GuppyNode keeping(true);
  const Wanted request = story(BasisMode::kExact, 1000);
  const Answer whole = cold.wait(cold.clients->ask(request));
  // What wrote the blocks was a bounded request: its own were computed with whole windows.
  CHECK(keeping.ask_and_store(story(BasisMode::kBounded, 1000)).basis->hit == 0);
  const Answer behind = keeping.wait(keeping.clients->ask(request));
  CHECK(behind.basis->hit == 896);
  CHECK(behind.cached_tokens == 896);
  CHECK(behind.tokens == whole.tokens);
}

TEST_CASE("two bounded answers behind the same blocks are equal") {
  GuppyNode guppy(true, false);
  const Wanted request = story(BasisMode::kBounded, 1000);
  guppy.ask_and_store(request);
  const Answer first = guppy.ask_and_store(request);
  const Answer second = guppy.wait(guppy.clients->ask(request));
  CHECK(first.basis->hit == 896);
  CHECK(second.basis == first.basis);
  CHECK(second.tokens == first.tokens);
}

TEST_CASE(
    "an exact next turn goes on from the tail of its session with the tokens of a run alone") {
  GuppyNode cold;
  GuppyNode keeping(true);
  const Wanted first = story(BasisMode::kExact, 300);
  const Answer answer = keeping.ask_and_keep(first);
  for (const std::int64_t more : {3, 40, 200}) {
    CAPTURE(more);
    const Wanted next = next_turn(first, answer, more);
    const Answer behind = keeping.wait(keeping.clients->ask(next));
    // All but the answer's last token, which was never computed; or what the turn before shares.
    CHECK(behind.cached_tokens >= 323);
    CHECK(behind.tokens == cold.wait(cold.clients->ask(next)).tokens);
  }
}

TEST_CASE("a bounded next turn looks back as far as its session, twice with the same tokens") {
  GuppyNode one(true);
  GuppyNode other(true);
  const Wanted first = story(BasisMode::kBounded, 300);
  const Answer answer = one.ask_and_keep(first);
  REQUIRE(other.ask_and_keep(first).tokens == answer.tokens);
  for (const auto& [more, decoder_from] :
       {std::pair<std::int64_t, Position>{40, 172}, {200, 396}}) {
    CAPTURE(more);
    const Wanted next = next_turn(first, answer, more);
    const Answer behind = one.wait(one.clients->ask(next));
    CHECK(behind.cached_tokens >= 323);
    CHECK(behind.basis->hit == 0);
    CHECK(behind.basis->replay_floor == 0);
    CHECK(behind.basis->tail_start == decoder_from);
    const Answer again = other.wait(other.clients->ask(next));
    CHECK(again.basis == behind.basis);
    CHECK(again.tokens == behind.tokens);
  }
}

TEST_CASE("an answer whose worker dies far behind its prompt goes on behind its own blocks") {
  GuppyNode guppy(true);
  for (const BasisMode mode : {BasisMode::kBounded, BasisMode::kExact}) {
    CAPTURE(static_cast<int>(mode));
    Wanted request = story(mode, 200);
    request.sampling.max_tokens = 900;
    const Answer whole = guppy.wait(guppy.clients->ask(request));
    const RequestId cut = guppy.clients->ask(request);
    REQUIRE(guppy.clients->wait_for_tokens(cut, 850, seconds(60)));
    const std::int64_t rows = guppy.node->metrics().prefill_rows;
    guppy.node->end_part("decode_worker.0");
    const Answer resumed = guppy.wait(cut);
    CHECK(resumed.attempts == 2);
    CHECK(resumed.basis == whole.basis);
    CHECK(resumed.tokens == whole.tokens);
    CHECK(guppy.node->metrics().prefill_rows - rows < 900);  // of more than 1,050
  }
}

TEST_CASE("a prompt of 8,000 tokens delays short ones by the step that runs when they come") {
  GuppyNode guppy;
  const RequestId giant = guppy.clients->ask(wanted(1, 8'000, 2));
  for (std::int64_t rows = 40; rows < 44; ++rows) {
    REQUIRE(guppy.gate->shut());
    REQUIRE_FALSE(guppy.clients->answer(giant).over());
    const auto seed = static_cast<std::uint64_t>(rows);
    const RequestId id = guppy.clients->ask(wanted(seed, rows, 1));
    guppy.wait_until_placed(id);
    // A tiny one behind it through the same balancer: when that one is placed, the group was sent
    // the first for certain.
    const RequestId tiny = guppy.clients->ask(wanted(seed, 3, 1));
    guppy.wait_until_placed(tiny);
    const std::size_t next = guppy.gate->open();
    REQUIRE(guppy.clients->wait_for_tokens(id, 1, seconds(60)));
    REQUIRE(guppy.clients->wait_for_tokens(tiny, 1, seconds(60)));
    const std::vector<std::int64_t> in_step = guppy.gate->rows_of(next);
    CHECK(std::count(in_step.begin(), in_step.end(), rows) == 1);
  }
  CHECK_FALSE(guppy.clients->answer(giant).over());
  const Answer answer = guppy.wait(giant);
  CHECK_FALSE(answer.error.has_value());
  CHECK(answer.tokens.size() == 2);
}
