// Picks chunks class by class within the step's quota, then places them on ranks.
#include "actors/policy/prefill_schedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "actors/policy/prefill_cost.h"
#include "schemas/check.h"

namespace shoal {

struct PrefillSchedule::Pick {
  PrefillJob* job = nullptr;
  std::int64_t rows = 0;
  Nanos cost{0};
  Nanos charged{0};  // to the class's deficit; the rest was nobody's
};

// What one plan() still has to give.
struct PrefillSchedule::Room {
  std::vector<PrefillRank> ranks;
  std::vector<Nanos> load;              // of this step
  std::vector<Nanos> planned;           // with what has begun and is still to be placed
  std::vector<Nanos> begun;             // left of what runs there
  Nanos quota{0};                       // of one rank
  Nanos left{0};                        // of all ranks together
  const PrefillJob* patient = nullptr;  // waited too long for KV: nobody starts before him
  std::vector<Pick> picks;

  bool fits_somewhere(std::int64_t blocks) const {
    return std::any_of(ranks.begin(), ranks.end(), [blocks](const PrefillRank& r) {
      return r.alive && fits(r.room, blocks);
    });
  }

  bool may_start(const PrefillJob& job) const {
    return (patient == nullptr || patient == &job) && fits_somewhere(job.blocks);
  }

  bool is_picked(const PrefillJob& job) const {
    return std::any_of(picks.begin(), picks.end(), [&job](const Pick& p) { return p.job == &job; });
  }
};

std::vector<PrefillChunk> PrefillSchedule::plan(std::span<const PrefillRank> ranks, Instant now) {
  Room room{.ranks = {ranks.begin(), ranks.end()},
            .load = std::vector<Nanos>(ranks.size(), Nanos{0}),
            .planned = std::vector<Nanos>(ranks.size(), Nanos{0}),
            .begun = std::vector<Nanos>(ranks.size(), Nanos{0}),
            .picks = {}};
  const auto alive =
      std::count_if(ranks.begin(), ranks.end(), [](const PrefillRank& r) { return r.alive; });
  if (alive == 0 || jobs_.empty()) {
    return {};
  }
  room.quota = step_quota(alive);
  room.left = room.quota * alive;
  for (const PrefillJob& job : jobs_) {
    if (job.rank) {
      room.begun[*job.rank] += left_of(job);
    }
  }
  find_patient(room, now);
  refill_deficits(room.left);
  for (int k = 0; k < kPrefillClasses; ++k) {
    pick_from(k, true, room);
  }
  for (int k = 0; k < kPrefillClasses; ++k) {  // unused quota flows on
    extend_picks(k, room);
    pick_from(k, false, room);
  }
  return place(room);
}

// The oldest waiting request whose patience is over.
void PrefillSchedule::find_patient(Room& room, Instant now) const {
  for (const PrefillJob& job : jobs_) {
    if (!job.rank && now - job.arrived >= limits_.kv_patience) {
      room.patient = &job;
      return;
    }
  }
}

// One long prompt is on one rank: it makes no step longer for those who come meanwhile.
constexpr std::int64_t kMostAhead = 10;  // of a request, in least quotas
constexpr std::int64_t kStepsAhead = 4;  // what a rank has to do in the mean, in steps

Nanos PrefillSchedule::step_quota(std::int64_t ranks) const {
  if (limits_.least_quota == Nanos{0}) {
    return limits_.quota;
  }
  Nanos work{0};
  for (const PrefillJob& job : jobs_) {
    work += std::min(left_of(job), kMostAhead * limits_.least_quota);
  }
  return std::clamp(work / ranks / kStepsAhead, limits_.least_quota, limits_.quota);
}

void PrefillSchedule::refill_deficits(Nanos total) {
  for (int k = 0; k < kPrefillClasses; ++k) {
    const bool waits = std::any_of(
        jobs_.begin(), jobs_.end(), [k](const PrefillJob& job) { return job.length_class == k; });
    Nanos& deficit = deficit_[static_cast<std::size_t>(k)];
    deficit = waits ? std::min(deficit + total / kPrefillClasses, total) : Nanos{0};
  }
}

namespace {

// What has begun goes on, the nearest to its end first: half-done prompts hold KV memory and answer
// nobody. Then the least slack.
bool goes_before(const PrefillJob& a, const PrefillJob& b) {
  const auto left = [](const PrefillJob& job) { return job.rank ? job.span.total - job.done : 0; };
  return std::tuple(!a.rank, left(a), a.deadline - a.work) <
         std::tuple(!b.rank, left(b), b.deadline - b.work);
}

}  // namespace

PrefillJob* PrefillSchedule::next_of_class(int length_class, const Room& room) {
  PrefillJob* best = nullptr;
  for (PrefillJob& job : jobs_) {
    if (job.length_class != length_class || room.is_picked(job) ||
        (!job.rank && !room.may_start(job))) {
      continue;
    }
    if (best == nullptr || goes_before(job, *best)) {
      best = &job;
    }
  }
  return best;
}

void PrefillSchedule::pick_from(int length_class, bool charged, Room& room) {
  Nanos& deficit = deficit_[static_cast<std::size_t>(length_class)];
  while (room.left > Nanos{0} && (!charged || deficit > Nanos{0})) {
    PrefillJob* job = next_of_class(length_class, room);
    if (job == nullptr) {
      return;
    }
    Nanos budget = std::min(room.left, room.quota);
    if (charged) {
      budget = std::min(budget, deficit);
    }
    const std::int64_t rows = fit_rows(*job, budget);
    const Nanos cost = cost_of(*job, rows);
    room.picks.push_back({job, rows, cost, charged ? cost : Nanos{0}});
    if (room.patient == job) {
      room.patient = nullptr;
    }
    room.left -= cost;
    if (charged) {
      deficit -= cost;
    }
  }
}

// A chunk that its class's quota cut short grows into what nobody used.
void PrefillSchedule::extend_picks(int length_class, Room& room) {
  for (Pick& pick : room.picks) {
    const PrefillJob& job = *pick.job;
    const Nanos budget = std::min(room.left, room.quota - pick.cost);
    if (job.length_class != length_class || budget <= Nanos{0}) {
      continue;
    }
    const std::int64_t rows = fit_rows(job, pick.cost + budget);
    const Nanos cost = cost_of(job, rows);
    if (rows > pick.rows && cost - pick.cost <= budget) {
      room.left -= cost - pick.cost;
      pick.rows = rows;
      pick.cost = cost;
    }
  }
}

std::vector<PrefillChunk> PrefillSchedule::place(Room& room) {
  // What a class has a right to starts first, or started ones with nobody's share would shut it
  // out; then the started, which cannot move, and the rest. Longest first.
  const auto turn = [](const Pick& pick) {
    return pick.job->rank ? 1 : pick.charged > Nanos{0} ? 0 : 2;
  };
  std::stable_sort(room.picks.begin(), room.picks.end(), [&turn](const Pick& a, const Pick& b) {
    return std::tuple(turn(a), -a.cost) < std::tuple(turn(b), -b.cost);
  });
  for (const Pick& pick : room.picks) {
    if (pick.job->rank) {
      room.planned[*pick.job->rank] += pick.cost;
    }
  }
  std::vector<PrefillChunk> chunks;
  for (const Pick& pick : room.picks) {
    const auto chunk = place_one(pick, room);
    if (chunk) {
      chunks.push_back(*chunk);
    }
    const Nanos cost = chunk ? chunk->cost : Nanos{0};
    deficit_[static_cast<std::size_t>(pick.job->length_class)] +=
        std::max(Nanos{0}, pick.charged - cost);
  }
  level(chunks, room);
  return chunks;
}

Nanos PrefillSchedule::left_of(const PrefillJob& job) const {
  return prefill_left(cost_, job.span, job.done);
}

Nanos PrefillSchedule::cost_of(const PrefillJob& job, std::int64_t rows) const {
  return prefill_cost(cost_, job.span, job.done, rows);
}

std::int64_t PrefillSchedule::fit_rows(const PrefillJob& job, Nanos budget) const {
  return fit_prefill(cost_, job.span, job.done, budget);
}

// Of a request that starts: where this step has least to do if it ends with it, else where least
// has begun. Nothing: no rank has KV for it any more.
std::optional<std::size_t> PrefillSchedule::pick_rank(const Pick& pick, const Room& room) const {
  const PrefillJob& job = *pick.job;
  const auto& work = job.done + pick.rows == job.span.total ? room.planned : room.begun;
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < room.ranks.size(); ++r) {
    const bool takes = room.ranks[r].alive && fits(room.ranks[r].room, job.blocks);
    if (takes && (!best || work[r] < work[*best])) {
      best = r;
    }
  }
  return best;
}

// Nothing: no rank has KV for a new request any more, or the rank's quota is used up.
std::optional<PrefillChunk> PrefillSchedule::place_one(const Pick& pick, Room& room) {
  PrefillJob& job = *pick.job;
  const std::optional<std::size_t> rank = job.rank ? job.rank : pick_rank(pick, room);
  if (!rank || !room.ranks[*rank].alive) {
    return std::nullopt;
  }
  const Nanos left = room.quota - room.load[*rank];
  const std::int64_t rows = std::min(pick.rows, fit_rows(job, left));
  const Nanos cost = cost_of(job, rows);
  // Even a quota below one block lets one chunk run: a step that does nothing would never end the
  // queue.
  if (room.load[*rank] > Nanos{0} && cost > left) {
    return std::nullopt;
  }
  return put(job, *rank, rows, room);
}

PrefillChunk PrefillSchedule::put(PrefillJob& job,
                                  std::size_t rank,
                                  std::int64_t rows,
                                  Room& room) {
  const bool starts = !job.rank;
  if (starts) {
    room.ranks[rank].room.blocks -= job.blocks;
    room.ranks[rank].room.sequences -= 1;
    room.begun[rank] += left_of(job);
    job.rank = rank;
  }
  const Nanos cost = cost_of(job, rows);
  room.planned[rank] += starts ? cost : Nanos{0};
  room.load[rank] += cost;
  return {job.request, job.attempt, rank, rows, starts, job.blocks, cost, job.done};
}

// All ranks take as long as the longest: what the others would wait, they work.
void PrefillSchedule::level(std::vector<PrefillChunk>& chunks, Room& room) {
  const Nanos longest = *std::max_element(room.load.begin(), room.load.end());
  for (PrefillChunk& chunk : chunks) {
    const PrefillJob& job = *find(chunk.request, chunk.attempt);
    const Nanos spare = longest - room.load[chunk.rank];
    const std::int64_t rows = fit_rows(job, chunk.cost + spare);
    const Nanos cost = cost_of(job, rows);
    if (rows > chunk.rows && cost <= chunk.cost + spare) {
      room.load[chunk.rank] += cost - chunk.cost;
      chunk.rows = rows;
      chunk.cost = cost;
    }
  }
  for (std::size_t r = 0; r < room.ranks.size(); ++r) {
    while (auto chunk = fill(r, longest - room.load[r], chunks, room)) {
      chunks.push_back(*chunk);
    }
  }
  if (limits_.split_sync > Nanos{0}) {
    share(longest, chunks, room);
  }
}

// It pays where a rank would wait: all that it works is won, but for the exchange.
void PrefillSchedule::share(Nanos longest, std::vector<PrefillChunk>& chunks, Room& room) const {
  for (std::size_t r = 0; r < room.ranks.size(); ++r) {
    const Nanos spare = longest - room.load[r] - limits_.split_sync;
    if (!room.ranks[r].alive || spare < limits_.split_sync) {
      continue;
    }
    if (const auto chunk = next_piece(r, spare, chunks)) {
      room.load[r] += chunk->cost;
      chunks.push_back(*chunk);
    }
  }
}

// Of the prompt of another rank that has most left behind this step.
std::optional<PrefillChunk> PrefillSchedule::next_piece(
    std::size_t rank, Nanos spare, const std::vector<PrefillChunk>& chunks) const {
  const PrefillJob* longest = nullptr;
  Position from = 0;
  Nanos most{0};
  for (const PrefillJob& job : jobs_) {
    Position end = job.done;
    bool runs_here = false;
    for (const PrefillChunk& chunk : chunks) {
      const bool is_own = chunk.request == job.request && chunk.attempt == job.attempt;
      end += is_own ? chunk.rows : 0;
      runs_here = runs_here || (is_own && chunk.rank == rank);
    }
    const Nanos left = prefill_left(cost_, job.span, end);
    if (end > job.done && !runs_here && left > most) {
      longest = &job;
      from = end;
      most = left;
    }
  }
  if (longest == nullptr) {
    return std::nullopt;
  }
  const std::int64_t rows = fit_prefill(cost_, longest->span, from, spare);
  const Nanos cost = prefill_cost(cost_, longest->span, from, rows);
  if (cost > spare) {
    return std::nullopt;
  }
  return PrefillChunk{.request = longest->request,
                      .attempt = longest->attempt,
                      .rank = rank,
                      .rows = rows,
                      .cost = cost + limits_.split_sync,
                      .first = from};
}

// One more chunk that fits: of what has begun there, else of the shortest class that waits.
std::optional<PrefillChunk> PrefillSchedule::fill(std::size_t rank,
                                                  Nanos spare,
                                                  const std::vector<PrefillChunk>& chunks,
                                                  Room& room) {
  const auto runs = [&chunks](const PrefillJob& job) {
    return std::any_of(chunks.begin(), chunks.end(), [&job](const PrefillChunk& c) {
      return c.request == job.request && c.attempt == job.attempt;
    });
  };
  PrefillJob* best = nullptr;
  for (PrefillJob& job : jobs_) {
    const bool may = job.rank ? job.rank == rank
                              : room.ranks[rank].alive && room.may_start(job) &&
                                    fits(room.ranks[rank].room, job.blocks);
    const std::int64_t least = std::min<std::int64_t>(kBlockTokens - job.done % kBlockTokens,
                                                      chunk_border(job.span, job.done) - job.done);
    if (!may || cost_of(job, least) > spare || runs(job)) {
      continue;
    }
    const auto order = [](const PrefillJob& j) { return std::pair(!j.rank, j.length_class); };
    if (best == nullptr || order(job) < order(*best) ||
        (order(job) == order(*best) && goes_before(job, *best))) {
      best = &job;
    }
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  if (room.patient == best) {
    room.patient = nullptr;
  }
  return put(*best, rank, fit_rows(*best, spare), room);
}

bool PrefillSchedule::finish_chunk(RequestId request, AttemptId attempt, std::int64_t rows) {
  PrefillJob* job = find(request, attempt);
  if (job == nullptr) {
    return false;
  }
  job->done += rows;
  CHECK(job->done <= job->span.total);
  return job->done == job->span.total && remove(request, attempt);
}

bool PrefillSchedule::remove(RequestId request, AttemptId attempt) {
  return std::erase_if(jobs_, [&](const PrefillJob& job) {
           return job.request == request && job.attempt == attempt;
         }) > 0;
}

std::vector<PrefillJob> PrefillSchedule::lose_rank(std::size_t rank) {
  std::vector<PrefillJob> lost;
  std::copy_if(jobs_.begin(), jobs_.end(), std::back_inserter(lost), [rank](const PrefillJob& job) {
    return job.rank == rank;
  });
  std::erase_if(jobs_, [rank](const PrefillJob& job) { return job.rank == rank; });
  return lost;
}

PrefillBacklog PrefillSchedule::backlog() const {
  PrefillBacklog backlog;
  for (const PrefillJob& job : jobs_) {
    const Nanos left = left_of(job);
    if (!job.rank) {
      backlog.queued[static_cast<std::size_t>(job.length_class)] += left;
      ++backlog.waiting[static_cast<std::size_t>(job.length_class)];
      continue;
    }
    backlog.ranks.resize(std::max(backlog.ranks.size(), *job.rank + 1));
    PrefillRankLoad& rank = backlog.ranks[*job.rank];
    ++rank.requests;
    rank.rows += job.span.total - job.done;
    rank.work += left;
  }
  return backlog;
}

PrefillJob* PrefillSchedule::find(RequestId request, AttemptId attempt) {
  const auto it = std::find_if(jobs_.begin(), jobs_.end(), [&](const PrefillJob& job) {
    return job.request == request && job.attempt == attempt;
  });
  return it == jobs_.end() ? nullptr : &*it;
}

}  // namespace shoal
