// shoal bench kv: what a KV store does on a disk: puts, verified gets past and through the page
// cache, what of a load is checksums, the index, and a restart over a million blocks.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>

#include "schemas/checksum.h"
#include "tools/bench_command_line.h"
#include "tools/bench_kv_index.h"
#include "tools/bench_kv_load.h"
#include "tools/bench_kv_trace.h"
#include "tools/commands.h"
#include "tools/flag_checks.h"
#include "tools/process_ports.h"
#include "transport/file_store/file_store.h"
#include "transport/file_store/layout.h"
#include "transport/registry.h"

namespace shoal::tools {
namespace {

using transport::BlockStore;
using transport::FileWay;
using transport::kEntriesPerPage;
using transport::kPageBytes;
using transport::SegmentName;

struct BenchKvOptions {
  std::string directory;
  std::string rados;  // a ceph.conf, instead of a directory
  std::int64_t blocks = 4'000;
  std::int64_t payload = 113'920;  // of V4.1-Flash
  std::int64_t restart_blocks = 1'000'000;
};

constexpr std::size_t kBatch = 32;  // a prompt of 4,096 tokens

// Sequences of kBatch blocks; blocks with equal numbers have equal records.
struct Sample {
  KvWanted wanted;
  KvBlock block;
};

Sample sample_of(std::uint64_t number, const BlockKey& parent) {
  Sample sample;
  for (std::size_t t = 0; t < sample.block.tokens.size(); ++t) {
    sample.block.tokens[t] = static_cast<TokenId>(number * 31 + t);
  }
  sample.block.parent = number % kBatch == 0 ? root_key({}) : parent;
  sample.block.key = next_key(sample.block.parent, sample.block.tokens);
  sample.block.number = static_cast<std::uint32_t>(number % kBatch);
  sample.wanted = {sample.block.key, sample.block.parent, sample.block.layout};
  return sample;
}

std::vector<Sample> samples(std::int64_t count) {
  std::vector<Sample> all;
  BlockKey parent;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(sample_of(static_cast<std::uint64_t>(i), parent));
    parent = all.back().block.key;
  }
  return all;
}

std::vector<std::byte> payload_of(std::int64_t bytes) {
  std::vector<std::byte> payload(static_cast<std::size_t>(bytes));
  std::uint64_t state = 1;
  for (std::byte& byte : payload) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return payload;
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Wall and processor time of one measurement.
class Watch {
 public:
  double wall() const { return std::chrono::duration<double>(monotonic_now() - began_).count(); }

  double cpu() const { return cpu_seconds() - cpu_; }

  // Of the checksums of records.
  double checksum_percent() const {
    return 100 * static_cast<double>(checksum_work().ticks - checksums_) /
           static_cast<double>(std::max(processor_ticks() - ticks_, std::int64_t{1}));
  }

 private:
  Instant began_ = monotonic_now();
  double cpu_ = cpu_seconds();
  std::int64_t ticks_ = processor_ticks();
  std::int64_t checksums_ = checksum_work().ticks;
};

struct Way {
  const char* name;
  FileWay way;
  bool direct;
  int readers;
};

// A directory, or a store in a Ceph pool.
struct Place {
  std::filesystem::path directory;
  transport::RadosPlace rados;

  const char* row() const { return directory.empty() ? "rados" : "file"; }
};

Place in(const std::filesystem::path& directory) {
  return {directory, {}};
}

Result<std::unique_ptr<BlockStore>> open(const Place& place, const Way& way) {
  transport::BlockStoreParams params;
  params.directory = place.directory;
  params.rados = place.rados;
  params.limits.bytes = Bytes(std::int64_t{1} << 50);
  params.limits.blocks = std::numeric_limits<std::int64_t>::max();
  params.policy.worth = [](const BlockUse& use, WallMillis) { return use.last_use; };
  params.now = monotonic_now;
  params.wall = unix_millis_now;
  params.writer = IncarnationId{random_seed()};
  params.way = way.way;
  params.direct = way.direct;
  params.readers = way.readers;
  return transport::open_block_store(place.row(), std::move(params));
}

std::size_t get(BlockStore& store, std::vector<KvWanted> wanted) {
  std::promise<std::size_t> good;
  store.get(std::move(wanted),
            monotonic_now() + std::chrono::minutes(5),
            [&good](const std::vector<transport::Loaded>& loaded) {
              good.set_value(static_cast<std::size_t>(std::count_if(
                  loaded.begin(), loaded.end(), [](const auto& l) { return l.has_value(); })));
            });
  return good.get_future().get();
}

// As from a client that writes behind: the next batches wait while one is written.
Result<double> time_puts(BlockStore& store, const std::vector<Sample>& all, std::int64_t payload) {
  constexpr std::size_t kAhead = 16;
  const std::vector<std::byte> bytes = payload_of(payload);
  std::vector<std::vector<std::vector<std::byte>>> batches;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % kBatch == 0) {
      batches.emplace_back();
    }
    KvBlock block = all[i].block;
    batches.back().push_back(make_kv_record(block, bytes));
  }
  std::vector<std::promise<bool>> stored(batches.size());
  const Watch watch;
  for (std::size_t batch = 0; batch < batches.size() + kAhead; ++batch) {
    if (batch < batches.size()) {
      store.put(std::move(batches[batch]), [&stored, batch](const auto& results) {
        stored[batch].set_value(std::all_of(
            results.begin(), results.end(), [](const auto& r) { return r.has_value(); }));
      });
    }
    if (batch >= kAhead && !stored[batch - kAhead].get_future().get()) {
      return fail(Code::kUnavailable, "a put failed; is there room on the disk?");
    }
  }
  return watch.wall();
}

Result<void> print_puts(const Place& place,
                        const Way& way,
                        const std::vector<Sample>& all,
                        const BenchKvOptions& o) {
  TRY(const auto store, open(place, way));
  TRY(const double wall, time_puts(*store, all, o.payload));
  const double bytes = static_cast<double>(all.size()) * static_cast<double>(o.payload);
  std::printf("put %-28s %6.2f GB/s\n", way.name, bytes / wall / 1e9);
  return {};
}

Result<void> print_gets(const Place& place,
                        const Way& way,
                        const std::vector<Sample>& all,
                        const BenchKvOptions& o) {
  TRY(const auto store, open(place, way));
  get(*store, {all.front().wanted});
  // Three batches are under way at any time.
  constexpr std::size_t kAhead = 3;
  std::vector<std::promise<std::size_t>> got((all.size() + kBatch - 1) / kBatch);
  std::size_t good = 0;
  const Watch watch;
  for (std::size_t batch = 0; batch < got.size() + kAhead; ++batch) {
    if (batch < got.size()) {
      std::vector<KvWanted> wanted;
      for (std::size_t i = batch * kBatch; i < std::min(all.size(), (batch + 1) * kBatch); ++i) {
        wanted.push_back(all[i].wanted);
      }
      store->get(std::move(wanted),
                 monotonic_now() + std::chrono::minutes(5),
                 [&got, batch](const std::vector<transport::Loaded>& loaded) {
                   got[batch].set_value(static_cast<std::size_t>(std::count_if(
                       loaded.begin(), loaded.end(), [](const auto& l) { return l.has_value(); })));
                 });
    }
    if (batch >= kAhead) {
      good += got[batch - kAhead].get_future().get();
    }
  }
  const double checksums = watch.checksum_percent();
  const double wall = watch.wall();
  const double cpu = watch.cpu();
  const double bytes = static_cast<double>(good) * static_cast<double>(o.payload);
  std::printf(
      "get %-28s %6.2f GB/s, %6.2f GB a second of processor; checksums %4.1f %% of the load "
      "time, %4.1f %% of the processor's; %zu of %zu good\n",
      way.name,
      bytes / wall / 1e9,
      bytes / cpu / 1e9,
      checksums,
      checksums * wall / cpu,
      good,
      all.size());
  return {};
}

Result<void> print_loads(const std::filesystem::path& directory,
                         const std::vector<Sample>& all,
                         const BenchKvOptions& o) {
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i + kBatch <= all.size(); i += kBatch) {
    prompts.emplace_back();
    for (const Sample& sample : std::span(all).subspan(i, kBatch)) {
      const auto& tokens = sample.block.tokens;
      prompts.back().insert(prompts.back().end(), tokens.begin(), tokens.end());
    }
  }
  // The first as a server opens it.
  const int readers = transport::BlockStoreParams{}.readers;
  const Way ways[] = {{"io_uring, O_DIRECT", FileWay::kAny, true, readers},
                      {"pread, page cache", FileWay::kThreads, false, readers}};
  for (const Way& way : ways) {
    TRY(const auto store, open(in(directory), way));
    get(*store, {all.front().wanted});
    TRY_VOID(print_kv_loads({way.name, store.get()}, prompts, o.payload));
  }
  return {};
}

// A store of real index pages over holes; the first record of every segment is real.
Result<std::vector<KvWanted>> write_sparse(transport::FileIo& io, const BenchKvOptions& o) {
  const auto pages = static_cast<std::uint32_t>(kv_record_bytes(o.payload) / kKvRecordAlign);
  constexpr std::int64_t kPerSegment = 2'257;  // of V4.1-Flash in 256 MiB
  const std::vector<std::byte> payload = payload_of(o.payload);
  transport::AlignedBuffer page(kPageBytes);
  transport::AlignedBuffer room(std::size_t{pages} * kPageBytes);
  std::vector<KvWanted> real;
  BlockKey parent;
  for (std::int64_t first = 0; first < o.restart_blocks; first += kPerSegment) {
    const SegmentName name{
        IncarnationId{7}, TtlClass::kChat, static_cast<std::uint32_t>(first / kPerSegment)};
    TRY(const auto file, io.create(to_string(name)));
    transport::write_header_page(name, unix_millis_now(), page.span());
    TRY_VOID(io.write(*file, 0, page.span()));
    transport::IndexPage index;
    std::uint32_t end = 1;
    const std::int64_t last = std::min(first + kPerSegment, o.restart_blocks);
    for (std::int64_t i = first; i < last; ++i) {
      Sample sample = sample_of(static_cast<std::uint64_t>(i), parent);
      parent = sample.block.key;
      if (i == first) {
        const auto record = make_kv_record(sample.block, payload);
        std::copy(record.begin(), record.end(), room.span().begin());
        TRY_VOID(io.write(*file, kPageBytes, room.span()));
        real.push_back(sample.wanted);
      }
      transport::IndexEntry entry;
      entry.key = sample.block.key;
      entry.parent = sample.block.parent;
      entry.number = sample.block.number;
      entry.time = unix_millis_now();
      entry.page = end;
      entry.pages = pages;
      end += pages;
      index.entries.push_back(entry);
      if (index.entries.size() == kEntriesPerPage || i + 1 == last) {
        index.page = end++;
        transport::write_index_page(index, name, page.span());
        TRY_VOID(io.write(*file, std::uint64_t{index.page} * kPageBytes, page.span()));
        index = {0, index.page, index.first + index.entries.size(), {}};
      }
    }
  }
  return real;
}

Result<void> print_restart(const std::filesystem::path& directory, const BenchKvOptions& o) {
  const Way way{"restart", FileWay::kAny, true, 4};
  {
    // Makes the directory a store.
    TRY(const auto store, open(in(directory), way));
  }
  transport::BlockStoreParams params;
  params.directory = directory;
  TRY(const auto io, transport::open_file_io(params));
  TRY(const std::vector<KvWanted> real, write_sparse(*io, o));
  const Watch watch;
  TRY(const auto store, open(in(directory), way));
  const std::size_t first = get(*store, {real.front()});
  const double first_wall = watch.wall();
  const std::size_t good = get(*store, real);
  get(*store, {KvWanted{}});  // unknown: answered when everything is read
  const double wall = watch.wall();
  const BlockStore::Use use = store->use();
  std::printf(
      "restart with %lld blocks: first hit %.2f s, all read %.2f s (%.2f s of processor), "
      "%zu of %zu reads good, %lld corrupt, index %.0f MB\n",
      static_cast<long long>(use.blocks),
      first == 1 ? first_wall : -1,
      wall,
      watch.cpu(),
      good,
      real.size(),
      static_cast<long long>(use.corrupt),
      static_cast<double>(use.index.value) / 1e6);
  return {};
}

Result<void> bench_rados(const std::vector<Sample>& all, const BenchKvOptions& o) {
  Place place;
  place.rados.conf = o.rados;
  place.rados.store = "bench-" + std::to_string(random_seed());
  const Way way{"rados", FileWay::kAny, false, 4};
  TRY_VOID(print_puts(place, way, all, o));
  TRY_VOID(print_gets(place, way, all, o));
  const std::string rados =
      "rados -c " + o.rados + " -p " + place.rados.pool + " -N " + place.rados.store;
  std::printf("what was put stays there; remove it: %s ls | xargs -n 100 %s rm\n",
              rados.c_str(),
              rados.c_str());
  return {};
}

Result<void> bench(const BenchKvOptions& o) {
  const std::filesystem::path directory = o.directory;
  const std::vector<Sample> all = samples(o.blocks);
  std::printf("%lld blocks of %lld bytes, batches of %zu\n",
              static_cast<long long>(o.blocks),
              static_cast<long long>(o.payload),
              kBatch);
  if (!o.rados.empty()) {
    return bench_rados(all, o);
  }
  constexpr Way kPuts[] = {{"io_uring, O_DIRECT", FileWay::kAny, true, 4},
                           {"pwrite, O_DIRECT", FileWay::kThreads, true, 4},
                           {"pwrite, page cache", FileWay::kThreads, false, 4}};
  int number = 0;
  for (const Way& way : kPuts) {
    TRY_VOID(print_puts(in(directory / ("put" + std::to_string(number++))), way, all, o));
  }
  constexpr Way kGets[] = {{"io_uring, O_DIRECT", FileWay::kAny, true, 2},
                           {"pread, O_DIRECT", FileWay::kThreads, true, 8},
                           {"pread, page cache, 1 reader", FileWay::kThreads, false, 1},
                           {"pread, page cache, 2 readers", FileWay::kThreads, false, 2}};
  for (const Way& way : kGets) {
    TRY_VOID(print_gets(in(directory / "put2"), way, all, o));
  }
  TRY_VOID(print_loads(directory / "put2", all, o));
  print_kv_index();
  if (o.restart_blocks > 0) {
    TRY_VOID(print_restart(directory / "restart", o));
  }
  return {};
}

int run_bench(const BenchKvOptions& options) {
  std::error_code error;
  if (options.rados.empty() && !std::filesystem::is_empty(options.directory, error) && !error) {
    return report({Code::kMisconfigured,
                   options.directory + " is not empty; name a directory that may be emptied"});
  }
  const Result<void> done = bench(options);
  if (options.rados.empty()) {
    std::filesystem::remove_all(options.directory, error);
  }
  return done ? 0 : report(done.error());
}

}  // namespace

void add_bench_kv(CLI::App& bench, int& status) {
  CLI::App* kv = bench.add_subcommand(
      "kv", "put, get and restart of a KV store on a disk, or what one hits of recorded requests");
  const auto options = std::make_shared<BenchKvOptions>();
  BenchKvOptions& o = *options;
  CLI::Option* directory =
      kv->add_option(
            "directory", o.directory, "an empty or new directory on it; emptied afterwards")
          ->check(not_empty());
  CLI::Option* rados =
      kv->add_option("--rados", o.rados, "a ceph.conf: in the pool `shoal` of that cluster instead")
          ->check(CLI::ExistingFile)
          ->excludes(directory);
  kv->add_option("--blocks", o.blocks, "blocks that are put and got")
      ->check(CLI::Range(32, 10000000))
      ->capture_default_str();
  kv->add_option("--payload", o.payload, "bytes of a block")
      ->check(CLI::Range(1, 1 << 26))
      ->capture_default_str();
  kv->add_option(
        "--restart-blocks", o.restart_blocks, "blocks of the store that is opened; 0: none")
      ->check(CLI::Range(0, 100000000))
      ->capture_default_str();
  const auto trace = std::make_shared<BenchKvTraceOptions>();
  add_bench_kv_trace(*kv, *trace);
  kv->get_option("--trace")->excludes(directory)->excludes(rados);
  kv->footer(
      "Examples:\n  shoal bench kv /data/bench --blocks 8000\n"
      "  shoal bench kv --trace tests/sim/traces/chat-800.jsonl.gz --capacity 5% 10%");
  kv->callback([options, trace, &status] {
    if (!trace->traces.empty()) {
      status = run_bench_kv_trace(*trace);
    } else if (options->directory.empty() && options->rados.empty()) {
      throw CLI::RequiredError("directory, --rados or --trace");
    } else {
      status = run_bench(*options);
    }
  });
}

}  // namespace shoal::tools
