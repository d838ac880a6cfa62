// sendmsg over many frames at once; readv straight into the payload's place and, for what follows,
// into a staging buffer.
#include "transport/tcp/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include "schemas/checksum.h"

namespace shoal::transport {
namespace {

constexpr std::size_t kTurn = std::size_t{1} << 20;
constexpr std::size_t kStaging = std::size_t{64} << 10;
constexpr std::size_t kFramesAtOnce = 16;

tl::unexpected<Error> broken(const char* what) {
  return fail(Code::kPeerLost, std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

Connection::Connection(FileDescriptor socket) : socket_(std::move(socket)), staging_(kStaging) {}

// Output.

Connection::Frame Connection::frame_of(FrameHeader header, Buffer payload, std::size_t offset) {
  if (payload != nullptr) {
    header.length = static_cast<std::uint32_t>(std::min(kPayloadMax, payload->size() - offset));
    header.checksum = crc32c(std::span(*payload).subspan(offset, header.length));
  }
  return {encode(header), std::move(payload), offset, header.length};
}

void Connection::push(FrameHeader header, Buffer payload) {
  control_.push_back(frame_of(header, std::move(payload), 0));
}

void Connection::stream(std::uint64_t lane, FrameHeader header, Buffer bytes) {
  std::deque<Stream>& streams = lanes_[lane];
  if (streams.empty()) {
    turns_.push_back(lane);
  }
  header.argument = bytes->size();
  streams.push_back({header, std::move(bytes), 0});
}

void Connection::cancel(std::uint64_t lane) {
  if (lanes_.erase(lane) > 0) {
    turns_.erase(std::ranges::find(turns_, lane));
  }
}

Connection::Frame Connection::next_piece() {
  const std::uint64_t lane = turns_.front();
  turns_.pop_front();
  const auto streams = lanes_.find(lane);
  Stream& stream = streams->second.front();
  Frame piece = frame_of(stream.header, stream.bytes, stream.offset);
  stream.offset += piece.length;
  if (stream.offset == stream.bytes->size()) {
    streams->second.pop_front();
  }
  if (streams->second.empty()) {
    lanes_.erase(streams);
  } else {
    turns_.push_back(lane);
  }
  return piece;
}

void Connection::make_ready() {
  std::size_t bytes = 0;
  for (const Frame& frame : ready_) {
    bytes += frame.length;
  }
  while (ready_.size() < kFramesAtOnce && bytes < kPayloadMax) {
    if (!control_.empty()) {
      ready_.push_back(std::move(control_.front()));
      control_.pop_front();
    } else if (!turns_.empty()) {
      ready_.push_back(next_piece());
    } else {
      return;
    }
    bytes += ready_.back().length;
  }
}

Result<bool> Connection::write() {
  std::size_t total = 0;
  while (total < kTurn) {
    make_ready();
    std::array<iovec, 2 * kFramesAtOnce> parts{};
    std::size_t count = 0;
    std::size_t skip = ready_written_;
    const auto add = [&](const std::byte* data, std::size_t size) {
      const std::size_t skipped = std::min(skip, size);
      skip -= skipped;
      if (size > skipped) {
        parts[count++] = {const_cast<std::byte*>(data + skipped), size - skipped};
      }
    };
    for (const Frame& frame : ready_) {
      add(frame.header.data(), kHeaderSize);
      if (frame.payload != nullptr) {
        add(frame.payload->data() + frame.offset, frame.length);
      }
    }
    if (count == 0) {
      break;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
      break;
    }
    if (sent < 0) {
      return broken("writing");
    }
    written(static_cast<std::size_t>(sent));
    total += static_cast<std::size_t>(sent);
  }
  return total > 0;
}

void Connection::written(std::size_t count) {
  ready_written_ += count;
  while (!ready_.empty() && ready_written_ >= kHeaderSize + ready_.front().length) {
    ready_written_ -= kHeaderSize + ready_.front().length;
    ready_.pop_front();
  }
}

// Input.

std::byte* Connection::landing_at(std::size_t filled) {
  if (landing_.bytes != nullptr) {
    return landing_.bytes->data() + landing_.offset + filled;
  }
  dropped_.resize(kPayloadMax);
  return dropped_.data() + filled;
}

Result<bool> Connection::read(FrameSink& sink) {
  std::size_t total = 0;
  while (total < kTurn) {
    TRY(const std::size_t got, receive());
    if (got == 0) {
      break;
    }
    total += got;
    TRY_VOID(parse(sink));
  }
  return total > 0;
}

// 0: nothing to read now.
Result<std::size_t> Connection::receive() {
  const std::size_t rest = in_frame_ ? header_.length - filled_ : 0;
  std::array<iovec, 2> parts{};
  int count = 0;
  if (rest > 0) {
    parts[static_cast<std::size_t>(count++)] = {landing_at(filled_), rest};
  }
  parts[static_cast<std::size_t>(count++)] = {staging_.data() + staged_, kStaging - staged_};
  ssize_t got = 0;
  do {
    got = ::readv(socket_.get(), parts.data(), count);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) {
    return std::size_t{0};
  }
  if (got < 0) {
    return broken("reading");
  }
  if (got == 0) {
    return fail(Code::kPeerLost, "the other side closed the connection");
  }
  const auto size = static_cast<std::size_t>(got);
  filled_ += std::min(size, rest);
  staged_ += size - std::min(size, rest);
  return size;
}

// Takes whole headers and what is there of payloads; less than a header stays staged.
Result<void> Connection::parse(FrameSink& sink) {
  std::size_t at = 0;
  while (true) {
    if (in_frame_) {
      const std::size_t take = std::min(staged_ - at, header_.length - filled_);
      if (take > 0) {
        std::memcpy(landing_at(filled_), staging_.data() + at, take);
      }
      at += take;
      filled_ += take;
      if (filled_ < header_.length) {
        break;
      }
      TRY_VOID(end(sink));
    } else if (staged_ - at >= kHeaderSize) {
      TRY(const FrameHeader header,
          decode_header(
              std::span<const std::byte, kHeaderSize>(staging_.data() + at, kHeaderSize)));
      at += kHeaderSize;
      TRY_VOID(begin(sink, header));
    } else {
      break;
    }
  }
  std::memmove(staging_.data(), staging_.data() + at, staged_ - at);
  staged_ -= at;
  return {};
}

Result<void> Connection::begin(FrameSink& sink, const FrameHeader& header) {
  TRY(landing_, sink.frame_begins(header));
  header_ = header;
  filled_ = 0;
  in_frame_ = true;
  return {};
}

Result<void> Connection::end(FrameSink& sink) {
  if (header_.length > 0 &&
      crc32c(std::span<const std::byte>(landing_at(0), header_.length)) != header_.checksum) {
    return fail(Code::kCorrupt, "a frame's payload differs from its checksum");
  }
  in_frame_ = false;
  landing_ = {};
  return sink.frame_ended(header_);
}

}  // namespace shoal::transport
