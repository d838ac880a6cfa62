// Segments of this process, as a server writes them: it has a heartbeat meanwhile.
#include "tools/kv_export.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tools/process_ports.h"
#include "transport/file_store/file_store.h"
#include "transport/registry.h"

namespace shoal::tools {
namespace {

// Others take a writer for dead after ten minutes without one.
constexpr Nanos kHeartbeat = std::chrono::seconds(60);

// A store that is opened and stopped is there from then on.
Result<void> make_store(const KvPlace& place) {
  transport::BlockStoreParams params = params_of(place);
  params.limits.bytes = Bytes(std::numeric_limits<std::int64_t>::max() / 2);
  params.policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  params.now = monotonic_now;
  params.wall = unix_millis_now;
  params.writer = IncarnationId{random_seed()};
  TRY(const auto store, transport::open_block_store(place.row, std::move(params)));
  store->stop();
  return {};
}

}  // namespace

Result<std::unique_ptr<KvExport>> KvExport::begin(const KvPlace& to) {
  TRY_VOID(make_store(to));
  TRY(KvView view, KvView::open(to));
  std::unique_ptr<KvExport> made(new KvExport(std::move(view)));
  TRY_VOID(made->beat());
  return made;
}

KvExport::KvExport(KvView view)
    : view_(std::move(view)),
      groups_{group_of(TtlClass::kAgent), group_of(TtlClass::kChat), group_of(TtlClass::kPinned)} {
  for (const KvViewBlock& block : view_.blocks()) {
    there_[block.entry.key] = block.entry.provenance;
  }
}

KvExport::~KvExport() {
  static_cast<void>(view_.io().remove(transport::heartbeat_name(view_.params().writer)));
}

KvExport::Group KvExport::group_of(TtlClass ttl) const {
  const std::int64_t full = transport::full_segment(view_.params().limits).value;
  return {.writer = {view_.io(), view_.params().writer, ttl, full},
          .entries = {},
          .room = transport::AlignedBuffer(static_cast<std::size_t>(transport::kGroupBytes))};
}

Result<void> KvExport::add(const KvViewBlock& block, const std::vector<std::byte>& record) {
  const auto there = there_.find(block.entry.key);
  if (there != there_.end() &&
      (there->second == Provenance::kExact || block.entry.provenance == Provenance::kBounded)) {
    return {};
  }
  there_[block.entry.key] = block.entry.provenance;
  Group& group = groups_.at(static_cast<std::size_t>(block.segment.ttl));
  if (group.bytes + record.size() > group.room.size()) {
    TRY_VOID(write(group));
  }
  const auto room = group.room.at_least(group.bytes + record.size());
  std::copy(record.begin(), record.end(), room.begin() + static_cast<std::ptrdiff_t>(group.bytes));
  group.bytes += record.size();
  group.entries.push_back(block.entry);
  group.entries.back().time = block.last_use;
  return {};
}

Result<void> KvExport::settle() {
  for (Group& group : groups_) {
    TRY_VOID(write(group));
    TRY_VOID(settle(group));
  }
  return {};
}

Result<void> KvExport::write(Group& group) {
  if (group.entries.empty()) {
    return {};
  }
  TRY_VOID(beat());
  group.is_settled = false;
  TRY_VOID(group.writer.extend(
      group.entries, group.room.span().first(std::exchange(group.bytes, 0)), unix_millis_now()));
  group.entries.clear();
  return group.writer.is_full() ? settle(group) : Result<void>();
}

Result<void> KvExport::settle(Group& group) {
  if (!std::exchange(group.is_settled, true)) {
    TRY_VOID(group.writer.settle());
  }
  return {};
}

Result<void> KvExport::beat() {
  const Instant now = monotonic_now();
  if (beat_at_ != Instant{} && now - beat_at_ < kHeartbeat) {
    return {};
  }
  beat_at_ = now;
  return view_.io().replace(transport::heartbeat_name(view_.params().writer), "");
}

}  // namespace shoal::tools
