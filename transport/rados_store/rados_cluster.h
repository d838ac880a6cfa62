// A connection to a Ceph pool, and operations on its objects that end in time.
//
// Every operation ends within kRadosPatience, also when Ceph is gone: librados would wait for ever.
// After one that was not answered the cluster is away: operations fail at once, until a probe is
// answered. Threads: every call from any thread; wait() blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <rados/librados.h>
#include <string>

#include "schemas/result.h"
#include "transport/block_store_params.h"

namespace shoal::transport {

// Longer than an OSD takes to be replaced by another (a second), shorter than a put may last.
inline constexpr std::chrono::seconds kRadosPatience(5);

struct RadosRelease {
  struct Write {
    void operator()(void* op) const { rados_release_write_op(op); }
  };

  struct Read {
    void operator()(void* op) const { rados_release_read_op(op); }
  };
};

using RadosWriteOp = std::unique_ptr<void, RadosRelease::Write>;
using RadosReadOp = std::unique_ptr<void, RadosRelease::Read>;

RadosWriteOp make_write_op();
RadosReadOp make_read_op();

class RadosCluster {
 public:
  // kMisconfigured: no such configuration, user or pool; kUnavailable: no monitor answers.
  static Result<std::shared_ptr<RadosCluster>> connect(RadosPlace place);

  ~RadosCluster();
  RadosCluster(const RadosCluster&) = delete;
  RadosCluster& operator=(const RadosCluster&) = delete;

  // An operation that was begun; memory it reads or fills must stay until it ends. The destructor
  // waits.
  class Call {
   public:
    Call(RadosCluster& cluster, const std::string& object, RadosWriteOp op);
    // A probe is asked also of a cluster that is away.
    Call(RadosCluster& cluster, const std::string& object, RadosReadOp op, bool is_probe = false);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // 0, or an errno.
    int wait();

   private:
    RadosCluster& cluster_;
    RadosWriteOp write_;
    RadosReadOp read_;
    rados_completion_t completion_ = nullptr;
    int error_ = 0;
  };

  // What an errno means, and who must act.
  tl::unexpected<Error> refused(const char* what, const std::string& name, int error) const;

  // "Ceph pool 'kv', store 'chat'".
  const std::string& name() const { return name_; }

 private:
  explicit RadosCluster(RadosPlace place);

  Result<void> open();

  const RadosPlace place_;
  const std::string name_;
  rados_t cluster_ = nullptr;
  rados_ioctx_t pool_ = nullptr;
  std::atomic<bool> is_away_ = false;
};

}  // namespace shoal::transport
