// One group at a time: while it is written, the next one gathers.
#include "transport/file_store/puts.h"

#include <algorithm>

#include "transport/file_store/store_core.h"

namespace shoal::transport {
namespace {

// A put that the medium does not answer in this time has failed.
constexpr std::chrono::seconds kPatience(30);

// Under way at a time, at most.
constexpr int kGroups = 3;

std::size_t index_of(TtlClass ttl) {
  return static_cast<std::size_t>(ttl);
}

SegmentWriter writer_of(const StoreCore& core, TtlClass ttl) {
  return {*core.io, core.params.writer, ttl, core.full_segment()};
}

// The record against its own header: what is damaged before it is written would never be found.
Result<void> verify(std::span<const std::byte> record) {
  TRY(const KvBlock block, read_kv_header(record));
  TRY_VOID(read_kv_record(record, {block.key, block.parent, block.layout}));
  return {};
}

}  // namespace

Puts::Puts(StoreCore& core)
    : core_(core),
      written_{Writing(writer_of(core, TtlClass::kAgent)),
               Writing(writer_of(core, TtlClass::kChat)),
               Writing(writer_of(core, TtlClass::kPinned))} {}

void Puts::add(std::vector<std::vector<std::byte>> records, BlockStore::Stored done) {
  const std::uint64_t id = ++last_;
  core_.counts.puts += static_cast<std::int64_t>(records.size());
  Operation& operation = operations_[id];
  operation.results.resize(records.size());
  operation.left = records.size() + 1;  // the last by the loop: no callback inside this call
  operation.done = std::move(done);
  const auto turn = static_cast<std::uint32_t>(records.size());
  for (std::size_t at = 0; at < records.size(); ++at) {
    const auto is_waiting = admit(records[at], turn, {id, at});
    if (!is_waiting || !*is_waiting) {
      operation.results[at] =
          is_waiting ? Result<void>() : Result<void>(tl::unexpected(is_waiting.error()));
      --operation.left;
    }
  }
  core_.post([id](StoreCore& core) {
    Calls calls;
    {
      const std::lock_guard lock(core.mutex);
      core.puts.answer({id, SIZE_MAX}, {}, calls);
    }
    make(calls);
    core.puts.pump();
  });
  core_.post([id](StoreCore& core) { core.puts.expire(id); }, kPatience);
}

// Whether the record, or one as good, is to be written; false: there is one already.
Result<bool> Puts::admit(std::vector<std::byte>& record, std::uint32_t turn, Slot slot) {
  TRY(const KvBlock block, read_kv_header(record));
  const auto is_as_good = [&block](Provenance there) {
    return there == Provenance::kExact || block.provenance != Provenance::kExact;
  };
  core_.counts.expired += core_.catalog.forget_expired(block.key) ? 1 : 0;
  const auto visible = core_.catalog.find(block.key);
  if (visible && is_as_good(visible->info.provenance)) {
    return false;
  }
  if (const auto found = on_the_way_.find(block.key);
      found != on_the_way_.end() && is_as_good(found->second->entry.provenance)) {
    found->second->waiters.push_back(slot);
    return true;
  }
  const auto bytes = static_cast<std::int64_t>(record.size());
  if (queued_ + bytes > core_.params.limits.queued.value) {
    return fail(Code::kNoCapacity, "KV store: too much waits to be written; the block is not kept");
  }
  auto taken = std::make_shared<Block>();
  taken->record = std::move(record);
  taken->entry.key = block.key;
  taken->entry.parent = block.parent;
  taken->entry.number = block.number;
  taken->entry.turn = turn;
  taken->entry.time = core_.params.wall();  // however long the medium hangs
  taken->entry.crc = block.payload_crc;
  taken->entry.provenance = block.provenance;
  taken->waiters.push_back(slot);
  queued_ += bytes;
  on_the_way_[block.key] = taken;
  add(queues_.at(index_of(block.ttl)), std::move(taken));
  return true;
}

void Puts::note_touch(TtlClass ttl, const BlockKey& leaf, std::uint32_t turn, WallMillis when) {
  IndexEntry& entry = queues_.at(index_of(ttl)).touches[leaf];
  entry.kind = EntryKind::kTouch;
  entry.key = leaf;
  entry.time = std::max(entry.time, when);
  entry.turn = turn;
}

void Puts::note_drop(TtlClass ttl,
                     const BlockKey& key,
                     const SegmentName& segment,
                     std::uint32_t page) {
  IndexEntry entry;
  entry.kind = EntryKind::kDrop;
  entry.key = key;
  entry.page = page;
  entry.dropped = segment;
  queues_.at(index_of(ttl)).drops.push_back(entry);
}

void Puts::copy(std::vector<std::byte> record, const IndexEntry& entry, const BlockPlace& from) {
  auto block = std::make_shared<Block>();
  queued_ += static_cast<std::int64_t>(record.size());
  block->record = std::move(record);
  block->entry = entry;
  block->copied_from = from;
  const TtlClass ttl = core_.catalog.at(from.segment).name.ttl;
  add(queues_.at(index_of(ttl)), std::move(block));
}

void Puts::add(Queue& queue, std::shared_ptr<Block> block) {
  queue.bytes += static_cast<std::int64_t>(block->record.size());
  queue.blocks.push_back(std::move(block));
}

std::uint64_t Puts::ticket(TtlClass ttl) const {
  return queues_.at(index_of(ttl)).begun + 1;
}

bool Puts::is_durable(TtlClass ttl, std::uint64_t ticket) const {
  return queues_.at(index_of(ttl)).done >= ticket;
}

bool Puts::close(TtlClass ttl) {
  if (writing_ > 0) {
    return false;
  }
  written_.at(index_of(ttl)).writer.close();
  return true;
}

void Puts::flush() {
  {
    const std::lock_guard lock(core_.mutex);
    must_flush_ = true;
  }
  pump();
}

void Puts::pump() {
  Calls calls;
  std::vector<GroupPtr> groups;
  {
    const std::lock_guard lock(core_.mutex);
    if (!core_.may_write()) {
      refuse_all(core_.refusal().value(), calls);
    } else if (core_.tidying.is_full()) {
      refuse_all({Code::kNoCapacity,
                  "KV store: it is at its ceiling, with what others wrote there; raise "
                  "kv.store_bytes, or take blocks out (shoal kv evict)"},
                 calls);
    }
    while (core_.may_write() && admits_group() && !core_.tidying.must_look()) {
      const auto ttl = next_class();
      if (!ttl) {
        must_flush_ = false;
        break;
      }
      groups.push_back(gather(*ttl));
      ++writing_;
      ++coming_.at(index_of(*ttl));
    }
    if (core_.tidying.must_look() && has_waiting()) {
      core_.tidying.ask_for_look();
    }
  }
  make(calls);
  for (const GroupPtr& group : groups) {
    core_.run(Lane::kStage, [group](StoreCore& core) {
      core.puts.stage(*group);
      core.run(Lane::kWrite, [group](StoreCore& again) { again.puts.write(group); });
    });
  }
}

bool Puts::has_waiting() const {
  return std::any_of(queues_.begin(), queues_.end(), [this](const Queue& queue) {
    return !queue.blocks.empty() || (must_flush_ && queue.has_notes());
  });
}

// One at a time, so that what comes meanwhile is made durable together. Full groups need not wait:
// one has its index to be written, one is being written, one is being staged.
bool Puts::admits_group() const {
  return writing_ == 0 ||
         (writing_ < kGroups && std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) {
            return queue.bytes >= kGroupBytes;
          }));
}

// Classes take turns.
std::optional<TtlClass> Puts::next_class() {
  for (int i = 0; i < kTtlClasses; ++i) {
    turn_ = (turn_ + 1) % queues_.size();
    const Queue& queue = queues_.at(turn_);
    if (writing_ > 0 && queue.bytes < kGroupBytes) {
      continue;
    }
    if (!queue.blocks.empty() || (must_flush_ && queue.has_notes())) {
      return static_cast<TtlClass>(turn_);
    }
  }
  return std::nullopt;
}

Puts::GroupPtr Puts::gather(TtlClass ttl) {
  Queue& queue = queues_.at(index_of(ttl));
  auto group = std::make_shared<Group>();
  group->ttl = ttl;
  group->now = core_.params.wall();
  group->number = ++queue.begun;
  queue.has_failed_notes = false;
  std::int64_t bytes = 0;
  while (!queue.blocks.empty()) {
    const auto size = static_cast<std::int64_t>(queue.blocks.front()->record.size());
    if (bytes > 0 && bytes + size > std::min(kGroupBytes, core_.full_segment())) {
      break;
    }
    bytes += size;
    queue.bytes -= size;
    group->blocks.push_back(std::move(queue.blocks.front()));
    queue.blocks.pop_front();
  }
  core_.tidying.adding(bytes);
  for (const auto& [key, entry] : queue.touches) {
    group->notes.push_back(entry);
  }
  group->notes.insert(group->notes.end(), queue.drops.begin(), queue.drops.end());
  queue.touches.clear();
  queue.drops.clear();
  return group;
}

// In the staging lane: while another group is written.
void Puts::stage(Group& group) {
  std::size_t bytes = 0;
  for (const auto& block : group.blocks) {
    group.verified.push_back(verify(block->record));
    if (group.verified.back()) {
      block->entry.pages = static_cast<std::uint32_t>(block->record.size() / kPageBytes);
      group.entries.push_back(block->entry);
      bytes += block->record.size();
    }
  }
  group.entries.insert(group.entries.end(), group.notes.begin(), group.notes.end());
  if (bytes == 0) {
    return;
  }
  group.room = take_room(bytes);
  group.records = group.room.span().first(bytes);
  auto to = group.room.span().begin();
  for (std::size_t i = 0; i < group.blocks.size(); ++i) {
    if (group.verified[i]) {
      to = std::copy(group.blocks[i]->record.begin(), group.blocks[i]->record.end(), to);
    }
  }
}

// In the writing lane. Where another group of the class follows, that one makes this one's index
// durable.
void Puts::write(const GroupPtr& group) {
  const bool is_last = --coming_.at(index_of(group->ttl)) == 0;
  Writing& writing = written_.at(index_of(group->ttl));
  if (group->entries.empty()) {
    finish({group}, std::nullopt);
  } else if (const auto extended = extend(writing, *group); extended) {
    writing.unsettled.push_back(group);
  } else {
    writing.unsettled.push_back(group);
    finish(std::exchange(writing.unsettled, {}), tl::unexpected(extended.error()));
  }
  if (!writing.unsettled.empty() && (is_last || writing.writer.is_full())) {
    finish(std::exchange(writing.unsettled, {}), writing.writer.settle());
  }
}

Result<void> Puts::extend(Writing& writing, Group& group) {
  if (!is_announced_) {
    // Before the first segment: one without a heartbeat is a dead writer's.
    TRY_VOID(core_.tidying.announce());
    is_announced_ = true;
  }
  const auto appended = writing.writer.extend(group.entries, group.records, group.now);
  const bool has_records = !group.records.empty();
  give_room(std::move(group.room));
  if (!appended) {
    return tl::unexpected(appended.error());
  }
  auto entry = group.entries.begin();
  for (std::size_t i = 0; i < group.blocks.size(); ++i) {
    if (group.verified[i]) {
      group.blocks[i]->entry.page = (entry++)->page;
    }
  }
  if (has_records) {
    finish(std::exchange(writing.unsettled, {}), *appended);
  }
  return {};
}

void Puts::finish(Groups groups, const Result<std::optional<SegmentWriter::Appended>>& appended) {
  for (GroupPtr& group : groups) {
    group->appended = appended;
    core_.post([group = std::move(group)](StoreCore& core) { core.puts.complete(group); });
  }
}

AlignedBuffer Puts::take_room(std::size_t bytes) {
  const std::lock_guard lock(rooms_mutex_);
  if (rooms_.empty() || bytes > static_cast<std::size_t>(kGroupBytes)) {
    return AlignedBuffer(std::max(bytes, static_cast<std::size_t>(kGroupBytes)));
  }
  AlignedBuffer room = std::move(rooms_.back());
  rooms_.pop_back();
  return room;
}

void Puts::give_room(AlignedBuffer room) {
  const std::lock_guard lock(rooms_mutex_);
  if (room.size() == static_cast<std::size_t>(kGroupBytes)) {
    rooms_.push_back(std::move(room));
  }
}

void Puts::complete(const GroupPtr& group) {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    --writing_;
    std::optional<std::uint32_t> segment;
    if (!group->appended) {
      core_.write_failed(group->appended.error(), bytes_of(*group));
      note_again(*group);
    } else if (*group->appended) {
      core_.write_done();
      note_done(*group);
      segment = core_.tidying.appended(**group->appended, group->notes);
    }
    for (std::size_t i = 0; i < group->blocks.size(); ++i) {
      Result<void> result = group->verified[i];
      if (result && !group->appended) {
        result = tl::unexpected(group->appended.error());
      } else if (result) {
        store(*group->blocks[i], *segment);
      }
      settle(group->blocks[i], result, calls);
    }
  }
  make(calls);
  core_.tidying.relieve();
  pump();
}

std::int64_t Puts::bytes_of(const Group& group) {
  std::int64_t bytes = 0;
  for (const auto& block : group.blocks) {
    bytes += static_cast<std::int64_t>(block->record.size());
  }
  return bytes;
}

void Puts::note_again(const Group& group) {
  Queue& queue = queues_.at(index_of(group.ttl));
  queue.has_failed_notes = queue.has_failed_notes || !group.notes.empty();
  for (const IndexEntry& note : group.notes) {
    if (note.kind == EntryKind::kTouch) {
      queue.touches.emplace(note.key, note);
    } else {
      queue.drops.push_back(note);
    }
  }
}

void Puts::note_done(const Group& group) {
  Queue& queue = queues_.at(index_of(group.ttl));
  if (!queue.has_failed_notes) {
    queue.done = group.number;
  }
}

// From here on the block is visible.
void Puts::store(const Block& block, std::uint32_t segment) {
  const IndexEntry& entry = block.entry;
  if (block.copied_from) {
    if (!core_.catalog.move(entry.key, *block.copied_from, {segment, entry.page, entry.pages})) {
      // Meanwhile it was dropped, or is elsewhere: the copy is nobody's.
      const SegmentName& name = core_.catalog.at(segment).name;
      note_drop(name.ttl, entry.key, name, entry.page);
    }
  } else if (const auto replaced = core_.catalog.add(entry, segment)) {
    const SegmentName& old = core_.catalog.at(replaced->segment).name;
    note_drop(old.ttl, entry.key, old, replaced->page);
  }
}

// The block is not on its way any more.
void Puts::settle(const std::shared_ptr<Block>& block, const Result<void>& result, Calls& calls) {
  if (block->copied_from) {
    core_.tidying.copied();
  }
  queued_ -= static_cast<std::int64_t>(block->record.size());
  if (const auto found = on_the_way_.find(block->entry.key);
      found != on_the_way_.end() && found->second == block) {
    on_the_way_.erase(found);
  }
  for (const Slot slot : block->waiters) {
    answer(slot, result, calls);
  }
}

void Puts::refuse_all(const Error& error, Calls& calls) {
  for (Queue& queue : queues_) {
    queue.bytes = 0;
    for (const auto& block : std::exchange(queue.blocks, {})) {
      settle(block, tl::unexpected(error), calls);
    }
  }
}

void Puts::answer(Slot slot, const Result<void>& result, Calls& calls) {
  const auto found = operations_.find(slot.operation);
  if (found == operations_.end()) {
    return;
  }
  if (slot.at < found->second.results.size()) {
    found->second.results[slot.at] = result;
  }
  if (--found->second.left == 0) {
    end(slot.operation, {}, calls);
  }
}

void Puts::end(std::uint64_t id, const Error& unanswered, Calls& calls) {
  const auto taken = operations_.extract(id);
  std::vector<Result<void>> results;
  for (const auto& result : taken.mapped().results) {
    results.push_back(result ? *result : Result<void>(tl::unexpected(unanswered)));
  }
  calls.push_back([done = taken.mapped().done, results = std::move(results)] { done(results); });
}

void Puts::expire(std::uint64_t id) {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    if (operations_.contains(id)) {
      end(id, {Code::kDeadline, "KV store: the medium does not take what is written"}, calls);
    }
  }
  make(calls);
}

void Puts::fail_all() {
  Calls calls;
  {
    const std::lock_guard lock(core_.mutex);
    while (!operations_.empty()) {
      end(operations_.begin()->first, {Code::kUnavailable, "KV store: it was stopped"}, calls);
    }
  }
  make(calls);
}

}  // namespace shoal::transport
