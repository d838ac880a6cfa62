// Clients of a node in tests: one shard inbox whose streams follow the rules of actors/stream.h,
// and the truth to compare with.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/front_door.h"
#include "actors/stream.h"
#include "kernels/sim/sim_backend.h"

namespace shoal::testing {

struct Wanted {
  std::vector<TokenId> prompt;
  Sampling sampling;
  BasisMode mode = BasisMode::kBounded;
  std::uint32_t choice = 0;
  std::string tenant{};
  Instant deadline = Instant(Nanos::max() / 2);  // far away on every clock
  std::int64_t reads_per_s = 0;                  // tokens; 0: as they come
};

// A request with a prompt drawn from `seed`.
Wanted wanted(std::uint64_t seed, std::int64_t prompt_tokens, int max_tokens);

// What an answer depends on from its token `from` on: a later attempt may find other blocks.
struct BasisFrom {
  std::size_t from = 0;
  Basis basis;
  // Of hashes, the last row of the blocks that were loaded; none: as in a whole run.
  std::optional<std::uint64_t> loaded{};
  // Of a model, those blocks.
  std::vector<std::shared_ptr<const std::vector<std::byte>>> blocks{};
};

// What the sim device must answer to `request` under these, the first from 0 on.
std::vector<TokenId> sim_answer(const kernels::SimModel& model,
                                const Wanted& request,
                                const std::vector<BasisFrom>& bases,
                                Position context);
// Behind blocks of a whole run, if any.
std::vector<TokenId> sim_answer(const kernels::SimModel& model,
                                const Wanted& request,
                                const Basis& basis,
                                Position context);

struct Answer {
  std::vector<TokenId> tokens;
  std::optional<Basis> basis;    // the first
  std::vector<BasisFrom> bases;  // by attempt that answered
  std::int64_t cached_tokens = 0;
  Finish finish = Finish::kNone;
  std::optional<Error> error;
  std::optional<Nanos> retry_after;
  std::uint32_t attempts = 1;
  int terminal_events = 0;
  std::optional<Instant> ended;
  bool left = false;
  bool cut = false;    // its client did not read
  bool reset = false;  // the connection broke with the gateway's process

  bool over() const { return terminal_events > 0 || left || cut || reset; }
};

class Clients final : public ShardInbox {
 public:
  Clients(FrontDoor& door, std::function<Instant()> clock, const StreamLimits& limits = {});

  RequestId ask(const Wanted& request);
  // The client goes away.
  void leave(RequestId request);
  // The gateway's process is gone: nothing is delivered, said or submitted any more.
  void reset_connections();
  // As if a stop string ended at `end`.
  void stop_at(RequestId request, Position end);

  // Calls back for each delivered batch, unlocked, on the delivering thread.
  void on_tokens(std::function<void(RequestId, std::size_t answered)> callback) {
    on_tokens_ = std::move(callback);
  }

  void deliver(std::vector<TokenRun> runs) override;
  void fail(StreamFailure failure) override;

  // What streams have to do because time passed.
  void pass_time();
  Answer answer(RequestId request) const;

  // Most tokens that wait for one client to read them; whoever has more is cut off.
  void set_unread_limit(std::int64_t tokens) { unread_limit_ = tokens; }

  std::int64_t most_unread() const;

  // Calls back when an answer is over, however that came, unlocked.
  void on_over(std::function<void(RequestId)> callback) { on_over_ = std::move(callback); }

  // Every request ever asked here.
  std::vector<RequestId> requests() const;
  Wanted asked(RequestId request) const;
  std::size_t open() const;
  // Real time; false: some are open after `limit`.
  bool wait_until_all_over(Nanos limit);
  bool wait_for_tokens(RequestId request, std::size_t count, Nanos limit);

 private:
  struct Client {
    Stream stream;
    Answer answer;
    Wanted asked;
    std::int64_t unread = 0;  // tokens, when it last read
    Instant read_at{};
  };

  struct Todo {
    std::vector<std::pair<RequestId, StreamStop>> stops;
    std::vector<Submission> submissions;
    std::vector<RequestId> closed;
    std::vector<RequestId> over;
  };

  void take(Client& client, StreamStep step, Todo& todo);
  void read(Client& client, std::size_t arrived, Todo& todo);
  void close(Client& client, bool& how, Todo& todo);
  void act(Todo todo);
  bool wait(const std::function<bool()>& until, Nanos limit);

  FrontDoor& door_;
  std::function<Instant()> clock_;
  StreamLimits limits_;
  std::function<void(RequestId, std::size_t)> on_tokens_;
  std::function<void(RequestId)> on_over_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Client> clients_;
  std::vector<RequestId> slow_readers_;
  std::size_t open_ = 0;
  Instant due_ = Instant::max();  // no stream has anything to do before
  std::int64_t unread_limit_ = INT64_MAX;
  std::uint64_t next_;
  bool dead_ = false;
};

}  // namespace shoal::testing
