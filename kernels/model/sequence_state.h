// What a running sequence needs on the device beyond KV blocks: window rings, the open compressor
// pair, Engram history, kept rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/formats.h"
#include "kernels/model/config.h"
#include "schemas/ids.h"

namespace shoal::kernels {

// Rows beyond the window: a step with drafts writes up to 6 rows before it is known how many stay,
// and another one behind it before an answer's end is known: whoever then saves a tail still finds
// the window of its end.
inline constexpr std::int64_t kRingSlack = 12;
// Raw (kv, score) rows kept for roll-back of those steps, and for a start before a tail's end.
inline constexpr std::int64_t kRecent = 8 + kRingSlack;
// Token ids: the oldest row that may run again has its n-gram's tokens before it.
inline constexpr std::int64_t kRecentTokens = kRecent - 1 + kHistoryTokens;

// Cached window rows of one layer; every slot is tagged with its position, and a read checks the
// tag.
class WindowRing {
 public:
  WindowRing(std::int64_t window, std::int64_t row_bytes);

  void clear();
  void put(Position position, const std::byte* row);
  bool holds(Position position) const;
  // The row must be there: a missing one is our mistake, not a miss.
  const std::byte* get(Position position) const;

 private:
  std::int64_t slots_;
  std::int64_t row_bytes_;
  std::vector<Position> tags_;
  std::vector<std::byte> rows_;
};

// Raw fp32 (kv, score) rows of the last positions at one ratio-2 source.
class OpenPair {
 public:
  explicit OpenPair(std::int64_t dim);

  void clear();
  void put(Position position, const float* kv, const float* score);
  bool holds(Position position) const;
  const float* kv(Position position) const;
  const float* score(Position position) const;

 private:
  std::size_t slot(Position position) const;

  std::int64_t dim_;
  std::vector<Position> tags_;
  std::vector<float> rows_;  // [kRecent][2][dim]
};

// Token ids of the last positions, for the Engram n-grams of the rows that follow.
class RecentTokens {
 public:
  void clear();
  void put(Position position, TokenId token, bool dead);
  // False when the position lies before the sequence or was never put.
  bool get(Position position, TokenId& token, bool& dead) const;

 private:
  struct Entry {
    Position position = -1;
    TokenId token = 0;
    bool dead = false;
  };

  Entry entries_[kRecentTokens];
};

struct SequenceState {
  explicit SequenceState(const ModelConfig& config);

  void clear();
  void clear_drafts();
  void drop_kept();

  std::vector<WindowRing> rings;   // one per backbone layer
  std::vector<WindowRing> drafts;  // one per DSpark stage
  std::vector<OpenPair> open;      // one per KV source (unused at ratio 1)
  RecentTokens recent;
  // Rows at the entry of the decoder half, kept until the prompt is complete: positions kept_first
  // .. kept_first + count - 1.
  Position kept_first = 0;
  std::int64_t kept_count = 0;
  std::vector<Bf16> kept_h;     // [count][C][D]
  std::vector<float> kept_pre;  // [count][C]
  std::vector<std::uint8_t> kept_image;
};

}  // namespace shoal::kernels
