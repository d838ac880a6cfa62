// A call travels there, touches the shared record, and travels back.
#include "transport/sim/sim_store.h"

#include <utility>

#include "schemas/check.h"
#include "transport/answers.h"

namespace shoal::transport {
namespace {

class SimStore final : public ClusterStore {
 public:
  explicit SimStore(SimStoreParts parts)
      : parts_(std::move(parts)),
        answers_(std::make_shared<Answers>(parts_.scheduler, "cluster store sim")) {}

  void read(Instant deadline, Read done) override {
    ask(deadline, false, std::move(done), [record = parts_.record] { return record->read(); });
  }

  void compare_and_swap(std::uint64_t expected,
                        std::string bytes,
                        Instant deadline,
                        Written done) override {
    ask(deadline,
        true,
        std::move(done),
        [record = parts_.record, expected, bytes = std::move(bytes)] {
          return record->compare_and_swap(expected, bytes);
        });
  }

 private:
  template <class Done, class Touch>
  void ask(Instant deadline, bool is_write, Done done, Touch touch) {
    const StoreVerdict verdict = parts_.verdict ? parts_.verdict(is_write) : StoreVerdict{};
    const std::uint64_t question =
        answers_->ask(deadline, [done](Error error) { done(tl::unexpected(std::move(error))); });
    if (verdict.fate == StoreFate::kLostCall) {
      return;
    }
    // What has left this store arrives, also when the store is gone by then.
    parts_.scheduler.defer(
        verdict.there,
        [answers = std::weak_ptr(answers_),
         scheduler = parts_.scheduler,
         verdict,
         question,
         done,
         touch = std::move(touch)] {
          if (verdict.fate == StoreFate::kUnavailable) {
            return come_back(scheduler, verdict.back, answers, question, [done] {
              done(fail(Code::kUnavailable, "cluster store sim refuses; ask again"));
            });
          }
          auto result = touch();
          if (verdict.fate == StoreFate::kAnswer) {
            come_back(scheduler, verdict.back, answers, question, [done, result] { done(result); });
          }
        });
  }

  static void come_back(const Scheduler& scheduler,
                        Nanos delay,
                        std::weak_ptr<Answers> answers,
                        std::uint64_t question,
                        std::function<void()> answer) {
    scheduler.defer(delay, [answers = std::move(answers), question, answer = std::move(answer)] {
      if (const auto waiting = answers.lock()) {
        waiting->settle(question, answer);
      }
    });
  }

  const SimStoreParts parts_;
  const std::shared_ptr<Answers> answers_;
};

}  // namespace

ClusterRecord SimRecord::read() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

std::optional<std::uint64_t> SimRecord::compare_and_swap(std::uint64_t expected,
                                                         std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (record_.version != expected) {
    return std::nullopt;
  }
  record_ = {expected + 1, std::move(bytes)};
  return record_.version;
}

std::unique_ptr<ClusterStore> make_sim_store(SimStoreParts parts) {
  CHECK(parts.record != nullptr);
  return std::make_unique<SimStore>(std::move(parts));
}

}  // namespace shoal::transport
