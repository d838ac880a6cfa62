// Questions to a store that wait for an answer: each is settled once, by its deadline at the
// latest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "schemas/result.h"
#include "transport/scheduler.h"

namespace shoal::transport {

class Answers {
 public:
  using Failed = std::function<void(Error)>;

  // `who` begins the messages: "cluster store DIRECTORY".
  Answers(Scheduler scheduler, std::string who);
  // Settles what is left with kUnavailable, on this thread.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // The number of a new question; `failed` is called with kDeadline if nothing settles it before.
  std::uint64_t ask(Instant deadline, Failed failed);
  // Runs `answer` by the scheduler unless the question was settled before.
  void settle(std::uint64_t question, std::function<void()> answer);

 private:
  // Shared with the scheduler's functions, which may outlive this object.
  struct Table {
    std::mutex mutex;
    std::uint64_t last = 0;
    std::unordered_map<std::uint64_t, Failed> waiting;

    Failed take(std::uint64_t question);
  };

  Scheduler scheduler_;
  std::string who_;
  std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace shoal::transport
