// Stand in for functions of the product: the linker sends their callers here (--wrap, see
// CMakeLists.txt, which reads the names from this file), and the defect at work decides.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "actors/expert_slots.h"
#include "actors/kv_image.h"
#include "actors/policy/decode_balancer.h"
#include "actors/policy/health.h"
#include "actors/policy/membership.h"
#include "actors/stream.h"
#include "actors/tail_copy.h"
#include "kernels/kv_arena.h"
#include "schemas/checksum.h"
#include "tests/sim/defects/defect.h"
#include "transport/file_store/layout.h"

// A member function is called like a function with its object in front.
#define STAND_IN(name) asm("__wrap_" name)
#define REAL(name) asm("__real_" name)

// clang-format off
#define ON_TIME "_ZN5shoal6Stream7on_timeENSt6chrono10time_pointINS1_3_V212steady_clockENS1_8durationIlSt5ratioILl1ELl1000000000EEEEEE"
#define ON_TOKENS "_ZN5shoal6Stream9on_tokensENS_8TokenRunENSt6chrono10time_pointINS2_3_V212steady_clockENS2_8durationIlSt5ratioILl1ELl1000000000EEEEEE"
#define HEALTH_OF "_ZN5shoal9health_ofERKNS_9PartPulseERKNS_12HealthLimitsENSt6chrono10time_pointINS6_3_V212steady_clockENS6_8durationIlSt5ratioILl1ELl1000000000EEEEEE"
#define CHECK_KV_IMAGE "_ZN5shoal14check_kv_imageERKNS_8HandoverERKSt6vectorISt4byteSaIS4_EE"
#define CHECK_TAIL "_ZN5shoal10check_tailERKNS_9TailPlaceERKSt6vectorISt4byteSaIS4_EE"
#define GIVE_BLOCKS "_ZN5shoal7kernels7KvArena11give_blocksESt4spanIKNS_2IdINS_8BlockTagEjEELm18446744073709551615EE"
#define FIND_MEMBER "_ZNK5shoal4View4findENS_2IdINS_7NodeTagEjEE"
#define PICK_LEAST "_ZN5shoal10pick_leastESt4spanIKNS_10DecodeRankELm18446744073709551615EERKNS_10DecodeNeedERKNS_9CostModelElPFSt4pairIllERS2_S6_S9_E"
#define READ_KV_RECORD "_ZN5shoal14read_kv_recordESt4spanIKSt4byteLm18446744073709551615EERKNS_8KvWantedE"
#define READ_SEGMENT "_ZN5shoal9transport12read_segmentERNS0_6FileIoERKNS0_11SegmentNameEmRKNS0_15SegmentProgressE"
#define READ_INDEX_PAGE "_ZN5shoal9transport15read_index_pageESt4spanIKSt4byteLm18446744073709551615EERKNS0_11SegmentNameEj"
#define LOAD_SLOTS "_ZN5shoal10load_slotsERNS_7kernels12ExpertEngineERKNS_9RankSlotsERKSt6vectorINS_11ExpertLayerESaIS7_EERKSt8functionIFbvEE"

// clang-format on

namespace shoal::sim {

using transport::IndexPage;
using transport::SegmentName;
using transport::SegmentNews;
using transport::SegmentProgress;

namespace {

// Whether the defect at work takes for right what the real function refused.
template <class T>
bool is_trusted(const Result<T>& real, bool (Defect::*trusts)()) {
  Defect* defect = defect_at_work();
  return !real && defect != nullptr && (defect->*trusts)();
}

}  // namespace

StreamStep real_on_time(Stream* stream, Instant now) REAL(ON_TIME);
StreamStep stand_in_on_time(Stream* stream, Instant now) STAND_IN(ON_TIME);

StreamStep stand_in_on_time(Stream* stream, Instant now) {
  if (Defect* defect = defect_at_work()) {
    if (auto step = defect->on_time(*stream, now)) {
      return *std::move(step);
    }
  }
  return real_on_time(stream, now);
}

StreamStep real_on_tokens(Stream* stream, TokenRun run, Instant now) REAL(ON_TOKENS);
StreamStep stand_in_on_tokens(Stream* stream, TokenRun run, Instant now) STAND_IN(ON_TOKENS);

StreamStep stand_in_on_tokens(Stream* stream, TokenRun run, Instant now) {
  if (Defect* defect = defect_at_work()) {
    defect->on_tokens(*stream, run);
  }
  return real_on_tokens(stream, std::move(run), now);
}

Health real_health_of(const PartPulse& pulse, const HealthLimits& limits, Instant now)
    REAL(HEALTH_OF);
Health stand_in_health_of(const PartPulse& pulse, const HealthLimits& limits, Instant now)
    STAND_IN(HEALTH_OF);

Health stand_in_health_of(const PartPulse& pulse, const HealthLimits& limits, Instant now) {
  if (Defect* defect = defect_at_work()) {
    if (const auto health = defect->health_of(pulse)) {
      return *health;
    }
  }
  return real_health_of(pulse, limits, now);
}

Result<void> real_check_kv_image(const Handover& handover, const std::vector<std::byte>& image)
    REAL(CHECK_KV_IMAGE);
Result<void> stand_in_check_kv_image(const Handover& handover, const std::vector<std::byte>& image)
    STAND_IN(CHECK_KV_IMAGE);

Result<void> stand_in_check_kv_image(const Handover& handover,
                                     const std::vector<std::byte>& image) {
  auto checked = real_check_kv_image(handover, image);
  return is_trusted(checked, &Defect::trusts_kv_images) ? Result<void>() : checked;
}

Result<void> real_check_tail(const TailPlace& place, const std::vector<std::byte>& bytes)
    REAL(CHECK_TAIL);
Result<void> stand_in_check_tail(const TailPlace& place, const std::vector<std::byte>& bytes)
    STAND_IN(CHECK_TAIL);

Result<void> stand_in_check_tail(const TailPlace& place, const std::vector<std::byte>& bytes) {
  auto checked = real_check_tail(place, bytes);
  return is_trusted(checked, &Defect::trusts_tails) ? Result<void>() : checked;
}

void real_give_blocks(kernels::KvArena* arena, std::span<const BlockId> blocks) REAL(GIVE_BLOCKS);
void stand_in_give_blocks(kernels::KvArena* arena, std::span<const BlockId> blocks)
    STAND_IN(GIVE_BLOCKS);

void stand_in_give_blocks(kernels::KvArena* arena, std::span<const BlockId> blocks) {
  Defect* defect = defect_at_work();
  if (defect == nullptr || !defect->loses_blocks()) {
    real_give_blocks(arena, blocks);
  }
}

const Member* real_find_member(const View* view, NodeId node) REAL(FIND_MEMBER);
const Member* stand_in_find_member(const View* view, NodeId node) STAND_IN(FIND_MEMBER);

const Member* stand_in_find_member(const View* view, NodeId node) {
  const Member* member = real_find_member(view, node);
  Defect* defect = defect_at_work();
  return defect == nullptr ? member : defect->find_member(node, member);
}

std::optional<DecodeChoice> real_pick_least(std::span<const DecodeRank> ranks,
                                            const DecodeNeed& need,
                                            const CostModel& cost,
                                            std::int64_t max_batch,
                                            DecodeScore score) REAL(PICK_LEAST);
std::optional<DecodeChoice> stand_in_pick_least(std::span<const DecodeRank> ranks,
                                                const DecodeNeed& need,
                                                const CostModel& cost,
                                                std::int64_t max_batch,
                                                DecodeScore score) STAND_IN(PICK_LEAST);

std::optional<DecodeChoice> stand_in_pick_least(std::span<const DecodeRank> ranks,
                                                const DecodeNeed& need,
                                                const CostModel& cost,
                                                std::int64_t max_batch,
                                                DecodeScore score) {
  if (Defect* defect = defect_at_work()) {
    if (const auto choice = defect->pick_least(ranks, need, max_batch)) {
      return choice;
    }
  }
  return real_pick_least(ranks, need, cost, max_batch, score);
}

Result<KvRecord> real_read_kv_record(std::span<const std::byte> record, const KvWanted& wanted)
    REAL(READ_KV_RECORD);
Result<KvRecord> stand_in_read_kv_record(std::span<const std::byte> record, const KvWanted& wanted)
    STAND_IN(READ_KV_RECORD);

Result<KvRecord> stand_in_read_kv_record(std::span<const std::byte> record,
                                         const KvWanted& wanted) {
  auto read = real_read_kv_record(record, wanted);
  if (!is_trusted(read, &Defect::trusts_records)) {
    return read;
  }
  TRY(const KvBlock block, read_kv_header(record));
  return KvRecord{block, record.subspan(kKvHeaderBytes, block.payload_bytes)};
}

Result<SegmentNews> real_read_segment(transport::FileIo& io,
                                      const SegmentName& name,
                                      std::uint64_t bytes,
                                      const SegmentProgress& known) REAL(READ_SEGMENT);
Result<SegmentNews> stand_in_read_segment(transport::FileIo& io,
                                          const SegmentName& name,
                                          std::uint64_t bytes,
                                          const SegmentProgress& known) STAND_IN(READ_SEGMENT);

Result<SegmentNews> stand_in_read_segment(transport::FileIo& io,
                                          const SegmentName& name,
                                          std::uint64_t bytes,
                                          const SegmentProgress& known) {
  auto news = real_read_segment(io, name, bytes, known);
  Defect* defect = defect_at_work();
  if (news && defect != nullptr) {
    defect->on_segment(*news);
  }
  return news;
}

Result<IndexPage> real_read_index_page(std::span<const std::byte> page,
                                       const SegmentName& name,
                                       std::uint32_t at) REAL(READ_INDEX_PAGE);
Result<IndexPage> stand_in_read_index_page(std::span<const std::byte> page,
                                           const SegmentName& name,
                                           std::uint32_t at) STAND_IN(READ_INDEX_PAGE);

Result<IndexPage> stand_in_read_index_page(std::span<const std::byte> page,
                                           const SegmentName& name,
                                           std::uint32_t at) {
  auto index = real_read_index_page(page, name, at);
  if (!is_trusted(index, &Defect::trusts_index_pages)) {
    return index;
  }
  std::vector<std::byte> summed(page.begin(), page.end());
  constexpr std::size_t kCrcAt = 8;  // of all other bytes, and zeros in its place
  std::fill_n(summed.begin() + kCrcAt, sizeof(std::uint32_t), std::byte{0});
  const std::uint32_t crc = crc32c(summed);
  std::memcpy(summed.data() + kCrcAt, &crc, sizeof crc);
  return real_read_index_page(summed, name, at);
}

Result<void> real_load_slots(kernels::ExpertEngine& engine,
                             const RankSlots& of,
                             const std::vector<ExpertLayer>& layers,
                             const std::function<bool()>& is_late) REAL(LOAD_SLOTS);
Result<void> stand_in_load_slots(kernels::ExpertEngine& engine,
                                 const RankSlots& of,
                                 const std::vector<ExpertLayer>& layers,
                                 const std::function<bool()>& is_late) STAND_IN(LOAD_SLOTS);

Result<void> stand_in_load_slots(kernels::ExpertEngine& engine,
                                 const RankSlots& of,
                                 const std::vector<ExpertLayer>& layers,
                                 const std::function<bool()>& is_late) {
  Defect* defect = defect_at_work();
  // The first placement has to be there for the cluster to become whole.
  if (defect != nullptr && engine.use().experts > 0 && defect->loads_nothing()) {
    return {};
  }
  return real_load_slots(engine, of, layers, is_late);
}

}  // namespace shoal::sim
