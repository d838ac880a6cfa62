// The side of a connection that answers: serves a peer's fetches and hands its messages to
// channels.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "transport/tcp/assembly.h"
#include "transport/tcp/session.h"

namespace shoal::transport {

// What this node shows a peer.
class Host {
 public:
  virtual ~Host() = default;
  // Nothing: welcome, as the one connection of that peer.
  virtual std::optional<Refusal> admit(const Hello& hello, std::uint64_t session) = 0;
  // Null: not on offer.
  virtual Buffer offered(BufferKey key) const = 0;
  // False: the channel has no handler.
  virtual bool hand_over(NodeId from, std::uint8_t channel, Buffer message) = 0;
};

class Accepted final : public Session {
 public:
  Accepted(FileDescriptor socket, const TransportLimits& limits, Host& host)
      : Session(std::move(socket), NodeId{}),
        limits_(limits),
        host_(host) {}

  bool is_established() const override { return is_admitted_; }

  bool has_work() const override;

  Result<Landing> frame_begins(const FrameHeader& header) override;
  Result<void> frame_ended(const FrameHeader& header) override;

 private:
  Result<void> greet();
  Result<void> serve(const FrameHeader& header);
  Result<Landing> message_piece(const FrameHeader& header);
  Result<void> message_piece_ended(const FrameHeader& header);

  const TransportLimits& limits_;
  Host& host_;
  bool is_admitted_ = false;
  std::shared_ptr<std::vector<std::byte>> hello_ = std::make_shared<std::vector<std::byte>>();
  std::map<std::uint8_t, Assembly> messages_;  // by channel: a channel's pieces come in order
  Bytes announced_{0};                         // of messages_
};

}  // namespace shoal::transport
