// Names follow the list of invariants that every run is held to.
#include "tests/sim/invariants.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "actors/policy/kv_reuse.h"
#include "tests/sim/event_line.h"

namespace shoal::sim {
namespace {

constexpr Nanos kGrace = std::chrono::seconds(3);

std::vector<std::string> timeline_of(const World& world, RequestId request) {
  std::vector<std::string> timeline;
  const std::string word = "request=" + std::to_string(request.value);
  for (std::size_t i = 0; i < world.events().size(); ++i) {
    const std::string& line = world.events()[i];
    const auto at = line.find(word);
    if (line.find(" world.") != std::string::npos ||
        (at != std::string::npos &&
         (at + word.size() == line.size() || line[at + word.size()] == ' '))) {
      timeline.push_back(world.timed_event(i));
    }
  }
  return timeline;
}

// A later attempt keeps its basis; but blocks that a bounded one was behind may be gone, and then
// it begins anew.
bool may_follow(const Basis& first, const Basis& later, Position prompt, Position window) {
  const Basis anew = first_basis(first.mode, prompt, window);
  const bool may_lose = first.mode == BasisMode::kBounded && first.hit > 0;
  return later == first || (may_lose && later == anew);
}

class Checker {
 public:
  explicit Checker(const Finished& run) : run_(run) {}

  std::vector<Violation> check() {
    for (const Asked& asked : run_.workload.asked()) {
      one_end(asked);
      true_tokens(asked);
    }
    probes_answered();
    if (!run_.settled) {
      violate("full_service_returns",
              "what was open was not over settle_s after the cluster was whole again",
              {});
    }
    if (const std::size_t dropped = run_.world.dropped_by_drains(); dropped != 0) {
      violate("drain_finishes",
              std::to_string(dropped) + " answers were dropped by a drain before its limit",
              {});
    }
    all_are_members();
    one_view_an_epoch();
    one_owner();
    no_favourite();
    views_are_true();
    no_busy_loop();
    if (!run_.whole_again) {
      violate("full_service_returns", "not all nodes are members and linked again", {});
    }
    if (!run_.memory_free) {
      violate("leases_return", "KV memory is still held after the last answer", {});
    }
    buffers_withdrawn();
    if (!run_.world.nothing_queued()) {
      violate("leases_return", "a KV store still has blocks to write", {});
    }
    if (const std::size_t lost = run_.world.lost_blocks(); lost != 0) {
      violate("durable_blocks_stay",
              std::to_string(lost) + " blocks were durable, and no KV store knows them",
              {});
    }
    const auto& untrue = run_.world.kv_truth().violations();
    found_.insert(found_.end(), untrue.begin(), untrue.end());
    return std::move(found_);
  }

 private:
  void violate(const std::string& invariant, const std::string& what, RequestId request) {
    found_.push_back({invariant, what, timeline_of(run_.world, request)});
  }

  // 1. Exactly one terminal event, by the deadline and a grace, not counting time that the gateway
  // was stopped.
  void one_end(const Asked& asked) {
    const testing::Answer answer = asked.clients->answer(asked.request);
    if (answer.terminal_events > 1) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " ended " +
                  std::to_string(answer.terminal_events) + " times",
              asked.request);
    }
    if (!answer.over()) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " never ended",
              asked.request);
    } else if (answer.ended &&
               *answer.ended > run_.world.due_at(asked.gateway, asked.deadline + kGrace)) {
      violate("one_terminal_event",
              "request " + std::to_string(asked.request.value) + " ended too late",
              asked.request);
    }
  }

  // 2. Tokens are those of the run without faults, each once and in order.
  void true_tokens(const Asked& asked) {
    const testing::Answer answer = asked.clients->answer(asked.request);
    if (!answer.basis) {
      if (!answer.tokens.empty()) {
        violate("true_tokens", "tokens came without a basis", asked.request);
      }
      return;
    }
    auto bases = answer.bases;
    if (!run_.world.kv_truth().add_loaded(bases)) {
      violate("blocks_are_true",
              "request " + std::to_string(asked.request.value) +
                  " was answered behind blocks that never came from the store",
              asked.request);
      return;
    }
    const testing::Wanted wanted = asked.clients->asked(asked.request);
    const auto prompt = static_cast<Position>(wanted.prompt.size());
    const Position window = window_of(run_.model);
    if (!std::all_of(bases.begin(), bases.end(), [&](const testing::BasisFrom& one) {
          return may_follow(bases.front().basis, one.basis, prompt, window);
        })) {
      violate("true_tokens",
              "request " + std::to_string(asked.request.value) +
                  " went on under another basis, and not for want of blocks",
              asked.request);
    }
    own_blocks(asked, wanted, bases);
    const auto truth = true_answer(run_.model, wanted, bases, run_.world.context());
    const bool is_prefix = answer.tokens.size() <= truth.size() &&
                           std::equal(answer.tokens.begin(), answer.tokens.end(), truth.begin());
    const bool complete = answer.terminal_events == 1 && !answer.error && asked.stop_after == 0;
    if (!is_prefix || (complete && answer.tokens.size() != truth.size())) {
      violate("true_tokens",
              "request " + std::to_string(asked.request.value) + " was told " +
                  std::to_string(answer.tokens.size()) + " tokens, the truth has " +
                  std::to_string(truth.size()),
              asked.request);
    }
  }

  // 3, 9. The blocks of a hit are those of the tenant's own words; an exact answer has exact ones.
  void own_blocks(const Asked& asked,
                  const testing::Wanted& wanted,
                  const std::vector<testing::BasisFrom>& bases) {
    for (const testing::BasisFrom& one : bases) {
      if (one.basis.hit == 0) {
        continue;
      }
      const KvTruth::Loaded& hit = *run_.world.kv_truth().loaded(one.basis.lineage);
      auto keys = block_keys(root_key(World::kv_identity(wanted.tenant)), wanted.prompt);
      keys.resize(static_cast<std::size_t>(one.basis.hit / kBlockTokens));
      if (hit.keys != keys) {
        violate("tenants_are_apart",
                "request " + std::to_string(asked.request.value) +
                    " was answered behind blocks that are not of its tenant and prompt",
                asked.request);
      }
      if (wanted.mode == BasisMode::kExact && !hit.is_exact) {
        violate("blocks_are_true",
                "request " + std::to_string(asked.request.value) +
                    " is exact, and was answered behind bounded blocks",
                asked.request);
      }
    }
  }

  // 6. After the faults everybody is answered.
  void probes_answered() {
    const auto& asked = run_.workload.asked();
    for (std::size_t i = run_.workload.first_probe(); i < asked.size(); ++i) {
      const testing::Answer answer = asked[i].clients->answer(asked[i].request);
      if (answer.error) {
        violate("full_service_returns",
                "a request after the faults failed: " + answer.error->message,
                asked[i].request);
      }
    }
  }

  // 6. The newest view has every node.
  void all_are_members() {
    std::uint64_t newest = 0;
    std::string members;
    for (const std::string_view line : events_named("node.view")) {
      if (const std::uint64_t epoch = std::stoull(event_field(line, "epoch")); epoch > newest) {
        newest = epoch;
        members = event_field(line, "members");
      }
    }
    const auto count = std::count(members.begin(), members.end(), ':');
    if (run_.world.size() > 1 && count != static_cast<std::ptrdiff_t>(run_.world.size())) {
      violate("full_service_returns",
              "the newest view has " + std::to_string(count) + " of " +
                  std::to_string(run_.world.size()) + " nodes",
              {});
    }
  }

  // Every node that sees a view sees the same under its epoch.
  void one_view_an_epoch() {
    std::map<std::string, std::string> views;
    for (const std::string_view line : events_named("node.view")) {
      const auto [known, added] =
          views.try_emplace(event_field(line, "epoch"), event_field(line, "members"));
      if (!added && known->second != event_field(line, "members")) {
        violate("one_view_an_epoch",
                "epoch " + known->first + " is \"" + known->second + "\" and \"" +
                    event_field(line, "members") + "\"",
                {});
      }
    }
  }

  // An attempt is in one ledger only, once.
  void one_owner() {
    std::set<std::pair<std::string, std::string>> owned;
    for (const std::string_view line : events_named("request.received")) {
      const std::pair attempt(event_field(line, "request"), event_field(line, "attempt"));
      if (!owned.insert(attempt).second) {
        violate(
            "one_owner",
            "attempt " + attempt.second + " of request " + attempt.first + " was received twice",
            RequestId{std::stoull(attempt.first)});
      }
    }
  }

  // Equal nodes share what comes to an idle cluster. With 20 requests and two nodes one of them
  // gets nothing by chance once in 500,000 runs.
  void no_favourite() {
    constexpr std::int64_t kEnough = 20;
    for (const char* event : {"prefill.placed", "decode.placed"}) {
      std::map<std::string, std::int64_t> taken;
      std::int64_t all = 0;
      for (const std::string_view line : events_named(event)) {
        if (is_probe(event_field(line, "request"))) {
          ++taken[event_field(line, "node")];
          ++all;
        }
      }
      const bool prefill = std::string_view(event) == "prefill.placed";
      if (all >= kEnough && taken.size() == 1 && run_.world.count_nodes(prefill) > 1) {
        violate("no_favourite",
                std::string(event) + ": node " + taken.begin()->first + " got all " +
                    std::to_string(all) + " requests of an idle cluster",
                {});
      }
    }
  }

  bool is_probe(const std::string& request) const {
    const auto& asked = run_.workload.asked();
    const RequestId id{std::stoull(request)};
    return std::any_of(asked.begin() + static_cast<std::ptrdiff_t>(
                                           std::min(run_.workload.first_probe(), asked.size())),
                       asked.end(),
                       [id](const Asked& one) { return one.request == id; });
  }

  // 8. When nothing is open, ledgers and balancers know of nothing.
  void views_are_true() {
    if (const std::string believed = run_.world.believed_answers(); !believed.empty()) {
      violate("views_are_true", "answers are believed in when none is open: " + believed, {});
    }
  }

  // Placing one request again and again means that a balancer was not told what it needs.
  void no_busy_loop() {
    constexpr std::int64_t kMost = 500;
    std::map<std::string, std::int64_t> placed;
    for (const std::string_view line : events_named("decode.placed")) {
      if (++placed[event_field(line, "request")] == kMost) {
        violate("no_busy_loop",
                "request " + event_field(line, "request") + " was placed " + std::to_string(kMost) +
                    " times in decode",
                RequestId{std::stoull(event_field(line, "request"))});
      }
    }
  }

  std::vector<std::string_view> events_named(std::string_view name) const {
    std::vector<std::string_view> lines;
    for (const std::string& line : run_.world.events()) {
      if (event_name(line) == name) {
        lines.push_back(line);
      }
    }
    return lines;
  }

  // 4. Nothing stays on offer.
  void buffers_withdrawn() {
    for (std::uint32_t n = 0; n < run_.world.size(); ++n) {
      if (run_.world.alive(NodeId{n}) && run_.world.transport(NodeId{n}).use().offers != 0) {
        violate("leases_return", "node " + std::to_string(n) + " still offers KV buffers", {});
      }
    }
  }

  const Finished& run_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> check_invariants(const Finished& run) {
  return Checker(run).check();
}

}  // namespace shoal::sim
