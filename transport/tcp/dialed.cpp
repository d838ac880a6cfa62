// Requests and messages follow the hello at once; a refusal ends the connection and all of them.
#include "transport/tcp/dialed.h"

#include <algorithm>
#include <utility>

#include "transport/offers.h"

namespace shoal::transport {
namespace {

const char* text_of(std::uint8_t refusal) {
  switch (static_cast<Refusal>(refusal)) {
    case Refusal::kVersion:
      return "refused: it speaks another version; run the same build on all nodes";
    case Refusal::kCluster:
      return "refused: it belongs to another cluster; compare the cluster names";
    case Refusal::kTarget:
      return "refused: it is not the incarnation that was dialed";
    case Refusal::kStranger:
      return "refused: it does not know this incarnation";
  }
  return "refused for an unknown reason";
}

}  // namespace

Dialed::Dialed(FileDescriptor socket,
               const Hello& hello,
               const TransportLimits& limits,
               Completions& completions)
    : Session(std::move(socket), hello.to),
      limits_(limits),
      completions_(completions),
      credit_(limits.credit_per_peer) {
  connection.push({.type = FrameType::kHello},
                  std::make_shared<const std::vector<std::byte>>(encode(hello)));
}

bool Dialed::has_work() const {
  return !is_welcome_ || !fetches_.empty() || !waiting_.empty() || !sent_.empty() ||
         connection.has_output() || connection.is_inside_frame();
}

void Dialed::fetch(std::uint64_t operation, BufferKey key) {
  fetches_.emplace(operation, std::nullopt);
  connection.push({.type = FrameType::kFetch, .sequence = operation, .argument = key.value});
}

bool Dialed::send(std::uint64_t operation, std::uint8_t channel, Buffer message) {
  const Bytes size = size_of(message);
  waiting_.push_back({operation, channel, std::move(message)});
  queued_ = queued_ + size;
  pump();
  if (queued_ <= limits_.queued_per_peer) {
    return true;
  }
  waiting_.pop_back();
  queued_ = queued_ - size;
  return false;
}

// One message larger than the credit goes alone.
void Dialed::pump() {
  while (!waiting_.empty()) {
    const Bytes size = size_of(waiting_.front().message);
    if (in_flight_ > Bytes{0} && in_flight_ + size > credit_) {
      return;
    }
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    queued_ = queued_ - size;
    in_flight_ = in_flight_ + size;
    sent_.emplace(next.operation, size);
    connection.stream(
        next.channel,
        {.type = FrameType::kMessage, .channel = next.channel, .sequence = next.operation},
        std::move(next.message));
  }
}

void Dialed::abandon(std::uint64_t operation) {
  if (fetches_.erase(operation) > 0) {
    connection.push({.type = FrameType::kCancel, .sequence = operation});
    return;
  }
  const auto waiting = std::ranges::find(waiting_, operation, &Waiting::operation);
  if (waiting != waiting_.end()) {
    queued_ = queued_ - size_of(waiting->message);
    waiting_.erase(waiting);
    pump();
  }
}

Result<Landing> Dialed::frame_begins(const FrameHeader& header) {
  if (header.type == FrameType::kPiece) {
    return piece(header);
  }
  if (header.length > 0) {
    return fail(Code::kCorrupt, "an answer has a payload where none belongs");
  }
  return Landing{};
}

Result<void> Dialed::frame_ended(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kWelcome:
      is_welcome_ = true;
      credit_ = std::min(credit_, Bytes{static_cast<std::int64_t>(header.argument)});
      return {};
    case FrameType::kRefused:
      return fail(Code::kPeerLost, text_of(header.channel));
    case FrameType::kPiece:
      return piece_ended(header.sequence);
    case FrameType::kNoBuffer:
      if (fetches_.erase(header.sequence) > 0) {
        completions_.complete(header.sequence,
                              fail(Code::kPeerLost, "the peer does not offer the buffer"));
      }
      return {};
    case FrameType::kHandled:
    case FrameType::kUnhandled:
      return handled(header);
    default:
      return fail(Code::kCorrupt, "an answer is of a type that only a dialer sends");
  }
}

// A piece that nobody waits for is dropped: its fetch was abandoned after it left.
Result<Landing> Dialed::piece(const FrameHeader& header) {
  const auto fetch = fetches_.find(header.sequence);
  if (fetch == fetches_.end()) {
    return Landing{};
  }
  if (header.argument > static_cast<std::uint64_t>(limits_.buffer.value)) {
    abandon(header.sequence);
    completions_.complete(header.sequence,
                          fail(Code::kCorrupt,
                               "the peer announces a buffer of " + std::to_string(header.argument) +
                                   " bytes, over " + std::to_string(limits_.buffer.value)));
    return Landing{};
  }
  if (!fetch->second) {
    fetch->second.emplace(header.argument);
  }
  return fetch->second->grow(header);
}

Result<void> Dialed::piece_ended(std::uint64_t operation) {
  const auto fetch = fetches_.find(operation);
  if (fetch != fetches_.end() && fetch->second && fetch->second->is_whole()) {
    Buffer bytes = fetch->second->take();
    fetches_.erase(fetch);
    completions_.complete(operation, std::move(bytes));
  }
  return {};
}

Result<void> Dialed::handled(const FrameHeader& header) {
  const auto sent = sent_.extract(header.sequence);
  if (sent.empty()) {
    return fail(Code::kCorrupt, "the peer answers a message that was never sent");
  }
  in_flight_ = in_flight_ - sent.mapped();
  pump();
  if (header.type == FrameType::kHandled) {
    completions_.complete(header.sequence, nullptr);
  } else {
    completions_.complete(header.sequence,
                          fail(Code::kPeerLost, "the peer has no handler of the channel"));
  }
  return {};
}

}  // namespace shoal::transport
