// A turn: wait, read what is ready, do the work posted, end what is due, write what that left.
#include "transport/tcp/loop.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sys/socket.h>
#include <utility>

#include "schemas/check.h"
#include "schemas/checksum.h"

namespace shoal::transport {
namespace {

// Numbers that the poller gives back; sessions count on from here.
constexpr std::uint64_t kMailbox = 0;
constexpr std::uint64_t kListener = 1;
constexpr std::uint64_t kLastFixed = kListener;

// Accepted connections without a hello: whoever can reach the port can make them.
constexpr std::size_t kStrangersMax = 64;
constexpr int kAcceptsPerTurn = 64;
// A connection is found idle at most this part of the limit late.
constexpr int kSweepsPerIdle = 8;

std::string name_of(const PeerAddress& peer) {
  return "node " + std::to_string(peer.node.value) + " at " + peer.host + ":" +
         std::to_string(peer.port);
}

}  // namespace

Loop::Loop(const TransportParams& params,
           FileDescriptor listener,
           Mailbox& mailbox,
           const Offers& offers,
           LoopCounts& counts)
    : params_(params),
      cluster_(crc32c(std::as_bytes(std::span(params.cluster)))),
      listener_(std::move(listener)),
      mailbox_(mailbox),
      offers_(offers),
      counts_(counts),
      now_(params.now()),
      next_sweep_(now_),
      is_listening_(true),
      last_session_(kLastFixed) {
  poller_.add(mailbox_.wake_up(), kMailbox);
  poller_.add(listener_.get(), kListener);
}

// Turns.

void Loop::run(const std::atomic<bool>& stopping) {
  while (!stopping) {
    turn();
  }
  stop();
}

// What is asked of a loop that is stopping begins, so that it ends like the rest.
void Loop::stop() {
  do {
    for (const std::uint64_t id : operations_.all()) {
      complete(id, fail(Code::kUnavailable, "the transport stopped"));
    }
  } while (take_last_work());
  sessions_.clear();
  listener_ = FileDescriptor();
}

void Loop::turn() {
  const auto events = poller_.wait(timeout());
  now_ = params_.now();
  for (const epoll_event& event : events) {
    if (event.data.u64 == kMailbox) {
      continue;  // looked at below in any case
    }
    if (event.data.u64 == kListener) {
      accept_some();
    } else if (const auto found = sessions_.find(event.data.u64); found != sessions_.end()) {
      service(*found->second);
    }
  }
  take_work();
  expire();
  sweep();
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    if (const auto found = sessions_.find(touched_[i]); found != sessions_.end()) {
      flush(*found->second);
    }
  }
  touched_.clear();
  count_queued();
}

int Loop::timeout() const {
  std::optional<Instant> next = operations_.next_deadline();
  if (!sessions_.empty() || !is_listening_) {
    next = next ? std::min(*next, next_sweep_) : next_sweep_;
  }
  if (!next) {
    return -1;
  }
  const Nanos left = std::max(Nanos(0), *next - params_.now());
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(whole, std::numeric_limits<int>::max()));
}

void Loop::take_work() {
  for (const Mailbox::Work& work : mailbox_.take()) {
    work();
  }
}

// False: there was none, and the mailbox is closed.
bool Loop::take_last_work() {
  const std::vector<Mailbox::Work> last = mailbox_.take_or_close();
  for (const Mailbox::Work& work : last) {
    work();
  }
  return !last.empty();
}

void Loop::expire() {
  while (const auto id = operations_.first_due(now_)) {
    const auto peer = peers_.find(operations_.peer_of(*id));
    if (peer != peers_.end() && peer->second.dialed != nullptr) {
      peer->second.dialed->abandon(*id);
      touch(*peer->second.dialed);
    }
    complete(*id, fail(Code::kDeadline, "the peer did not answer by the deadline"));
  }
}

void Loop::sweep() {
  if (now_ < next_sweep_) {
    return;
  }
  next_sweep_ =
      now_ + std::max<Nanos>(params_.limits.idle / kSweepsPerIdle, std::chrono::milliseconds(1));
  if (!is_listening_) {
    poller_.add(listener_.get(), kListener);
    is_listening_ = true;
  }
  std::vector<Session*> idle;
  for (const auto& [id, session] : sessions_) {
    if (session->has_work() && now_ - session->moved_at >= params_.limits.idle) {
      idle.push_back(session.get());
    }
  }
  for (Session* session : idle) {
    lose(*session, {Code::kPeerLost, "no byte moved for the idle limit"});
  }
}

void Loop::count_queued() {
  std::int64_t queued = 0;
  for (const auto& [node, peer] : peers_) {
    queued += peer.dialed == nullptr ? 0 : peer.dialed->queued().value;
  }
  counts_.queued = queued;
}

// Connections.

void Loop::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    FileDescriptor socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      // Out of descriptors: the listener stays ready, so look away until the next sweep.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        poller_.remove(listener_.get());
        is_listening_ = false;
      }
      return;
    }
    tune(socket);
    const Session& session = adopt(
        std::make_unique<Accepted>(std::move(socket), params_.limits, static_cast<Host&>(*this)));
    strangers_.push_back(session.id);
    if (strangers_.size() > kStrangersMax) {
      lose(*sessions_.at(strangers_.front()), {Code::kNoCapacity, "too many without a hello"});
    }
  }
}

Session& Loop::adopt(std::unique_ptr<Session> session) {
  Session& adopted = *session;
  adopted.id = ++last_session_;
  adopted.moved_at = now_;
  poller_.add(adopted.connection.socket(), adopted.id);
  sessions_.emplace(adopted.id, std::move(session));
  return adopted;
}

void Loop::touch(Session& session) {
  if (!std::exchange(session.is_touched, true)) {
    touched_.push_back(session.id);
  }
}

void Loop::service(Session& session) {
  const Result<bool> moved = session.connection.read(session);
  if (!moved) {
    return lose(session, moved.error());
  }
  if (*moved && session.is_established()) {
    session.moved_at = now_;
  }
  touch(session);
}

void Loop::flush(Session& session) {
  session.is_touched = false;
  const Result<bool> moved = session.connection.write();
  if (!moved) {
    return lose(session, moved.error());
  }
  if (*moved && session.is_established()) {
    session.moved_at = now_;
  }
  const bool waits = session.connection.has_output();
  if (waits != session.waits_to_write) {
    poller_.set_writes(session.connection.socket(), session.id, waits);
    session.waits_to_write = waits;
  }
}

// Everything that waits for a peer waits for its one dialed connection.
void Loop::lose(Session& session, const Error& why) {
  const auto ended = sessions_.extract(session.id);
  std::erase(strangers_, session.id);
  const auto found = peers_.find(session.peer());
  if (found == peers_.end()) {
    return;
  }
  Peer& peer = found->second;
  if (peer.accepted == &session) {
    peer.accepted = nullptr;
  }
  if (peer.dialed != &session) {
    return;
  }
  peer.dialed = nullptr;
  const Error error{why.code, name_of(peer.address) + ": " + why.message};
  for (const std::uint64_t id : operations_.all_with_peer(peer.address.node)) {
    complete(id, tl::unexpected(error));
  }
}

void Loop::lose_peer(Peer& peer, const char* why) {
  const Error error{Code::kPeerLost, why};
  if (peer.accepted != nullptr) {
    lose(*peer.accepted, error);
  }
  if (peer.dialed != nullptr) {
    lose(*peer.dialed, error);
  }
}

// Peers and operations.

void Loop::set_peer(const PeerAddress& address) {
  Peer& peer = peers_[address.node];
  if (peer.address.incarnation != address.incarnation) {
    lose_peer(peer, "another incarnation took its place");
  }
  peer.address = address;
}

void Loop::forget_peer(NodeId node) {
  if (const auto found = peers_.find(node); found != peers_.end()) {
    lose_peer(found->second, "it was forgotten");
    peers_.erase(node);
  }
}

void Loop::on_message(std::uint8_t channel, Transport::OnMessage handler) {
  handlers_[channel] = std::move(handler);
}

void Loop::fetch(BufferKey key, Operations::Operation operation) {
  const NodeId peer = operation.peer;
  const std::uint64_t id = operations_.add(std::move(operation));
  if (Dialed* connection = begin(id, peer)) {
    connection->fetch(id, key);
  }
}

void Loop::send(std::uint8_t channel, Buffer message, Operations::Operation operation) {
  const NodeId peer = operation.peer;
  const std::uint64_t id = operations_.add(std::move(operation));
  if (size_of(message) > params_.limits.message) {
    return complete(id, fail(Code::kNoCapacity, "the message is larger than one may be"));
  }
  Dialed* connection = begin(id, peer);
  if (connection != nullptr && !connection->send(id, channel, std::move(message))) {
    complete(id, fail(Code::kNoCapacity, "the bytes that wait for credit are at their ceiling"));
  }
}

Dialed* Loop::begin(std::uint64_t id, NodeId node) {
  const auto found = peers_.find(node);
  if (found == peers_.end()) {
    complete(id,
             fail(Code::kPeerLost,
                  "node " + std::to_string(node.value) + " is not known; set_peer comes first"));
    return nullptr;
  }
  if (operations_.with_peer(node) > params_.limits.operations_per_peer) {
    complete(id, fail(Code::kNoCapacity, "the peer has operations_per_peer pending"));
    return nullptr;
  }
  const Result<Dialed*> connection = connection_to(found->second);
  if (!connection) {
    complete(id, tl::unexpected(connection.error()));
    return nullptr;
  }
  if (!(*connection)->has_work()) {
    (*connection)->moved_at = now_;
  }
  touch(**connection);
  return *connection;
}

Result<Dialed*> Loop::connection_to(Peer& peer) {
  if (peer.dialed != nullptr) {
    return peer.dialed;
  }
  auto socket = dial(peer.address.host, peer.address.port);
  if (!socket) {
    return fail(Code::kPeerLost, name_of(peer.address) + ": " + socket.error().message);
  }
  Hello hello;
  hello.cluster = cluster_;
  hello.from = params_.self;
  hello.from_incarnation = params_.incarnation;
  hello.to = peer.address.node;
  hello.to_incarnation = peer.address.incarnation;
  auto dialed = std::make_unique<Dialed>(
      *std::move(socket), hello, params_.limits, static_cast<Completions&>(*this));
  peer.dialed = dialed.get();
  adopt(std::move(dialed));
  return peer.dialed;
}

void Loop::complete(std::uint64_t operation, Result<Buffer> result) {
  if (auto taken = operations_.take(operation)) {
    --counts_.operations;
    taken->done(std::move(result));
  }
}

std::optional<Refusal> Loop::admit(const Hello& hello, std::uint64_t session) {
  if (hello.version != kWireVersion) {
    return Refusal::kVersion;
  }
  if (hello.cluster != cluster_) {
    return Refusal::kCluster;
  }
  if (hello.to != params_.self || hello.to_incarnation != params_.incarnation) {
    return Refusal::kTarget;
  }
  const auto known = peers_.find(hello.from);
  if (known == peers_.end() || known->second.address.incarnation != hello.from_incarnation) {
    return Refusal::kStranger;
  }
  if (known->second.accepted != nullptr) {
    lose(*known->second.accepted, {Code::kPeerLost, "the peer connected anew"});
  }
  known->second.accepted = static_cast<Accepted*>(sessions_.at(session).get());
  std::erase(strangers_, session);
  return std::nullopt;
}

Buffer Loop::offered(BufferKey key) const {
  return offers_.find(key);
}

bool Loop::hand_over(NodeId from, std::uint8_t channel, Buffer message) {
  const auto handler = handlers_.find(channel);
  if (handler == handlers_.end()) {
    return false;
  }
  handler->second(from, std::move(message));
  return true;
}

}  // namespace shoal::transport
