// Why a request takes what it takes of the KV that is kept: one word each, for timelines.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shoal {

enum class KvReason : std::uint8_t {
  kNoStore,        // the router's node has none
  kStoreAway,      // its medium cannot be had
  kStoreSilent,    // it did not answer a moment ago, and is left alone for some seconds
  kStoreOpening,   // it still reads what it has, and found nothing of this so far
  kLastAttempt,    // takes nothing, in case that what it took broke the others
  kNoWholeBlock,   // nothing this short is kept
  kNothingStored,  // under the first block of the prompt
  kDamaged,        // the first block did not verify a moment ago
  kBoundedOnly,    // blocks are there, but none that any run would have computed
  kBasisGone,      // the blocks that earlier attempts took are not there any more
  kWindowOnly,     // the hit is no longer than what a bounded request runs again behind it
  kBlocks,         // hit
  kTail,           // hit, up to the middle of a block
};

inline constexpr int kKvReasons = 13;

constexpr std::string_view to_string(KvReason reason) {
  constexpr std::array<std::string_view, kKvReasons> kWords = {"no_store",
                                                               "store_away",
                                                               "store_silent",
                                                               "store_opening",
                                                               "last_attempt",
                                                               "no_whole_block",
                                                               "nothing_stored",
                                                               "damaged",
                                                               "bounded_only",
                                                               "basis_gone",
                                                               "window_only",
                                                               "blocks",
                                                               "tail"};
  return kWords[static_cast<std::size_t>(reason)];
}

}  // namespace shoal
