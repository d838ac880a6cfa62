// A thread that reads and writes the record's file, and one that answers by the deadline even if
// the disk hangs.
#include "transport/embedded/embedded_store.h"

#include <utility>

#include "transport/answers.h"
#include "transport/embedded/directory_lock.h"
#include "transport/embedded/record_file.h"
#include "transport/thread_scheduler.h"

namespace shoal::transport {
namespace {

class EmbeddedStore final : public ClusterStore {
 public:
  EmbeddedStore(DirectoryLock lock, RecordFile file, const Clock& now)
      : lock_(std::move(lock)),
        file_(std::move(file)),
        disk_(now),
        callbacks_(now),
        answers_(callbacks_.port(), "cluster store " + lock_.directory().string()) {}

  ~EmbeddedStore() override {
    disk_.stop();
    callbacks_.stop();
  }

  void read(Instant deadline, Read done) override {
    const std::uint64_t question = ask(deadline, done);
    disk_.defer(Nanos(0), [this, question, done = std::move(done)] {
      answers_.settle(question, [done, found = file_.read()] { done(found); });
    });
  }

  void compare_and_swap(std::uint64_t expected,
                        std::string bytes,
                        Instant deadline,
                        Written done) override {
    const std::uint64_t question = ask(deadline, done);
    disk_.defer(Nanos(0), [this, question, expected, bytes = std::move(bytes), done] {
      answers_.settle(question, [done, result = swap(expected, bytes)] { done(result); });
    });
  }

 private:
  template <class Done>
  std::uint64_t ask(Instant deadline, Done done) {
    return answers_.ask(deadline, [done = std::move(done)](Error error) {
      done(tl::unexpected(std::move(error)));
    });
  }

  // On the disk's thread.
  Result<std::optional<std::uint64_t>> swap(std::uint64_t expected, const std::string& bytes) {
    TRY(const ClusterRecord stored, file_.read());
    if (stored.version != expected) {
      return std::nullopt;
    }
    TRY_VOID(file_.write({expected + 1, bytes}));
    return expected + 1;
  }

  const DirectoryLock lock_;
  const RecordFile file_;
  ThreadScheduler disk_;
  ThreadScheduler callbacks_;
  Answers answers_;
};

}  // namespace

Result<std::unique_ptr<ClusterStore>> open_embedded_store(const std::filesystem::path& directory,
                                                          Clock now) {
  TRY(DirectoryLock lock, DirectoryLock::take(directory));
  RecordFile file(directory);
  TRY_VOID(file.check_writable());
  return std::make_unique<EmbeddedStore>(std::move(lock), std::move(file), now);
}

}  // namespace shoal::transport
