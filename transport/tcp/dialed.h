// The side of a connection that asks: the fetches and messages of this node to one peer.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "transport/tcp/assembly.h"
#include "transport/tcp/session.h"

namespace shoal::transport {

// Where the answers of operations go.
class Completions {
 public:
  virtual ~Completions() = default;
  virtual void complete(std::uint64_t operation, Result<Buffer> result) = 0;
};

class Dialed final : public Session {
 public:
  Dialed(FileDescriptor socket,
         const Hello& hello,
         const TransportLimits& limits,
         Completions& completions);

  bool is_established() const override { return is_welcome_; }

  bool has_work() const override;

  void fetch(std::uint64_t operation, BufferKey key);
  // False: the queue is full.
  bool send(std::uint64_t operation, std::uint8_t channel, Buffer message);
  // Nobody waits for the operation any more. A message on the way keeps its credit.
  void abandon(std::uint64_t operation);

  Bytes queued() const { return queued_; }

  Result<Landing> frame_begins(const FrameHeader& header) override;
  Result<void> frame_ended(const FrameHeader& header) override;

 private:
  struct Waiting {
    std::uint64_t operation = 0;
    std::uint8_t channel = 0;
    Buffer message;
  };

  Result<Landing> piece(const FrameHeader& header);
  Result<void> piece_ended(std::uint64_t operation);
  Result<void> handled(const FrameHeader& header);
  void pump();

  const TransportLimits& limits_;
  Completions& completions_;
  bool is_welcome_ = false;
  std::map<std::uint64_t, std::optional<Assembly>> fetches_;
  Bytes credit_;
  Bytes queued_{0};
  Bytes in_flight_{0};
  std::deque<Waiting> waiting_;
  std::map<std::uint64_t, Bytes> sent_;  // not handled yet
};

}  // namespace shoal::transport
