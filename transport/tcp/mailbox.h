// Work for the loop's thread from any other, with a wake-up that a poller can wait for.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "transport/file_descriptor.h"

namespace shoal::transport {

class Mailbox {
 public:
  using Work = std::function<void()>;

  Mailbox();

  // Readable while work waits.
  int wake_up() const { return wake_up_.get(); }

  // False: closed, and `work` is as it was.
  bool post(Work& work);
  std::vector<Work> take();
  // What was posted before the mailbox closed; empty: it is closed now.
  std::vector<Work> take_or_close();

 private:
  FileDescriptor wake_up_;
  std::mutex mutex_;
  bool is_closed_ = false;
  std::vector<Work> work_;
};

}  // namespace shoal::transport
