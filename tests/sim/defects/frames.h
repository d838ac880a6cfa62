// Reading and changing the messages on simulated links.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "actors/wire_messages.h"
#include "schemas/check.h"
#include "schemas/wire.pb.h"

namespace shoal::sim {

// Deadlines travel as the time left, so any instant serves to read and to write them.
inline constexpr Instant kAnyTime{};

inline wire::Frame frame_of(const std::string& bytes) {
  wire::Frame frame;
  frame.ParseFromString(bytes);
  return frame;
}

template <class Message>
bool carries(const wire::Frame& frame) {
  return frame.has_envelope() && frame.envelope().kind() == wire_codec::kKind<Message>;
}

template <class Message>
std::optional<Message> message_in(const std::string& bytes) {
  const wire::Frame frame = frame_of(bytes);
  if (!carries<Message>(frame)) {
    return std::nullopt;
  }
  auto message = wire_codec::decode<Message>(frame.envelope().body(), kAnyTime);
  return message ? std::optional(*std::move(message)) : std::nullopt;
}

// The same envelope with another message of the kind.
template <class Message>
std::string with_message(const std::string& bytes, const Message& message) {
  wire::Frame frame = frame_of(bytes);
  frame.mutable_envelope()->set_body(wire_codec::encode(message, kAnyTime));
  return frame.SerializeAsString();
}

}  // namespace shoal::sim
