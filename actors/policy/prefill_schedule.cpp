// Picks chunks class by class within the step's quota, then places them on ranks.
#include "actors/policy/prefill_schedule.h"

#include <algorithm>
#include <numeric>
#include <tuple>

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
  std::vector<Nanos> load;
  Nanos left{0};                        // quota of all ranks together
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
            .picks = {}};
  const auto alive =
      std::count_if(ranks.begin(), ranks.end(), [](const PrefillRank& r) { return r.alive; });
  room.left = limits_.quota * alive;
  if (alive == 0 || jobs_.empty()) {
    return {};
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
    Nanos budget = std::min(room.left, limits_.quota);
    if (charged) {
      budget = std::min(budget, deficit);
    }
    const std::int64_t rows =
        cost_.fit_chunk(budget, job->done, chunk_border(job->span, job->done) - job->done);
    const Nanos cost = cost_.rows_only(rows, job->done);
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
    const Nanos budget = std::min(room.left, limits_.quota - pick.cost);
    if (job.length_class != length_class || budget <= Nanos{0}) {
      continue;
    }
    const std::int64_t rows =
        cost_.fit_chunk(pick.cost + budget, job.done, chunk_border(job.span, job.done) - job.done);
    const Nanos cost = cost_.rows_only(rows, job.done);
    if (rows > pick.rows && cost - pick.cost <= budget) {
      room.left -= cost - pick.cost;
      pick.rows = rows;
      pick.cost = cost;
    }
  }
}

std::vector<PrefillChunk> PrefillSchedule::place(Room& room) {
  // Started requests first, they cannot move; then the new ones, longest first.
  std::stable_sort(room.picks.begin(), room.picks.end(), [](const Pick& a, const Pick& b) {
    return std::tuple(a.job->rank.has_value() ? 0 : 1, -a.cost) <
           std::tuple(b.job->rank.has_value() ? 0 : 1, -b.cost);
  });
  std::vector<PrefillChunk> chunks;
  for (const Pick& pick : room.picks) {
    if (auto chunk = place_one(pick, room)) {
      chunks.push_back(*chunk);
    } else {
      deficit_[static_cast<std::size_t>(pick.job->length_class)] += pick.charged;
    }
  }
  return chunks;
}

// Nothing: no rank has KV for a new request any more, or the rank's quota is used up.
std::optional<PrefillChunk> PrefillSchedule::place_one(const Pick& pick, Room& room) {
  PrefillJob& job = *pick.job;
  std::optional<std::size_t> rank = job.rank;
  for (std::size_t r = 0; !job.rank && r < room.ranks.size(); ++r) {
    const bool takes = room.ranks[r].alive && fits(room.ranks[r].room, job.blocks);
    if (takes && (!rank || room.load[r] < room.load[*rank])) {
      rank = r;
    }
  }
  if (!rank || !room.ranks[*rank].alive) {
    return std::nullopt;
  }
  const Nanos left = limits_.quota - room.load[*rank];
  const std::int64_t rows = std::min(
      pick.rows, cost_.fit_chunk(left, job.done, chunk_border(job.span, job.done) - job.done));
  const Nanos cost = cost_.rows_only(rows, job.done);
  // Even a quota below one block lets one chunk run: a step that does nothing would never end the
  // queue.
  if (room.load[*rank] > Nanos{0} && cost > left) {
    return std::nullopt;
  }
  const bool starts = !job.rank;
  if (starts) {
    room.ranks[*rank].room.blocks -= job.blocks;
    room.ranks[*rank].room.sequences -= 1;
    job.rank = rank;
  }
  room.load[*rank] += cost;
  return PrefillChunk{job.request, job.attempt, *rank, rows, starts, job.blocks, cost};
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
  PrefillBacklog backlog{.empty = jobs_.empty()};
  for (const PrefillJob& job : jobs_) {
    backlog.work += cost_.rows_only(job.span.total - job.done, job.done);
    backlog.waiting[static_cast<std::size_t>(job.length_class)] += job.rank ? 0 : 1;
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
