// Every way a request can go: all states of the ledger together with where its KV is and who holds
// work of it, breadth first, with up to two faults anywhere.
#include <cstdint>
#include <deque>
#include <doctest/doctest.h>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/policy/request_machine.h"

using namespace shoal;

namespace {

using enum RequestState;
using enum RequestEvent;

enum class Kv : std::uint8_t { kNone, kComputing, kOnDevice, kOnOffer, kAtDecode, kGone };

constexpr int kFaults = 2;
constexpr int kYields = 2;

// What the router and the parts together are.
struct Cluster {
  RequestState state = kReceived;
  Kv kv = Kv::kNone;
  bool prefill = false;  // queue, group or worker of prefill, or who yielded it, hold work or KV
  int decodes = 0;       // decode queues and ranks that hold it
  bool placed = false;   // on a rank, by the balancer
  bool can_fetch_again = false;  // as the router believes
  int handovers = 0;
  int yields = 0;  // to another rank
  int faults = 0;
  int ends_told = 0;  // by a report, by the answer's own end, or chosen by the client

  auto key() const {
    return std::tuple(
        state, kv, prefill, decodes, placed, can_fetch_again, handovers, yields, faults, ends_told);
  }

  bool operator<(const Cluster& other) const { return key() < other.key(); }
};

enum class By : std::uint8_t { kPart, kClient, kFault, kTimer };

struct Move {
  By by;
  Cluster to;
};

Cluster after(Cluster c, RequestEvent event) {
  const RequestStep step = next_step(c.state, event);
  c.state = step.next;
  if ((step.commands & kPlacePrefill) != 0) {
    c.prefill = true;
  }
  if ((step.commands & kReleaseSource) != 0) {
    c.prefill = false;
    c.kv = c.kv == Kv::kAtDecode ? c.kv : Kv::kGone;
  }
  if ((step.commands & kReleaseDecode) != 0) {
    c.decodes = 0;
    c.placed = false;
  }
  if ((step.commands & kPlaceDecode) != 0) {
    ++c.decodes;
    ++c.handovers;
  }
  if ((step.commands & kReport) != 0 || event == kAnswerDone || event == kStopped ||
      event == kSuperseded || event == kClientLeft) {
    ++c.ends_told;
  }
  return c;
}

// As the router chooses between the two losses.
Cluster after_decode_loss(const Cluster& c) {
  const bool again = c.state == kHandingOver && c.can_fetch_again && c.handovers < kMostHandovers;
  return after(c, again ? kDecodeLost : kLost);
}

void add_prefill_moves(const Cluster& c, std::vector<Move>& moves) {
  if (c.state == kReceived) {
    moves.push_back({By::kPart, after(c, kAccepted)});
    moves.push_back({By::kPart, after(c, kRefused)});
  }
  if (c.prefill && c.kv == Kv::kNone) {
    Cluster started = c;
    started.kv = Kv::kComputing;
    moves.push_back({By::kPart, after(started, kPrefillStarted)});
    Cluster refused = c;
    refused.prefill = false;
    moves.push_back({By::kPart, after(refused, kRefused)});
  }
  if (c.prefill && c.kv == Kv::kComputing) {
    for (const Kv kv : {Kv::kOnDevice, Kv::kOnOffer}) {
      Cluster done = c;
      done.kv = kv;
      done.can_fetch_again = kv == Kv::kOnOffer;
      moves.push_back({By::kPart, after(done, kPrefillDone)});
    }
    Cluster ended = c;
    ended.prefill = false;
    ended.kv = Kv::kGone;
    moves.push_back({By::kPart, after(ended, kAnswerDone)});
  }
}

void add_decode_moves(const Cluster& c, std::vector<Move>& moves) {
  if (c.decodes == 0) {
    return;
  }
  if (!c.placed) {
    Cluster placed = c;
    placed.placed = true;
    moves.push_back({By::kPart, after(placed, kDecodePlaced)});
    Cluster refused = c;
    refused.decodes = 0;
    moves.push_back({By::kPart, after(refused, kRefused)});
  } else if (c.kv == Kv::kOnDevice || c.kv == Kv::kOnOffer) {
    Cluster joined = c;
    joined.kv = Kv::kAtDecode;
    moves.push_back({By::kPart, after(joined, kDecodeJoined)});
  } else if (c.kv == Kv::kAtDecode) {
    Cluster ended = c;
    ended.decodes = 0;
    moves.push_back({By::kPart, after(ended, kAnswerDone)});
    if (c.state == kDecoding && c.yields < kYields) {
      Cluster yielded = ended;
      yielded.prefill = true;
      yielded.kv = Kv::kOnOffer;
      yielded.placed = false;
      yielded.can_fetch_again = true;
      yielded.handovers = 0;
      ++yielded.yields;
      moves.push_back({By::kPart, after(yielded, kDecodeYielded)});
    }
  } else {
    moves.push_back({By::kPart, after_decode_loss(c)});  // nothing is on offer there any more
  }
}

void add_faults(Cluster c, std::vector<Move>& moves) {
  if (c.faults == kFaults) {
    return;
  }
  ++c.faults;
  if (c.prefill && c.kv != Kv::kAtDecode) {
    Cluster lost = c;  // with its node: the router sees it
    lost.prefill = false;
    lost.kv = Kv::kGone;
    lost.can_fetch_again = false;
    moves.push_back({By::kFault, after(lost, kLost)});
    if (c.kv == Kv::kOnOffer) {
      Cluster silent = lost;  // its worker alone, after it had handed over
      silent.can_fetch_again = c.can_fetch_again;
      moves.push_back({By::kFault, silent});
    }
  }
  if (c.placed) {
    Cluster lost = c;
    lost.decodes = 0;
    lost.kv = c.kv == Kv::kAtDecode || c.kv == Kv::kOnDevice ? Kv::kGone : c.kv;
    moves.push_back({By::kFault, after_decode_loss(lost)});
    if (c.kv == Kv::kOnOffer) {
      moves.push_back({By::kFault, after_decode_loss(c)});  // only the fetch failed
    }
  }
}

std::vector<Move> moves_of(const Cluster& c) {
  std::vector<Move> moves;
  if (is_terminal(c.state)) {
    return moves;
  }
  add_prefill_moves(c, moves);
  add_decode_moves(c, moves);
  add_faults(c, moves);
  for (const RequestEvent event : {kStopped, kSuperseded, kClientLeft}) {
    moves.push_back({By::kClient, after(c, event)});
  }
  moves.push_back({By::kTimer, after(c, kTimer)});
  return moves;
}

// All that can be reached, each with its moves.
std::map<Cluster, std::vector<Move>> explore() {
  std::map<Cluster, std::vector<Move>> all;
  std::deque<Cluster> queue = {Cluster{}};
  while (!queue.empty()) {
    const Cluster next = queue.front();
    queue.pop_front();
    if (all.contains(next)) {
      continue;
    }
    for (const Move& move : all[next] = moves_of(next)) {
      queue.push_back(move.to);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("from every reachable state the parts alone bring a request to an end") {
  const auto all = explore();
  std::set<RequestState> states;
  for (const auto& [cluster, moves] : all) {
    states.insert(cluster.state);
  }
  CHECK(std::ssize(states) == kRequestStates);
  std::map<Cluster, bool> ends;
  for (const auto& [cluster, moves] : all) {
    ends[cluster] = is_terminal(cluster.state);
  }
  // Backwards from the ends: neither a timer, nor the client, nor another fault is needed.
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [cluster, moves] : all) {
      for (const Move& move : moves) {
        if (!ends[cluster] && move.by == By::kPart && ends.at(move.to)) {
          ends[cluster] = grew = true;
        }
      }
    }
  }
  for (const auto& [cluster, reaches_end] : ends) {
    CAPTURE(to_string(cluster.state));
    CAPTURE(static_cast<int>(cluster.kv));
    CAPTURE(cluster.faults);
    CHECK(reaches_end);
  }
}

TEST_CASE("no reachable state has two owners, and an end leaves nothing behind and is told once") {
  for (const auto& [cluster, moves] : explore()) {
    CAPTURE(to_string(cluster.state));
    CAPTURE(static_cast<int>(cluster.kv));
    CAPTURE(cluster.faults);
    CHECK(cluster.decodes <= 1);
    CHECK_FALSE((cluster.kv == Kv::kComputing && cluster.decodes > 0));
    CHECK(cluster.handovers <= kMostHandovers);
    CHECK(cluster.ends_told == (is_terminal(cluster.state) ? 1 : 0));
    if (is_terminal(cluster.state)) {
      CHECK_FALSE(cluster.prefill);
      CHECK(cluster.decodes == 0);
    } else if (cluster.state == kDecoding) {
      CHECK_FALSE(cluster.prefill);
    }
  }
}
