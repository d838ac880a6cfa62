// Long-lived KV: blocks by key, kept for days, shared by all processes that open the same store.
//
// Order of a put: durable (as the row says), then indexed, then visible. A block that is visible
// verifies, in this process and in every later one. What does not verify is a miss (kCorrupt) and
// counted, whatever the bytes on the medium are.
//
// Threads: every call from any thread; callbacks on the row's own threads, one at a time, and they
// must not block. Every operation is called back exactly once, by its deadline at the latest, also
// when the store stops: stop() returns after the last callback, and what is asked of a stopped
// store, or of one that is away, is refused on the caller's thread. Errors: kNotFound (no such
// block, or no longer), kCorrupt (it is damaged or another's), kDeadline, kNoCapacity (a ceiling of
// this side, or the medium is full), kUnavailable (the medium does not answer or refuses to be
// written, or the store stopped).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/block_key.h"
#include "schemas/kv_record.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/block_index.h"

namespace shoal::transport {

struct BlockStoreLimits {
  // Of all that is on the medium, whoever wrote it: visible blocks are less (row `file`: 70 %). Of
  // several processes that share it the largest ceiling holds; file_store.h says how exactly.
  Bytes bytes{std::int64_t{16} << 30};
  std::int64_t blocks = 10'000'000;        // in the index; beyond, the least valuable is forgotten
  Bytes queued{std::int64_t{256} << 20};   // puts that are not durable yet; beyond: kNoCapacity
  Bytes loading{std::int64_t{256} << 20};  // gets that are not called back yet; beyond they wait
  std::array<std::int64_t, kTtlClasses> hours{72, 168, 24 * 365};  // after the last use, by class
};

// One block of a get: the record's payload, verified against key, parent and layout.
using Loaded = Result<std::shared_ptr<const std::vector<std::byte>>>;

class BlockStore {
 public:
  using Got = std::function<void(std::vector<Loaded>)>;           // as asked for, one each
  using Stored = std::function<void(std::vector<Result<void>>)>;  // durable and visible, one each

  virtual ~BlockStore() = default;

  // What an acknowledged put outlives, in one sentence for README and `shoal kv stat`.
  virtual std::string_view durable() const = 0;

  // From memory, at once. Blocks past their lifetime are not there, for get() neither.
  virtual std::optional<BlockInfo> find(const BlockKey& key) const = 0;

  // Records from make_kv_record; kDeadline when the medium does not take them in half a minute. A
  // key that is visible already is acknowledged without another write, unless the new record is
  // exact and the old one is bounded: then it takes its place.
  virtual void put(std::vector<std::vector<std::byte>> records, Stored done) = 0;

  // A block that is not visible is looked for once more among what others wrote meanwhile.
  virtual void get(std::vector<KvWanted> wanted, Instant deadline, Got done) = 0;

  // Others wrote: what of it is durable becomes visible soon, not only with the store's next round.
  // A hint, cheap to repeat; find() and use() say what came of it.
  virtual void refresh() = 0;

  // Used just now: its lifetime, and that of all blocks before it, begins anew. `turn`: blocks that
  // its sequence is about to write behind it; 0: not known.
  virtual void touch(const BlockKey& leaf, std::uint32_t turn) = 0;

  // A lease on a block and all before it, by whoever relies on them for some time: this process
  // neither lets them expire nor drives them out, unless nothing else is left, until as many
  // releases as holds, or for `time`. Other processes see it as a use alone.
  virtual void hold(const BlockKey& leaf, Nanos time) = 0;
  virtual void release(const BlockKey& leaf) = 0;

  // Forgets a block; its bytes come back when the store cleans up. False: it was not there.
  virtual bool drop(const BlockKey& key) = 0;

  // Fails what is pending, ends its threads. Idempotent; the destructor calls it. Not from a
  // callback.
  virtual void stop() = 0;

  struct Use {
    std::int64_t blocks = 0;  // visible
    Bytes bytes{0};           // of visible records
    Bytes garbage{0};         // on the medium, and of no visible record
    Bytes queued{0};
    Bytes loading{0};
    Bytes index{0};  // memory
    std::int64_t held = 0;
    std::int64_t puts = 0;
    std::int64_t gets = 0;
    std::int64_t misses = 0;   // gets of blocks that were not there
    std::int64_t corrupt = 0;  // records that did not verify
    std::int64_t broken = 0;  // pages of its index that do not read: damaged, or torn with a writer
    std::int64_t expired = 0;
    std::int64_t evicted = 0;
    // Operations that the medium refused, and one more for every few seconds that it answers none.
    std::int64_t failed = 0;
    // False: it refuses writes (full, read-only, away), until it takes blocks again or as much as
    // it refused; reads go on.
    bool writable = true;
    // False: what is asked of it cannot be read or removed, or is not answered, until it is.
    bool answers = true;
    // Why it keeps less than its ceiling, or nothing more; empty: it does not.
    std::string cramped;
    // It still reads what is there: gets of unknown blocks wait for that, and what was dropped may
    // be there once more until then.
    bool opening = false;
    std::string away;  // why the medium cannot be had at all; empty: it is there
  };

  virtual Use use() const = 0;
};

// How many leading keys are visible, by bisection: 10 look-ups for 1,000 keys. A block whose parent
// was forgotten may be counted; then its load ends in kNotFound, and the hit there.
std::size_t longest_hit(const BlockStore& store, std::span<const BlockKey> keys, bool exact_only);

}  // namespace shoal::transport
