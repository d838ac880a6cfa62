// Whoever takes a question out of the table first, the answer or its deadline, calls back.
#include "transport/answers.h"

#include <utility>

namespace shoal::transport {

Answers::Answers(Scheduler scheduler, std::string who)
    : scheduler_(std::move(scheduler)),
      who_(std::move(who)) {}

Answers::~Answers() {
  std::unordered_map<std::uint64_t, Failed> left;
  {
    const std::lock_guard lock(table_->mutex);
    left = std::exchange(table_->waiting, {});
  }
  for (const auto& [question, failed] : left) {
    failed({Code::kUnavailable, who_ + " was closed before it answered; ask the one in force"});
  }
}

std::uint64_t Answers::ask(Instant deadline, Failed failed) {
  std::uint64_t question = 0;
  {
    const std::lock_guard lock(table_->mutex);
    question = ++table_->last;
    table_->waiting.emplace(question, std::move(failed));
  }
  scheduler_.defer(deadline - scheduler_.now(), [table = table_, who = who_, question] {
    if (const Failed expired = table->take(question)) {
      expired({Code::kDeadline, who + " did not answer by the deadline; ask again"});
    }
  });
  return question;
}

void Answers::settle(std::uint64_t question, std::function<void()> answer) {
  scheduler_.defer(Nanos(0), [table = table_, question, answer = std::move(answer)] {
    if (table->take(question)) {
      answer();
    }
  });
}

Answers::Failed Answers::Table::take(std::uint64_t question) {
  const std::lock_guard lock(mutex);
  auto taken = waiting.extract(question);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

}  // namespace shoal::transport
