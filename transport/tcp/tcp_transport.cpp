// Every call becomes work for the loop's thread; offers are shared.
#include "transport/tcp/tcp_transport.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "schemas/check.h"
#include "transport/tcp/loop.h"
#include "transport/tcp/socket.h"

namespace shoal::transport {
namespace {

class TcpTransport final : public Transport {
 public:
  TcpTransport(TransportParams params, FileDescriptor listener)
      : params_(std::move(params)),
        port_(port_of(listener)),
        offers_(params_.limits),
        loop_(params_, std::move(listener), mailbox_, offers_, counts_),
        thread_([this] { loop_.run(stopping_); }) {}

  ~TcpTransport() override { stop(); }

  std::uint16_t port() const override { return port_; }

  void set_peer(const PeerAddress& peer) override {
    post([this, peer] { loop_.set_peer(peer); });
  }

  void forget_peer(NodeId node) override {
    post([this, node] { loop_.forget_peer(node); });
  }

  Result<void> offer(BufferKey key, Buffer bytes) override {
    return offers_.offer(key, std::move(bytes));
  }

  void withdraw(BufferKey key) override { offers_.withdraw(key); }

  Buffer offered(BufferKey key) const override { return offers_.find(key); }

  void fetch(NodeId from, BufferKey key, Instant deadline, Fetched done) override {
    begin({from, deadline, std::move(done)},
          [this, key](const Operations::Operation& asked) { loop_.fetch(key, asked); });
  }

  void on_message(std::uint8_t channel, OnMessage handler) override {
    post([this, channel, handler = std::move(handler)] { loop_.on_message(channel, handler); });
  }

  void send(NodeId to, std::uint8_t channel, Buffer message, Instant deadline, Sent done) override {
    CHECK(message != nullptr);
    begin({to, deadline, as_fetched(std::move(done))},
          [this, channel, message = std::move(message)](const Operations::Operation& asked) {
            loop_.send(channel, message, asked);
          });
  }

  void stop() override {
    CHECK(std::this_thread::get_id() != thread_.get_id());
    const std::lock_guard lock(stop_mutex_);
    stopping_ = true;
    post([] {});  // wakes the thread
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Use use() const override {
    Use use;
    offers_.count(use);
    use.operations = counts_.operations;
    use.queued = Bytes{counts_.queued};
    return use;
  }

 private:
  bool post(Mailbox::Work work) { return mailbox_.post(work); }

  template <class Start>
  void begin(Operations::Operation asked, Start start) {
    ++counts_.operations;
    if (!post([asked, start = std::move(start)] { start(asked); })) {
      --counts_.operations;
      asked.done(fail(Code::kUnavailable, "the transport has stopped"));
    }
  }

  const TransportParams params_;
  const std::uint16_t port_;
  Offers offers_;
  Mailbox mailbox_;
  LoopCounts counts_;
  Loop loop_;
  std::atomic<bool> stopping_ = false;
  std::mutex stop_mutex_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Transport>> open_tcp_transport(TransportParams params) {
  CHECK(params.now != nullptr);
  TRY(FileDescriptor listener, listen_at(params.host, params.port));
  return std::make_unique<TcpTransport>(std::move(params), std::move(listener));
}

}  // namespace shoal::transport
