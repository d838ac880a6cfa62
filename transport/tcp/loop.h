// All that one endpoint does on its thread: which connections there are, which operations wait, and
// what is due. Every turn gives every connection a bounded share.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/offers.h"
#include "transport/operations.h"
#include "transport/tcp/accepted.h"
#include "transport/tcp/dialed.h"
#include "transport/tcp/mailbox.h"
#include "transport/tcp/poller.h"
#include "transport/tcp/tcp_transport.h"

namespace shoal::transport {

// Read from other threads.
struct LoopCounts {
  std::atomic<std::int64_t> operations{0};  // raised by whoever asks
  std::atomic<std::int64_t> queued{0};
};

class Loop final : private Completions, private Host {
 public:
  Loop(const TransportParams& params,
       FileDescriptor listener,
       Mailbox& mailbox,
       const Offers& offers,
       LoopCounts& counts);
  ~Loop() override = default;

  // Until the flag is set. Then the mailbox and the sockets are closed and all was called back.
  void run(const std::atomic<bool>& stopping);

  // By work from the mailbox.
  void set_peer(const PeerAddress& address);
  void forget_peer(NodeId node);
  void fetch(BufferKey key, Operations::Operation operation);
  void send(std::uint8_t channel, Buffer message, Operations::Operation operation);
  void on_message(std::uint8_t channel, Transport::OnMessage handler);

 private:
  struct Peer {
    PeerAddress address;
    Dialed* dialed = nullptr;
    Accepted* accepted = nullptr;
  };

  void complete(std::uint64_t operation, Result<Buffer> result) override;
  std::optional<Refusal> admit(const Hello& hello, std::uint64_t session) override;
  Buffer offered(BufferKey key) const override;
  bool hand_over(NodeId from, std::uint8_t channel, Buffer message) override;

  void turn();
  void stop();
  int timeout() const;
  void take_work();
  bool take_last_work();
  void accept_some();
  void service(Session& session);
  void flush(Session& session);
  void expire();
  void sweep();
  void count_queued();

  // The connection for a new operation, which is in the table; null: it was refused.
  Dialed* begin(std::uint64_t id, NodeId peer);
  Result<Dialed*> connection_to(Peer& peer);
  Session& adopt(std::unique_ptr<Session> session);
  void touch(Session& session);
  void lose(Session& session, const Error& why);
  void lose_peer(Peer& peer, const char* why);

  const TransportParams& params_;
  const std::uint32_t cluster_;
  FileDescriptor listener_;
  Mailbox& mailbox_;
  const Offers& offers_;
  LoopCounts& counts_;

  Poller poller_;
  Instant now_;
  Instant next_sweep_;
  bool is_listening_ = false;
  std::map<std::uint8_t, Transport::OnMessage> handlers_;
  std::map<NodeId, Peer> peers_;
  Operations operations_;
  std::uint64_t last_session_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  std::deque<std::uint64_t> strangers_;  // accepted, no hello yet; oldest first
  std::vector<std::uint64_t> touched_;
};

}  // namespace shoal::transport
