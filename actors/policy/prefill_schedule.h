// One prefill step of a group: which requests run how many rows on which rank. Deficit round robin
// in predicted ns between the length classes; inside a class what has begun goes on before the next
// starts, the nearest to its end first, and then the earliest (deadline - work) starts;
// a long prompt holds at most its class's quota of a step. New requests are placed longest first on
// the rank with least load (LPT); a started one stays where its KV is.
//
// Where ranks may share a prompt (`split_sync`), those that would wait for the longest take the
// rows that come next in a long one, in the same step: it is through sooner, and no step is longer.
//
// A request starts only when its worst case of KV fits on a rank. Who fits may pass who does not,
// until somebody has waited for longer than `kv_patience`: then nobody starts before him.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/policy/cost_model.h"
#include "actors/policy/kv_budget.h"
#include "actors/policy/prefill_balancer.h"
#include "actors/policy/prefill_rows.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal {

struct PrefillJob {
  RequestId request;
  AttemptId attempt;
  int length_class = 0;
  PrefillSpan span;
  Nanos work{0};
  Instant arrived;
  Instant deadline;
  std::int64_t blocks = 0;  // worst case, for its whole life
  Position done = 0;
  std::optional<std::size_t> rank;  // set when it starts
};

struct PrefillChunk {
  RequestId request;
  AttemptId attempt;
  std::size_t rank = 0;
  std::int64_t rows = 0;
  bool starts = false;  // first chunk: the rank reserves `blocks` and a sequence slot
  std::int64_t blocks = 0;
  Nanos cost{0};
  Position first = 0;  // row of the prompt
};

struct PrefillRank {
  bool alive = false;
  KvRoom room;
};

struct PrefillBacklog {
  std::array<std::int64_t, kPrefillClasses> waiting{};  // not started
  std::array<Nanos, kPrefillClasses> queued{};          // predicted, not started
  std::vector<PrefillRankLoad> ranks;                   // started there
  Nanos step_left{0};                                   // until the running step is over
};

class PrefillSchedule {
 public:
  struct Limits {
    Nanos quota{0};  // of one rank and step, at most
    Nanos kv_patience{0};
    // Between this and `quota` a step is as long as a quarter of what a rank has to do in the mean:
    // while little waits, short steps let new requests in soon; when much waits, less time is lost
    // between steps. 0: always `quota`. Measured in actors/policy/README.md.
    Nanos least_quota{0};
    // What a rank needs in a step to exchange KV with others that run rows of the same prompt. 0: a
    // prompt is on one rank.
    Nanos split_sync{0};
  };

  PrefillSchedule(const CostModel& cost, const Limits& limits) : cost_(cost), limits_(limits) {}

  void add(const PrefillJob& job) { jobs_.push_back(job); }

  // From the next plan on.
  void set_cost(const CostModel& cost) { cost_ = cost; }

  bool remove(RequestId request, AttemptId attempt);
  // Forgets what ran on a rank that is gone.
  std::vector<PrefillJob> lose_rank(std::size_t rank);

  // The next step; empty: nothing can run. Started requests are marked so.
  std::vector<PrefillChunk> plan(std::span<const PrefillRank> ranks, Instant now);
  // The chunk ran. True: the request is complete and forgotten.
  bool finish_chunk(RequestId request, AttemptId attempt, std::int64_t rows);

  PrefillBacklog backlog() const;

  std::size_t size() const { return jobs_.size(); }

 private:
  struct Pick;
  struct Room;
  Nanos step_quota(std::int64_t ranks) const;
  void refill_deficits(Nanos total);
  PrefillJob* next_of_class(int length_class, const Room& room);
  void pick_from(int length_class, bool charged, Room& room);
  void extend_picks(int length_class, Room& room);
  void find_patient(Room& room, Instant now) const;
  std::vector<PrefillChunk> place(Room& room);
  std::optional<PrefillChunk> place_one(const Pick& pick, Room& room);
  std::optional<std::size_t> pick_rank(const Pick& pick, const Room& room) const;
  PrefillChunk put(PrefillJob& job, std::size_t rank, std::int64_t rows, Room& room);
  void level(std::vector<PrefillChunk>& chunks, Room& room);
  std::optional<PrefillChunk> fill(std::size_t rank,
                                   Nanos spare,
                                   const std::vector<PrefillChunk>& chunks,
                                   Room& room);
  void share(Nanos longest, std::vector<PrefillChunk>& chunks, Room& room) const;
  std::optional<PrefillChunk> next_piece(std::size_t rank,
                                         Nanos spare,
                                         const std::vector<PrefillChunk>& chunks) const;
  Nanos left_of(const PrefillJob& job) const;
  Nanos cost_of(const PrefillJob& job, std::int64_t rows) const;
  std::int64_t fit_rows(const PrefillJob& job, Nanos budget) const;
  PrefillJob* find(RequestId request, AttemptId attempt);

  CostModel cost_;
  Limits limits_;
  std::vector<PrefillJob>
      jobs_;  // in order of arrival; few: what is queued at this group plus what runs
  std::array<Nanos, kPrefillClasses> deficit_{};
};

}  // namespace shoal
