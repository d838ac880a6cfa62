// librados by its asynchronous calls.
#include "transport/rados_store/rados_cluster.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace shoal::transport {
namespace {

static_assert(kRadosPatience == std::chrono::seconds(5));

// Of objecter: a map of the cluster is asked for while an operation waits. By default only after
// ten seconds, and operations that end before never learn that an OSD is back.
constexpr std::pair<const char*, const char*> kOptions[] = {{"rados_osd_op_timeout", "5"},
                                                            {"rados_mon_op_timeout", "5"},
                                                            {"client_mount_timeout", "5"},
                                                            {"objecter_timeout", "1"},
                                                            {"objecter_tick_interval", "1"},
                                                            {"log_to_stderr", "false"}};

Code code_of(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoCapacity;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

RadosWriteOp make_write_op() {
  return RadosWriteOp(rados_create_write_op());
}

RadosReadOp make_read_op() {
  return RadosReadOp(rados_create_read_op());
}

Result<std::shared_ptr<RadosCluster>> RadosCluster::connect(RadosPlace place) {
  auto cluster = std::shared_ptr<RadosCluster>(new RadosCluster(std::move(place)));
  TRY_VOID(cluster->open());
  return cluster;
}

RadosCluster::RadosCluster(RadosPlace place)
    : place_(std::move(place)),
      name_("Ceph pool '" + place_.pool + "', store '" + place_.store + "'") {}

RadosCluster::~RadosCluster() {
  if (pool_ != nullptr) {
    rados_ioctx_destroy(pool_);
  }
  if (cluster_ != nullptr) {
    rados_shutdown(cluster_);
  }
}

Result<void> RadosCluster::open() {
  if (const int made = rados_create2(&cluster_, "ceph", place_.user.c_str(), 0); made < 0) {
    cluster_ = nullptr;
    return refused("begin a client of", place_.user, -made);
  }
  const char* conf = place_.conf.empty() ? nullptr : place_.conf.c_str();
  if (const int read = rados_conf_read_file(cluster_, conf); read < 0) {
    return fail(Code::kMisconfigured,
                "cannot read the Ceph configuration " +
                    (place_.conf.empty() ? "where Ceph looks for it" : place_.conf.string()) +
                    ": " + std::strerror(-read) + "; name the ceph.conf of the cluster");
  }
  for (const auto& [option, value] : kOptions) {
    rados_conf_set(cluster_, option, value);
  }
  if (const int connected = rados_connect(cluster_); connected < 0) {
    if (connected == -ETIMEDOUT) {
      return refused("reach", name_, ETIMEDOUT);
    }
    return fail(Code::kMisconfigured,
                "Ceph refuses " + place_.user + ": " + std::strerror(-connected) +
                    "; give a user whose keyring the configuration names");
  }
  if (const int opened = rados_ioctx_create(cluster_, place_.pool.c_str(), &pool_); opened < 0) {
    pool_ = nullptr;
    return fail(opened == -ENOENT ? Code::kMisconfigured : code_of(-opened),
                "Ceph has no pool '" + place_.pool + "' for " + place_.user + ": " +
                    std::strerror(-opened) + "; make it: ceph osd pool create " + place_.pool);
  }
  rados_ioctx_set_namespace(pool_, place_.store.c_str());
  return {};
}

tl::unexpected<Error> RadosCluster::refused(const char* what,
                                            const std::string& name,
                                            int error) const {
  const std::string begin = std::string("cannot ") + what + " " + name + ": ";
  switch (error) {
    case ETIMEDOUT:
      return fail(Code::kUnavailable,
                  begin + name_ +
                      " does not answer; whoever runs Ceph must bring its monitors or "
                      "OSDs back, `ceph -s` says which");
    case EOPNOTSUPP:
      return fail(Code::kMisconfigured,
                  begin + name_ + " keeps no names, it is erasure-coded; give a replicated pool");
    case EPERM:
    case EACCES:
      return fail(Code::kUnavailable,
                  begin + place_.user + " may not; allow it rwx on the pool: ceph auth caps");
    case ENOSPC:
    case EDQUOT:
      return fail(Code::kNoCapacity,
                  begin + name_ +
                      " is full; add OSDs, raise the pool's quota or lower the store's "
                      "ceiling");
    default:
      return fail(code_of(error), begin + std::strerror(error));
  }
}

RadosCluster::Call::Call(RadosCluster& cluster, const std::string& object, RadosWriteOp op)
    : cluster_(cluster),
      write_(std::move(op)) {
  if (cluster_.is_away_) {
    error_ = ETIMEDOUT;
    return;
  }
  rados_aio_create_completion2(nullptr, nullptr, &completion_);
  // Without the flag a full pool does not refuse, it waits.
  error_ = -rados_aio_write_op_operate(write_.get(),
                                       cluster_.pool_,
                                       completion_,
                                       object.c_str(),
                                       nullptr,
                                       LIBRADOS_OPERATION_FULL_TRY);
}

RadosCluster::Call::Call(RadosCluster& cluster,
                         const std::string& object,
                         RadosReadOp op,
                         bool is_probe)
    : cluster_(cluster),
      read_(std::move(op)) {
  if (cluster_.is_away_ && !is_probe) {
    error_ = ETIMEDOUT;
    return;
  }
  rados_aio_create_completion2(nullptr, nullptr, &completion_);
  error_ = -rados_aio_read_op_operate(
      read_.get(), cluster_.pool_, completion_, object.c_str(), LIBRADOS_OPERATION_NOFLAG);
}

RadosCluster::Call::~Call() {
  wait();
}

int RadosCluster::Call::wait() {
  if (completion_ == nullptr) {
    return error_;
  }
  if (error_ == 0) {
    rados_aio_wait_for_complete(completion_);
    error_ = -std::min(rados_aio_get_return_value(completion_), 0);
    cluster_.is_away_ = error_ == ETIMEDOUT;
  }
  rados_aio_release(std::exchange(completion_, nullptr));
  return error_;
}

}  // namespace shoal::transport
