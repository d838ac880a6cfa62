// The catalog of a store decides what is visible, as it does in a server.
#include "tools/kv_view.h"

#include <algorithm>

#include "tools/process_ports.h"
#include "transport/file_store/file_store.h"
#include "transport/file_store/segment_reader.h"
#include "transport/registry.h"

namespace shoal::tools {

using transport::EntryKind;

namespace {

// A writer that died in a group leaves a page that does not read, and pages of no group, behind.
std::string damage_of(const transport::SegmentNews& news, bool may_be_torn) {
  const std::int64_t pages = news.damaged + (may_be_torn ? 0 : news.broken);
  std::string said = pages > 0 ? std::to_string(pages) + " of its pages do not read" : "";
  if (news.is_cut() && !may_be_torn) {
    said +=
        std::string(said.empty() ? "" : "; ") + "it was cut: it does not end with an index page";
  }
  return said;
}

}  // namespace

Result<KvView> KvView::open(const KvPlace& place) {
  KvView view;
  view.place_ = place.text();
  view.params_ = std::make_unique<transport::BlockStoreParams>(params_of(place));
  view.params_->now = monotonic_now;
  view.params_->wall = unix_millis_now;
  view.params_->policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  view.params_->writer = IncarnationId{random_seed()};
  auto files = transport::open_block_files(place.row, *view.params_);
  if (!files) {
    return tl::unexpected(naming_options(std::move(files).error(), place));
  }
  view.io_ = *std::move(files);
  TRY_VOID(transport::check_version(*view.io_, view.place_));
  view.catalog_ = std::make_unique<transport::Catalog>(*view.params_);
  TRY_VOID(view.read());
  return view;
}

Result<void> KvView::read() {
  TRY(const std::vector<std::string> files, io_->list());
  std::set<transport::SegmentName> names;
  for (const std::string& file : files) {
    if (const auto name = transport::parse_segment_name(file)) {
      names.insert(*name);
    } else if (const auto writer = transport::parse_heartbeat_name(file)) {
      beating_.insert(*writer);
    }
  }
  for (auto at = names.begin(); at != names.end(); ++at) {
    const auto next = std::next(at);
    const bool is_last = next == names.end() || next->writer != at->writer || next->ttl != at->ttl;
    read(*at, is_last && beating_.contains(at->writer));
  }
  catalog_->settle();
  return {};
}

void KvView::read(const transport::SegmentName& name, bool may_be_torn) {
  const auto facts = io_->facts(to_string(name));
  if (!facts) {
    return;  // a server took it away meanwhile
  }
  KvViewSegment& segment = segments_.emplace_back();
  segment.name = name;
  segment.bytes = static_cast<std::int64_t>(facts->bytes);
  auto news = transport::read_segment(*io_, name, facts->bytes, {});
  if (news) {
    segment.damaged = news->damaged + news->broken;
    segment.damage = damage_of(*news, may_be_torn);
    segment.entries = std::move(news->added);
    catalog_->apply(catalog_->segment(name), segment.entries);
  } else {
    segment.damaged = 1;
    segment.problem = news.error().message;
  }
}

std::vector<KvViewBlock> KvView::blocks() const {
  std::vector<KvViewBlock> blocks;
  for (const KvViewSegment& segment : segments_) {
    for (const transport::IndexEntry& entry : segment.entries) {
      const auto found = catalog_->find(entry.key);
      if (entry.kind == EntryKind::kBlock && found && found->segment == segment.name &&
          found->place.page == entry.page) {
        blocks.push_back({entry, segment.name, catalog_->use(entry.key)->last_use});
      }
    }
  }
  return blocks;
}

Result<std::vector<std::byte>> KvView::record(const KvViewBlock& block) const {
  TRY(transport::FileIo::FilePtr file, io_->open(to_string(block.segment)));
  transport::AlignedBuffer buffer(std::size_t{block.entry.pages} * transport::kPageBytes);
  transport::FileIo::Read read{
      std::move(file), std::uint64_t{block.entry.page} * transport::kPageBytes, buffer.span(), {}};
  io_->read({&read, 1});
  TRY_VOID(read.result);
  TRY(const KvBlock header, read_kv_header(read.bytes));
  TRY_VOID(read_kv_record(read.bytes, {block.entry.key, block.entry.parent, header.layout}));
  return std::vector<std::byte>(read.bytes.begin(), read.bytes.end());
}

}  // namespace shoal::tools
