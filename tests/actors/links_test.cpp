// What every row of LinkPort promises, over real connections in this process.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "actors/caf_links.h"
#include "actors/link.h"

using namespace shoal;
using namespace std::chrono_literals;

namespace {

constexpr Nanos kLimit = 20s;  // far beyond what a slow machine with sanitizers needs

Instant now() {
  return std::chrono::time_point_cast<Nanos>(std::chrono::steady_clock::now());
}

// A port on loopback; listens and never accepts, so that a dialer sees a mute server.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(socket_, 16) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }

  ~Listener() { ::close(socket_); }

  std::uint16_t port() const { return port_; }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

// What arrives on other threads, to be waited for.
class Inbox {
 public:
  void put(std::string item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ++ends_;
    }
    changed_.notify_all();
  }

  bool wait_for_items(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return items_.size() >= count; });
  }

  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return ends_ > 0; });
  }

  std::vector<std::string> items() {
    const std::lock_guard lock(mutex_);
    return items_;
  }

  int ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

  LinkEvents events() {
    return {[this](std::string bytes) { put(std::move(bytes)); }, [this](const Error&) { end(); }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> items_;
  int ends_ = 0;
};

// One thing from another thread.
template <class T>
class Slot {
 public:
  void put(T value) {
    {
      const std::lock_guard lock(mutex_);
      ++times_;
      value_.emplace(std::move(value));
    }
    changed_.notify_all();
  }

  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLimit, [&] { return value_.has_value(); });
    return std::exchange(value_, std::nullopt);
  }

  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> value_;
  int times_ = 0;
};

struct Accepted {
  NodeId from;
  LinkPtr link;
};

// A row under test: what opens its ports.
struct CafRow {
  static std::unique_ptr<LinkPort> open(NodeId self, const Topology& topology) {
    static std::atomic<std::uint32_t> processes{static_cast<std::uint32_t>(::getpid()) * 1000};
    auto port = open_caf_links({self, topology, ++processes, now});
    REQUIRE_MESSAGE(port.has_value(), (port ? "" : port.error().message));
    return *std::move(port);
  }
};

template <class Row>
struct TwoNodes {
  Topology topology;
  Slot<Accepted> accepted;
  std::unique_ptr<LinkPort> a, b;

  TwoNodes() {
    const Listener one, two;  // both at once, so that they differ
    topology.nodes = {{"a", kAllRoles, "127.0.0.1", one.port(), 0},
                      {"b", kAllRoles, "127.0.0.1", two.port(), 0}};
  }

  void open() {
    a = Row::open(NodeId{0}, topology);
    open_b();
  }

  void open_b() {
    b = Row::open(NodeId{1}, topology);
    b->listen([this](NodeId from, LinkPtr link) { accepted.put({from, std::move(link)}); });
  }

  // A row may lose a dial for reasons of its own; whoever dials tries again.
  LinkPtr dial() {
    const Instant end = now() + kLimit;
    while (now() < end) {
      Slot<Result<LinkPtr>> dialed;
      a->dial(NodeId{1}, now() + 2s, [&](Result<LinkPtr> link) { dialed.put(std::move(link)); });
      const auto link = dialed.take();
      REQUIRE(link.has_value());
      if (*link) {
        return **link;
      }
      MESSAGE(link->error().message);
    }
    FAIL("no link came about");
    return nullptr;
  }
};

std::string numbered(std::uint32_t i, std::size_t size) {
  std::string bytes = std::to_string(i) + ":";
  bytes.resize(std::max(bytes.size(), size), static_cast<char>('a' + i % 26));
  return bytes;
}

}  // namespace

TEST_CASE_TEMPLATE("a dial is accepted with the node that dialed, and bytes pass both ways",
                   Row,
                   CafRow) {
  TwoNodes<Row> nodes;
  nodes.open();
  Inbox at_a, at_b;
  const LinkPtr dialed = nodes.dial();
  const auto accepted = nodes.accepted.take();
  REQUIRE(accepted.has_value());
  CHECK(accepted->from == NodeId{0});
  dialed->start(at_a.events());
  accepted->link->start(at_b.events());
  dialed->send("ping");
  REQUIRE(at_b.wait_for_items(1));
  accepted->link->send(std::string("po\0ng", 5));
  REQUIRE(at_a.wait_for_items(1));
  CHECK(at_b.items() == std::vector<std::string>{"ping"});
  CHECK(at_a.items() == std::vector<std::string>{std::string("po\0ng", 5)});
}

TEST_CASE_TEMPLATE("a thousand messages of all sizes arrive whole and in order, both ways",
                   Row,
                   CafRow) {
  constexpr std::uint32_t kMessages = 1000;
  TwoNodes<Row> nodes;
  nodes.open();
  Inbox at_a, at_b;
  const LinkPtr dialed = nodes.dial();
  const auto accepted = nodes.accepted.take();
  REQUIRE(accepted.has_value());
  dialed->start(at_a.events());
  accepted->link->start(at_b.events());
  // Every 50th is 1 MiB, the others up to 16 KiB.
  const auto message = [](std::uint32_t i) {
    return numbered(i, i % 50 == 49 ? 1 << 20 : (i * 7919) % (16 << 10));
  };
  const auto send_all = [&message](Link& link) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      link.send(message(i));
    }
  };
  std::thread other([&] { send_all(*accepted->link); });
  send_all(*dialed);
  other.join();
  for (Inbox* inbox : {&at_a, &at_b}) {
    REQUIRE(inbox->wait_for_items(kMessages));
    const auto items = inbox->items();
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      REQUIRE(items[i] == message(i));
    }
  }
}

TEST_CASE_TEMPLATE("what comes before start() waits for it", Row, CafRow) {
  TwoNodes<Row> nodes;
  nodes.open();
  const LinkPtr dialed = nodes.dial();
  const auto accepted = nodes.accepted.take();
  REQUIRE(accepted.has_value());
  dialed->send("first");
  dialed->send("second");
  dialed->close();
  Inbox at_b;
  accepted->link->start(at_b.events());
  REQUIRE(at_b.wait_for_end());
  CHECK(at_b.items() == std::vector<std::string>{"first", "second"});
}

TEST_CASE_TEMPLATE("the other side sees a close after all that was sent before it", Row, CafRow) {
  TwoNodes<Row> nodes;
  nodes.open();
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    Inbox at_a, at_b;
    const LinkPtr dialed = nodes.dial();
    const auto accepted = nodes.accepted.take();
    REQUIRE(accepted.has_value());
    dialed->start(at_a.events());
    accepted->link->start(at_b.events());
    const bool by_dialer = round % 2 == 0;
    Link& closing = by_dialer ? *dialed : *accepted->link;
    Inbox& closer = by_dialer ? at_a : at_b;
    Inbox& other = by_dialer ? at_b : at_a;
    for (std::uint32_t i = 0; i < 20; ++i) {
      closing.send(numbered(i, 1000));
    }
    closing.close();
    REQUIRE(other.wait_for_end());
    CHECK(other.items().size() == 20);
    CHECK(closer.ends() == 0);
    (by_dialer ? *accepted->link : *dialed).send("nobody hears it");
    CHECK(other.ends() == 1);
  }
}

TEST_CASE_TEMPLATE("a link that is dropped is closed", Row, CafRow) {
  TwoNodes<Row> nodes;
  nodes.open();
  Inbox at_b;
  LinkPtr dialed = nodes.dial();
  const auto accepted = nodes.accepted.take();
  REQUIRE(accepted.has_value());
  accepted->link->start(at_b.events());
  dialed.reset();
  CHECK(at_b.wait_for_end());
}

TEST_CASE_TEMPLATE("when a port stops its links are lost, and its successor can be dialed",
                   Row,
                   CafRow) {
  TwoNodes<Row> nodes;
  nodes.open();
  Inbox at_a;
  {
    const LinkPtr dialed = nodes.dial();
    dialed->start(at_a.events());
    nodes.accepted.take();
    nodes.b->stop();
    REQUIRE(at_a.wait_for_end());
    nodes.b.reset();
  }
  nodes.open_b();
  Inbox again;
  const LinkPtr dialed = nodes.dial();
  const auto accepted = nodes.accepted.take();
  REQUIRE(accepted.has_value());
  dialed->start(again.events());
  accepted->link->start(at_a.events());
  accepted->link->send("here again");
  REQUIRE(again.wait_for_items(1));
  CHECK(at_a.ends() == 1);
}

TEST_CASE_TEMPLATE("a dial fails soon where nobody listens", Row, CafRow) {
  TwoNodes<Row> nodes;
  nodes.a = Row::open(NodeId{0}, nodes.topology);
  Slot<Result<LinkPtr>> dialed;
  const Instant began = now();
  nodes.a->dial(NodeId{1}, began + 10s, [&](Result<LinkPtr> link) { dialed.put(std::move(link)); });
  const auto link = dialed.take();
  REQUIRE(link.has_value());
  CHECK_FALSE(link->has_value());
  CHECK(now() - began < 5s);
}

TEST_CASE_TEMPLATE("a dial of a mute server fails by its deadline, exactly once", Row, CafRow) {
  const Listener mute;
  TwoNodes<Row> nodes;
  nodes.topology.nodes[1].control_port = mute.port();
  nodes.a = Row::open(NodeId{0}, nodes.topology);
  Slot<Result<LinkPtr>> dialed;
  const Instant due = now() + 300ms;
  nodes.a->dial(NodeId{1}, due, [&](Result<LinkPtr> link) { dialed.put(std::move(link)); });
  CHECK(now() < due);  // the caller was not held
  const auto link = dialed.take();
  REQUIRE(link.has_value());
  CHECK_FALSE(link->has_value());
  CHECK(now() < due + 5s);
  nodes.a->stop();
  CHECK(dialed.times() == 1);
}

TEST_CASE_TEMPLATE("a port stops at once with a dial on the way, which is not called back",
                   Row,
                   CafRow) {
  const Listener mute;
  TwoNodes<Row> nodes;
  nodes.topology.nodes[1].control_port = mute.port();
  nodes.a = Row::open(NodeId{0}, nodes.topology);
  auto called = std::make_shared<std::atomic<int>>(0);
  nodes.a->dial(NodeId{1}, now() + 60s, [called](const Result<LinkPtr>&) { ++*called; });
  const Instant began = now();
  nodes.a->stop();
  nodes.a->stop();
  const int at_stop = *called;
  nodes.a.reset();
  CHECK(now() - began < 5s);
  CHECK(*called == at_stop);
}

TEST_CASE("a port that cannot listen names its node and field") {
  const Listener taken;
  Topology topology;
  topology.nodes = {{"a", kAllRoles, "127.0.0.1", taken.port(), 0}};
  const auto port = open_caf_links({NodeId{0}, topology, 1, now});
  REQUIRE_FALSE(port.has_value());
  CHECK(port.error().code == Code::kMisconfigured);
  CHECK_MESSAGE(port.error().message.find("node a: control_port") != std::string::npos,
                port.error().message);
}
