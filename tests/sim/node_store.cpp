// Each lane does one job after the other, and a job's calls all happen when it ends.
#include "tests/sim/node_store.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "transport/file_store/file_store.h"

namespace shoal::sim {
namespace {

using transport::FileIo;
using transport::Lane;

// Longest time of a job that nothing slows down.
constexpr std::uint64_t kJobNs = 400'000;
// Calls of a group that is written, at most.
constexpr std::uint64_t kGroupCalls = 8;
// Two rounds of the store, and more than the jobs of one take.
constexpr Nanos kSettled = std::chrono::seconds(6);

}  // namespace

struct NodeStore::State {
  explicit State(NodeStoreParts parts) : parts(std::move(parts)) {}

  struct Jobs {
    std::deque<std::function<void()>> waiting;
    Instant busy_until{};
    int held = 0;  // ended while nothing could
  };

  NodeStoreParts parts;
  std::shared_ptr<FileIo> view;
  Mount mount = Mount::kWorks;
  bool hangs = false;
  bool stopped = false;
  bool dead = false;
  Nanos extra{0};
  Instant disturbed{};
  std::optional<std::uint64_t> calls_left;  // to write; none: any number
  std::array<Jobs, transport::kLanes> lanes;
  std::vector<std::function<void()>> held_calls;  // of the loop

  void add(const std::shared_ptr<State>& self, Lane lane, std::function<void()> job);
  void end_job(Jobs& jobs);
  void call(std::function<void()> run);
  void go_on(const std::shared_ptr<State>& self);
};

void NodeStore::State::add(const std::shared_ptr<State>& self,
                           Lane lane,
                           std::function<void()> job) {
  Jobs& jobs = lanes.at(static_cast<std::size_t>(lane));
  const Instant now = parts.timeline.now();
  const Nanos cost = extra + Nanos{static_cast<std::int64_t>(parts.random(kJobNs))};
  jobs.busy_until = std::max(jobs.busy_until, now) + cost;
  jobs.waiting.push_back(std::move(job));
  parts.timeline.after(jobs.busy_until - now, [self, &jobs] { self->end_job(jobs); });
}

void NodeStore::State::end_job(Jobs& jobs) {
  if (dead || jobs.waiting.empty()) {
    return;
  }
  if (hangs || stopped) {
    ++jobs.held;
    return;
  }
  const auto job = std::move(jobs.waiting.front());
  jobs.waiting.pop_front();
  job();
}

void NodeStore::State::call(std::function<void()> run) {
  if (stopped) {
    held_calls.push_back(std::move(run));
  } else {
    run();
  }
}

// In their order: those of a lane by its queue, those of the loop as they came.
void NodeStore::State::go_on(const std::shared_ptr<State>& self) {
  disturbed = parts.timeline.now();
  if (stopped) {
    return;
  }
  for (auto& run : std::exchange(held_calls, {})) {
    parts.timeline.after(Nanos{0}, [self, run = std::move(run)] { self->call(run); });
  }
  for (Jobs& jobs : lanes) {
    for (int held = hangs ? 0 : std::exchange(jobs.held, 0); held > 0; --held) {
      parts.timeline.after(Nanos{0}, [self, &jobs] { self->end_job(jobs); });
    }
  }
}

// The view, as far as the mount lets calls through.
class NodeStore::Disk final : public FileIo {
 public:
  explicit Disk(std::shared_ptr<State> state) : state_(std::move(state)) {}

  int depth() const override { return view().depth(); }

  Result<std::vector<std::string>> list() override {
    TRY_VOID(may_read());
    return view().list();
  }

  Result<Facts> facts(const std::string& name) override {
    TRY_VOID(may_read());
    return view().facts(name);
  }

  Result<FilePtr> open(const std::string& name) override {
    TRY_VOID(may_read());
    return view().open(name);
  }

  Result<FilePtr> create(const std::string& name) override {
    TRY_VOID(may_add());
    return view().create(name);
  }

  Result<void> remove(const std::string& name) override {
    TRY_VOID(may_change());
    return view().remove(name);
  }

  void read(std::span<Read> reads) override {
    const auto may = may_read();
    if (may) {
      return view().read(reads);
    }
    for (Read& read : reads) {
      read.result = may;
    }
  }

  Result<void> write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) override {
    const auto may = may_add();
    if (may || !is_dying()) {
      return may ? view().write(file, offset, bytes) : may;
    }
    // Killed in the middle: some of it is there.
    const auto pages = bytes.size() / static_cast<std::size_t>(kKvRecordAlign);
    const std::size_t some = state_->parts.random(pages + 1) * kKvRecordAlign;
    static_cast<void>(view().write(file, offset, bytes.first(some)));
    return may;
  }

  Result<void> truncate(File& file, std::uint64_t bytes) override {
    TRY_VOID(may_change());
    return view().truncate(file, bytes);
  }

  Result<void> sync(File& file) override {
    TRY_VOID(may_change());
    return state_->parts.syncs ? view().sync(file) : Result<void>();
  }

  Result<std::string> content(const std::string& name) override {
    TRY_VOID(may_read());
    return view().content(name);
  }

  Result<void> replace(const std::string& name, std::string_view content) override {
    TRY_VOID(may_add());
    return view().replace(name, content);
  }

 private:
  FileIo& view() const { return *state_->view; }

  bool is_dying() const { return state_->calls_left.has_value(); }

  Result<void> may_read() const {
    if (state_->mount == Mount::kAway) {
      return fail(Code::kUnavailable, "simulated disk: the mount is away");
    }
    return {};
  }

  Result<void> may_change() {
    TRY_VOID(may_read());
    if (is_dying() && *state_->calls_left == 0) {
      return fail(Code::kUnavailable, "simulated disk: the process was killed");
    }
    if (is_dying()) {
      --*state_->calls_left;
    }
    if (state_->mount == Mount::kReadOnly) {
      return fail(Code::kUnavailable, "simulated disk: it is mounted read-only");
    }
    return {};
  }

  Result<void> may_add() {
    TRY_VOID(may_change());
    if (state_->mount == Mount::kFull) {
      return fail(Code::kNoCapacity, "simulated disk: it is full");
    }
    return {};
  }

  const std::shared_ptr<State> state_;
};

NodeStore::NodeStore(NodeStoreParts parts) : state_(std::make_shared<State>(std::move(parts))) {
  state_->view = state_->parts.disk.open();
}

std::unique_ptr<transport::BlockStore> NodeStore::open(transport::BlockStoreParams params) {
  params.now = [&clock = state_->parts.clock] { return clock.now(); };
  params.wall = [&clock = state_->parts.clock] { return clock.wall(); };
  const transport::Scheduler loop{
      params.now, [state = state_](Nanos delay, std::function<void()> run) {
        state->parts.timeline.after(delay, [state, run = std::move(run)] { state->call(run); });
      }};
  return transport::make_file_store(std::move(params),
                                    std::make_shared<Disk>(state_),
                                    loop,
                                    [state = state_](Lane lane, std::function<void()> job) {
                                      state->add(state, lane, std::move(job));
                                    });
}

void NodeStore::set_mount(Mount mount) {
  state_->mount = mount;
  state_->go_on(state_);
}

void NodeStore::hang(bool hangs) {
  state_->hangs = hangs;
  state_->go_on(state_);
}

void NodeStore::slow_down(Nanos extra) {
  state_->extra = extra;
  state_->go_on(state_);
}

void NodeStore::stop(bool stopped) {
  state_->stopped = stopped;
  state_->go_on(state_);
}

void NodeStore::die() {
  auto& writing = state_->lanes.at(static_cast<std::size_t>(Lane::kWrite)).waiting;
  if (!writing.empty() && !state_->hangs) {
    state_->calls_left = state_->parts.random(kGroupCalls);
    const auto job = std::move(writing.front());
    writing.pop_front();
    job();
  }
  state_->dead = true;
  transport::SimDisk::sever(*state_->view);
  for (State::Jobs& jobs : state_->lanes) {
    jobs.waiting.clear();  // they hold the store
  }
  state_->held_calls.clear();
}

bool NodeStore::is_dead() const {
  return state_->dead;
}

Nanos NodeStore::hangs_for() const {
  return state_->hangs ? state_->parts.timeline.now() - state_->disturbed : Nanos{0};
}

bool NodeStore::is_settled() const {
  const Instant last = std::max(state_->disturbed, state_->parts.clock.wall_set_at());
  return !state_->hangs && state_->extra == Nanos{0} &&
         state_->parts.timeline.now() - last > kSettled;
}

}  // namespace shoal::sim
