// Every ceiling that a peer should keep is checked here, and ends its connection.
#include "transport/tcp/accepted.h"

#include <utility>

namespace shoal::transport {

bool Accepted::has_work() const {
  return !is_admitted_ || !messages_.empty() || connection.has_output() ||
         connection.is_inside_frame();
}

Result<Landing> Accepted::frame_begins(const FrameHeader& header) {
  if (!is_admitted_) {
    if (header.type != FrameType::kHello) {
      return fail(Code::kCorrupt, "a connection does not begin with a hello");
    }
    hello_->resize(header.length);
    return Landing{hello_, 0};
  }
  // Answers wait in memory while the peer does not read them.
  if (connection.control_frames() > 4 * static_cast<std::size_t>(limits_.operations_per_peer)) {
    return fail(Code::kCorrupt, "a peer asks without reading the answers");
  }
  if (header.type == FrameType::kMessage) {
    return message_piece(header);
  }
  if (header.length > 0) {
    return fail(Code::kCorrupt, "a request has a payload where none belongs");
  }
  return Landing{};
}

Result<void> Accepted::frame_ended(const FrameHeader& header) {
  if (!is_admitted_) {
    return greet();
  }
  switch (header.type) {
    case FrameType::kFetch:
      return serve(header);
    case FrameType::kCancel:
      connection.cancel(header.sequence);
      return {};
    case FrameType::kMessage:
      return message_piece_ended(header);
    default:
      return fail(Code::kCorrupt, "a dialer sends a frame that only the other side may");
  }
}

Result<void> Accepted::greet() {
  TRY(const Hello hello, decode_hello(*hello_));
  if (const auto refusal = host_.admit(hello, id)) {
    connection.push({.type = FrameType::kRefused, .channel = static_cast<std::uint8_t>(*refusal)});
    TRY_VOID(connection.write());
    return fail(Code::kPeerLost, "refused");
  }
  peer_ = hello.from;
  is_admitted_ = true;
  connection.push({.type = FrameType::kWelcome,
                   .argument = static_cast<std::uint64_t>(limits_.credit_per_peer.value)});
  return {};
}

Result<void> Accepted::serve(const FrameHeader& header) {
  if (connection.is_streaming(header.sequence) ||
      connection.lanes() >= static_cast<std::size_t>(limits_.operations_per_peer)) {
    return fail(Code::kCorrupt, "a peer has more fetches than it may, or one number twice");
  }
  Buffer bytes = host_.offered(BufferKey{header.argument});
  if (bytes == nullptr) {
    connection.push({.type = FrameType::kNoBuffer, .sequence = header.sequence});
  } else {
    connection.stream(header.sequence,
                      {.type = FrameType::kPiece, .sequence = header.sequence},
                      std::move(bytes));
  }
  return {};
}

Result<Landing> Accepted::message_piece(const FrameHeader& header) {
  auto message = messages_.find(header.channel);
  if (message == messages_.end()) {
    // Compared as announced: it may not fit a signed number.
    const auto limit = static_cast<std::uint64_t>(limits_.message.value);
    if (header.argument > limit || announced_ > limits_.credit_per_peer) {
      return fail(Code::kCorrupt, "a peer announces more bytes of messages than it may");
    }
    message = messages_.emplace(header.channel, header.argument).first;
    announced_ = announced_ + Bytes{static_cast<std::int64_t>(header.argument)};
  }
  return message->second.grow(header);
}

Result<void> Accepted::message_piece_ended(const FrameHeader& header) {
  const auto message = messages_.find(header.channel);
  if (!message->second.is_whole()) {
    return {};
  }
  announced_ = announced_ - Bytes{static_cast<std::int64_t>(message->second.total())};
  Buffer bytes = message->second.take();
  messages_.erase(message);
  const bool is_handled = host_.hand_over(peer_, header.channel, std::move(bytes));
  connection.push({.type = is_handled ? FrameType::kHandled : FrameType::kUnhandled,
                   .sequence = header.sequence});
  return {};
}

}  // namespace shoal::transport
