// shoal kv: what is in the KV stores of servers, running or not: stat, ls, verify, scrub, evict,
// export.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>

#include "tools/commands.h"
#include "tools/kv_export.h"
#include "tools/kv_sweep.h"
#include "tools/kv_view.h"
#include "tools/process_ports.h"
#include "tools/progress_bar.h"

namespace shoal::tools {
namespace {

using transport::IndexEntry;
using transport::name_of;

double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

std::int64_t bytes_of(const KvViewBlock& block) {
  return std::int64_t{block.entry.pages} * kKvRecordAlign;
}

std::int64_t sum_of(const std::vector<KvViewBlock>& blocks) {
  std::int64_t sum = 0;
  for (const KvViewBlock& block : blocks) {
    sum += bytes_of(block);
  }
  return sum;
}

double hours_since(WallMillis then) {
  return static_cast<double>(std::max<std::int64_t>(unix_millis_now() - then, 0)) / 3'600'000;
}

void print_counts(const std::vector<KvViewBlock>& blocks) {
  std::array<long long, kTtlClasses> by_class{};
  long long exact = 0;
  for (const KvViewBlock& block : blocks) {
    by_class.at(static_cast<std::size_t>(block.segment.ttl)) += 1;
    exact += block.entry.provenance == Provenance::kExact;
  }
  const auto all = static_cast<long long>(blocks.size());
  std::printf("  blocks    %lld: %lld exact, %lld bounded; %lld agent, %lld chat, %lld pinned\n",
              all,
              exact,
              all - exact,
              by_class[0],
              by_class[1],
              by_class[2]);
  std::printf("            %s\n            %s\n", kExactBlocks, kBoundedBlocks);
}

void print_age(const std::vector<KvViewBlock>& blocks) {
  if (blocks.empty()) {
    return;
  }
  const auto [oldest, newest] =
      std::minmax_element(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
        return a.last_use < b.last_use;
      });
  std::printf("  last use  %.1f to %.1f hours ago\n",
              hours_since(newest->last_use),
              hours_since(oldest->last_use));
}

Result<void> stat(const KvView& view) {
  const std::vector<KvViewBlock> blocks = view.blocks();
  std::int64_t files = 0;
  std::int64_t damaged = 0;
  std::set<IncarnationId> writers;
  for (const KvViewSegment& segment : view.segments()) {
    files += segment.bytes;
    damaged += segment.damaged;
    writers.insert(segment.name.writer);
  }
  const std::int64_t visible = sum_of(blocks);
  std::printf("%s\n", view.place().c_str());
  print_counts(blocks);
  std::printf("  bytes     %.1f MB visible, %.1f MB not, in %zu segments of %zu writers\n",
              megabytes(visible),
              megabytes(files - visible),
              view.segments().size(),
              writers.size());
  print_age(blocks);
  std::printf("  damaged   %lld pages\n", static_cast<long long>(damaged));
  for (const KvViewSegment& segment : view.segments()) {
    if (!segment.problem.empty()) {
      std::printf("  unread    %s\n", segment.problem.c_str());
    }
    if (!segment.damage.empty()) {
      std::printf("  damaged   %s: %s\n", to_string(segment.name).c_str(), segment.damage.c_str());
    }
  }
  if (view.is_open() && !blocks.empty()) {
    std::printf(
        "  note      a server may have it open, and have evicted some of these blocks in the last ten "
        "seconds: its /metrics has shoal_kv_store_blocks\n");
  }
  return {};
}

Result<void> list(const KvView& view) {
  for (const KvViewBlock& block : view.blocks()) {
    std::printf("%s %-6s %-7s number %u bytes %lld used %.1f h ago %s page %u\n",
                to_string(block.entry.key).c_str(),
                std::string(name_of(block.segment.ttl)).c_str(),
                block.entry.provenance == Provenance::kExact ? "exact" : "bounded",
                block.entry.number,
                static_cast<long long>(bytes_of(block)),
                hours_since(block.last_use),
                to_string(block.segment).c_str(),
                block.entry.page);
  }
  return {};
}

// The blocks whose records are not what the index says; each is printed.
std::vector<KvViewBlock> find_bad(const KvView& view) {
  const std::vector<KvViewBlock> blocks = view.blocks();
  std::vector<KvViewBlock> bad;
  {
    ProgressBar bar("verify " + view.place());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (const auto record = view.record(blocks[i]); !record) {
        std::printf("%s in %s page %u: %s\n",
                    to_string(blocks[i].entry.key).c_str(),
                    to_string(blocks[i].segment).c_str(),
                    blocks[i].entry.page,
                    record.error().message.c_str());
        bad.push_back(blocks[i]);
      }
      bar.update(static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(blocks.size()));
    }
  }
  std::printf("%s: %zu blocks verified, %zu damaged\n",
              view.place().c_str(),
              blocks.size() - bad.size(),
              bad.size());
  return bad;
}

// Each is printed; how many.
std::size_t print_bad_segments(const KvView& view) {
  std::size_t bad = 0;
  for (const KvViewSegment& segment : view.segments()) {
    if (!segment.problem.empty()) {
      std::printf("%s\n", segment.problem.c_str());
    } else if (!segment.damage.empty()) {
      std::printf("segment %s: %s\n", to_string(segment.name).c_str(), segment.damage.c_str());
    } else {
      continue;
    }
    ++bad;
  }
  return bad;
}

Result<void> verify(const KvView& view) {
  const std::size_t segments = print_bad_segments(view);
  const std::size_t blocks = find_bad(view).size();
  if (segments > 0) {
    return fail(Code::kCorrupt,
                view.place() + ": " + std::to_string(segments) + " damaged segments and " +
                    std::to_string(blocks) +
                    " damaged blocks; a server skips what does not read: put those files back "
                    "under their names, or remove them, and `shoal kv scrub` takes the blocks out");
  }
  if (blocks > 0) {
    return fail(Code::kCorrupt,
                view.place() + ": " + std::to_string(blocks) +
                    " damaged blocks; a server skips them, `shoal kv scrub` takes them out");
  }
  return {};
}

Result<void> take_out(const KvView& view, const std::vector<KvViewBlock>& blocks) {
  TRY(const Freed freed, drop_blocks(view, blocks));
  std::printf(
      "%s: %zu blocks taken out, %.1f MB of files removed, %.1f MB given back inside others\n",
      view.place().c_str(),
      blocks.size(),
      megabytes(freed.files),
      megabytes(freed.inside));
  return {};
}

Result<void> evict(const KvView& view, const KvOptions& o) {
  std::vector<KvViewBlock> blocks = view.blocks();
  std::int64_t left = sum_of(blocks);
  std::erase_if(blocks, [&o](const KvViewBlock& block) {
    return (!o.ttl.empty() && name_of(block.segment.ttl) != o.ttl) ||
           hours_since(block.last_use) < o.older_than_hours;
  });
  // The longest unused first; of equal ones, what is behind in its sequence.
  std::sort(blocks.begin(), blocks.end(), [](const KvViewBlock& a, const KvViewBlock& b) {
    return a.last_use != b.last_use ? a.last_use < b.last_use : a.entry.number > b.entry.number;
  });
  std::size_t count = 0;
  while (count < blocks.size() && left > o.to_bytes) {
    left -= bytes_of(blocks[count++]);
  }
  blocks.resize(count);
  return take_out(view, blocks);
}

Result<void> export_into(const KvView& view, KvExport& to) {
  const std::vector<KvViewBlock> blocks = view.blocks();
  std::size_t damaged = 0;
  {
    ProgressBar bar("export " + view.place());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto record = view.record(blocks[i]);
      damaged += !record;
      if (record) {
        TRY_VOID(to.add(blocks[i], *record));
      }
      bar.update(static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(blocks.size()));
    }
  }
  TRY_VOID(to.settle());
  std::printf("%s: %zu blocks exported, %zu damaged ones left out\n",
              view.place().c_str(),
              blocks.size() - damaged,
              damaged);
  return {};
}

Result<void> run_one(const KvPlace& place, const KvOptions& o, KvExport* target) {
  TRY(const KvView view, KvView::open(place));
  switch (o.task) {
    case KvTask::kStat:
      return stat(view);
    case KvTask::kList:
      return list(view);
    case KvTask::kVerify:
      return verify(view);
    case KvTask::kScrub:
      return take_out(view, find_bad(view));
    case KvTask::kEvict:
      return evict(view, o);
    case KvTask::kExport:
      return export_into(view, *target);
  }
  return {};
}

// Those that were named, or else the one of the configuration.
Result<std::vector<KvPlace>> places_of(const KvOptions& options, const Config& config) {
  std::vector<KvPlace> places;
  for (const std::string& text : options.stores) {
    TRY(places.emplace_back(), parse_kv_place(text, config));
  }
  if (places.empty()) {
    TRY(places.emplace_back(), kv_place(config));
  }
  return places;
}

// Null: nothing is exported. Before it is made all that is to be exported must be there.
Result<std::unique_ptr<KvExport>> open_export(const KvOptions& options,
                                              const std::vector<KvPlace>& places,
                                              const Config& config) {
  if (options.task != KvTask::kExport) {
    return nullptr;
  }
  for (const KvPlace& place : places) {
    TRY_VOID(KvView::open(place));
  }
  TRY(const KvPlace to, parse_kv_place(options.to, config));
  return KvExport::begin(to);
}

}  // namespace

int run_kv(const KvOptions& options, const Config& config) {
  const auto places = places_of(options, config);
  if (!places) {
    return report(places.error());
  }
  const auto target = open_export(options, *places, config);
  if (!target) {
    return report(target.error());
  }
  int status = 0;
  for (const KvPlace& place : *places) {
    if (const auto done = run_one(place, options, target->get()); !done) {
      status = report(done.error());
    }
  }
  return status;
}

}  // namespace shoal::tools
