// Position-tagged rings: a read of a row that is not there aborts instead of answering with another
// position's row.
#include "kernels/model/sequence_state.h"

#include <algorithm>
#include <cstring>

#include "schemas/check.h"

namespace shoal::kernels {

WindowRing::WindowRing(std::int64_t window, std::int64_t row_bytes)
    : slots_(window + kRingSlack),
      row_bytes_(row_bytes),
      tags_(static_cast<std::size_t>(slots_), -1),
      rows_(static_cast<std::size_t>(slots_ * row_bytes)) {}

void WindowRing::clear() {
  std::fill(tags_.begin(), tags_.end(), -1);
}

void WindowRing::put(Position position, const std::byte* row) {
  const std::int64_t slot = position % slots_;
  tags_[static_cast<std::size_t>(slot)] = position;
  std::memcpy(rows_.data() + slot * row_bytes_, row, static_cast<std::size_t>(row_bytes_));
}

bool WindowRing::holds(Position position) const {
  return tags_[static_cast<std::size_t>(position % slots_)] == position;
}

const std::byte* WindowRing::get(Position position) const {
  CHECK(holds(position));
  return rows_.data() + position % slots_ * row_bytes_;
}

OpenPair::OpenPair(std::int64_t dim)
    : dim_(dim),
      tags_(static_cast<std::size_t>(kRecent), -1),
      rows_(static_cast<std::size_t>(kRecent * 2 * dim)) {}

void OpenPair::clear() {
  std::fill(tags_.begin(), tags_.end(), -1);
}

std::size_t OpenPair::slot(Position position) const {
  return static_cast<std::size_t>(position % kRecent);
}

void OpenPair::put(Position position, const float* kv, const float* score) {
  tags_[slot(position)] = position;
  float* row = rows_.data() + slot(position) * static_cast<std::size_t>(2 * dim_);
  std::copy_n(kv, dim_, row);
  std::copy_n(score, dim_, row + dim_);
}

bool OpenPair::holds(Position position) const {
  return tags_[slot(position)] == position;
}

const float* OpenPair::kv(Position position) const {
  CHECK(holds(position));
  return rows_.data() + slot(position) * static_cast<std::size_t>(2 * dim_);
}

const float* OpenPair::score(Position position) const {
  return kv(position) + dim_;
}

void RecentTokens::clear() {
  std::fill(std::begin(entries_), std::end(entries_), Entry{});
}

void RecentTokens::put(Position position, TokenId token, bool dead) {
  entries_[position % kRecentTokens] = Entry{position, token, dead};
}

bool RecentTokens::get(Position position, TokenId& token, bool& dead) const {
  if (position < 0) {
    return false;
  }
  const Entry& entry = entries_[position % kRecentTokens];
  token = entry.token;
  dead = entry.dead;
  return entry.position == position;
}

SequenceState::SequenceState(const ModelConfig& config) {
  for (int layer = 0; layer < config.layers; ++layer) {
    rings.emplace_back(config.window, window_row_bytes(config.head_dim));
  }
  for (int stage = 0; stage < config.stages; ++stage) {
    drafts.emplace_back(config.window, window_row_bytes(config.head_dim));
  }
  for (std::size_t s = 0; s < config.kv_sources.size(); ++s) {
    open.emplace_back(config.head_dim);
  }
}

void SequenceState::clear() {
  for (WindowRing& ring : rings) {
    ring.clear();
  }
  for (OpenPair& pair : open) {
    pair.clear();
  }
  recent.clear();
  clear_drafts();
  drop_kept();
}

void SequenceState::clear_drafts() {
  for (WindowRing& ring : drafts) {
    ring.clear();
  }
}

void SequenceState::drop_kept() {
  kept_first = 0;
  kept_count = 0;
  kept_h = {};
  kept_pre = {};
  kept_image = {};
}

}  // namespace shoal::kernels
