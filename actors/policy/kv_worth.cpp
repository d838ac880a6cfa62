// The sample: a table of fixed size, eight places for a name, the one that waited longest gives
// way.
#include "actors/policy/kv_worth.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "schemas/check.h"

namespace shoal {
namespace {

constexpr std::size_t kPlaces = 8;
// Of small stores, so many a block; enough for hundreds of sequences in every kind that matters
// (2 MiB); of large stores, one for so many blocks (2 bytes a block).
constexpr std::uint64_t kRecordsABlock = 32;
constexpr std::uint64_t kRecords = std::uint64_t{1} << 17;
constexpr std::uint64_t kBlocksARecord = 8;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 32;

constexpr WallMillis kTick = 125;
// Room for uses that other processes tell late.
constexpr WallMillis kBefore = WallMillis{4} * 365 * 24 * 3'600 * 1'000;

// Learning again pays when so many sequences were seen, or this part of all.
constexpr double kSequencesALesson = 4;
constexpr std::uint64_t kLessonPart = 64;

constexpr std::uint32_t kMostUses = 0x3FFF;

// Room is made for this part of it at once.
constexpr std::int64_t kSlack = 16;
// What is learned decides when it hit as many more sequences than LRU: two that come back are
// chance often enough, and every one more is lost where there is little to learn from.
constexpr double kLead = 3;

constexpr int kCostShift = 30;
constexpr std::int64_t kCostAt = 8'192;  // block; costs grow evenly

std::int64_t growth(const CostModel& cost) {
  const std::int64_t first = std::max<std::int64_t>(1, cost.rows_only(kBlockTokens, 0).count());
  const std::int64_t later = cost.rows_only(kBlockTokens, kCostAt * kBlockTokens).count();
  const double ratio = static_cast<double>(later - first) / static_cast<double>(first);
  return static_cast<std::int64_t>(ratio / kCostAt * (std::int64_t{1} << kCostShift));
}

}  // namespace

KvWorth::KvWorth(const CostModel& cost, const StoreRoom& room)
    : cost_growth_(growth(cost)),
      room_(room) {
  CHECK(room.blocks > 0 && room.pages > 0);
}

// The sample: as many as there are blocks stored, and at least as many again that were forgotten.
void KvWorth::begin(const BlockUse& first) {
  const std::int64_t by_pages = room_.pages / std::max(1U, first.pages);
  const std::int64_t blocks =
      std::clamp<std::int64_t>(std::min(room_.blocks, by_pages), 1, kMostBlocks);
  const auto most = static_cast<std::uint64_t>(blocks);
  const std::uint64_t records =
      std::bit_ceil(std::max(std::min(kRecordsABlock * most, kRecords), most / kBlocksARecord));
  every_ = std::bit_ceil(std::max<std::uint64_t>(1, 2 * most / records));
  places_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(most / every_));
  sample_.resize(records);
  began_ = first.last_use - kBefore;
}

std::int64_t KvWorth::worth(const BlockUse& use, WallMillis now) const {
  constexpr std::int64_t kPinnedAbove = std::int64_t{1} << 61;
  const std::int64_t pinned = use.ttl == TtlClass::kPinned ? kPinnedAbove : 0;
  if (!is_ahead_) {
    return pinned + use.last_use;
  }
  const std::int64_t rate = model_.worth(ReuseModel::kind(use), now - use.last_use);
  // 2^38 at most, times 2^12 at a million tokens.
  const std::int64_t cost =
      1'024 + ((static_cast<std::int64_t>(use.number) * cost_growth_) >> (kCostShift - 10));
  return pinned + rate * std::min<std::int64_t>(cost, 1 << 20) / std::max(1U, use.pages);
}

std::uint32_t KvWorth::ticks(WallMillis time) const {
  const WallMillis since = (time - began_) / kTick + 1;
  return static_cast<std::uint32_t>(
      std::clamp<WallMillis>(since, 1, std::numeric_limits<std::uint32_t>::max()));
}

WallMillis KvWorth::waited(const Record& record, std::uint32_t now) {
  return WallMillis{std::max(now, record.last_use) - record.last_use} * kTick;
}

KvWorth::Record& KvWorth::place_of(std::uint64_t name, std::uint32_t now) {
  const std::size_t first = (name / every_ * kPlaces) & (sample_.size() - 1);
  Record* oldest = &sample_[first];
  for (std::size_t i = first; i < first + kPlaces; ++i) {
    if (sample_[i].name == name && sample_[i].last_use > 0) {
      return sample_[i];
    }
    if (sample_[i].last_use < oldest->last_use) {
      oldest = &sample_[i];
    }
  }
  if (oldest->last_use > 0) {
    model_.lost(oldest->kind, waited(*oldest, now));
    in_lru_ -= oldest->in_lru;
    in_own_ -= oldest->in_own;
  }
  *oldest = {};
  return *oldest;
}

BlockUse KvWorth::seen(std::uint64_t name, const BlockUse& use, bool is_written) {
  if (sample_.empty()) {
    begin(use);
  }
  sequences_ += use.number == 0 ? 1 : 0;
  if (name % every_ != 0) {
    return use;
  }
  const std::uint32_t now = ticks(use.last_use);
  Record& record = place_of(name, now);
  const BlockUse known = with_past(use, is_written, record, now);
  compare(record);
  record.name = name;
  record.last_use = now;
  record.kind = static_cast<std::uint16_t>(ReuseModel::kind(known));
  record.uses = static_cast<std::uint16_t>(std::min(known.uses, kMostUses) & kMostUses);
  keep(record, now);
  if (++sampled_ >= learn_at_) {
    learn(now);
  }
  return known;
}

BlockUse KvWorth::with_past(const BlockUse& use,
                            bool is_written,
                            const Record& record,
                            std::uint32_t now) {
  BlockUse known = use;
  if (record.last_use == 0) {
    known.uses = is_written ? 0 : use.uses;
    return known;
  }
  model_.used(record.kind, waited(record, now));
  if (is_written) {
    known.uses = record.uses + 1U;
    known.idle_before = waited(record, now);
  }
  return known;
}

void KvWorth::learn(std::uint32_t now) {
  std::vector<ReuseModel::Counts> waiting(ReuseModel::kKinds);
  for (const Record& record : sample_) {
    if (record.last_use > 0) {
      ++waiting[record.kind][static_cast<std::size_t>(ReuseModel::age_of(waited(record, now)))];
    }
  }
  sequence_ = std::max(
      1.0,
      static_cast<double>(sampled_) / static_cast<double>(std::max<std::uint64_t>(1, sequences_)));
  model_.learn(waiting, sequence_);
  learn_at_ = sampled_ + std::max(static_cast<std::uint64_t>(kSequencesALesson * sequence_),
                                  std::min(sampled_, std::uint64_t{1} << 20) / kLessonPart);
}

// Which of the two would have had the block that is used now. The lead is bounded, so that what
// was learned of another time is given up as soon as it stopped being true.
void KvWorth::compare(const Record& record) {
  const double enough = kLead * sequence_;
  lead_ = std::clamp(lead_ + record.in_own - record.in_lru, 0.0, 2 * enough);
  is_ahead_ = is_ahead_ ? lead_ > 0 : lead_ >= enough;
}

void KvWorth::keep(Record& record, std::uint32_t now) {
  in_lru_ += 1 - record.in_lru;
  in_own_ += 1 - record.in_own;
  record.in_lru = 1;
  record.in_own = 1;
  const std::int64_t most = places_ + places_ / kSlack;
  if (in_lru_ > most) {
    for (Record* out : least([](const Record& r) { return r.in_lru != 0; },
                             [](const Record& r) { return std::int64_t{r.last_use}; })) {
      out->in_lru = 0;
      --in_lru_;
    }
  }
  if (in_own_ > most) {
    for (Record* out :
         least([](const Record& r) { return r.in_own != 0; },
               [this, now](const Record& r) { return model_.worth(r.kind, waited(r, now)); })) {
      out->in_own = 0;
      --in_own_;
    }
  }
}

// Those that leave no more than there is room for.
template <typename IsIn, typename Worth>
std::vector<KvWorth::Record*> KvWorth::least(const IsIn& is_in, const Worth& worth) {
  std::vector<std::pair<std::int64_t, Record*>> in;
  for (Record& record : sample_) {
    if (record.last_use > 0 && is_in(record)) {
      in.emplace_back(worth(record), &record);
    }
  }
  const auto middle = in.end() - std::min<std::ptrdiff_t>(places_, std::ssize(in));
  std::nth_element(in.begin(), middle, in.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->last_use, a.second->name) <
           std::tie(b.first, b.second->last_use, b.second->name);
  });
  std::vector<Record*> out;
  std::transform(
      in.begin(), middle, std::back_inserter(out), [](const auto& one) { return one.second; });
  return out;
}

Bytes KvWorth::bytes() const {
  constexpr std::size_t kModel =
      ReuseModel::kKinds * ReuseModel::kAges * (2 * sizeof(std::uint32_t) + sizeof(std::int64_t));
  return Bytes{static_cast<std::int64_t>(sample_.size() * sizeof(Record) + kModel)};
}

}  // namespace shoal
