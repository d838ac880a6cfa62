// Frames over one non-blocking socket: what to write next, and where what is read goes. Large
// payloads are written from and read into their final place. Knows nothing of operations.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "transport/tcp/frame.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace shoal::transport {

// Where a payload goes: into these bytes, at this offset, where there is room. None: dropped.
struct Landing {
  std::shared_ptr<std::vector<std::byte>> bytes;
  std::size_t offset = 0;
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // An error of either ends the connection.
  virtual Result<Landing> frame_begins(const FrameHeader& header) = 0;
  virtual Result<void> frame_ended(const FrameHeader& header) = 0;  // its payload is whole
};

class Connection {
 public:
  explicit Connection(FileDescriptor socket);

  int socket() const { return socket_.get(); }

  // Goes before all that is streamed.
  void push(FrameHeader header, Buffer payload = nullptr);
  // Goes in pieces. Streams of one lane go one after another, lanes take turns.
  void stream(std::uint64_t lane, FrameHeader header, Buffer bytes);
  // What of the lane is not written yet is dropped.
  void cancel(std::uint64_t lane);

  // Both move at most about a mebibyte, so that connections take turns, and say whether any byte
  // moved. kPeerLost, kCorrupt: the connection is over.
  Result<bool> write();
  Result<bool> read(FrameSink& sink);

  bool has_output() const { return !ready_.empty() || !control_.empty() || !turns_.empty(); }

  std::size_t control_frames() const { return control_.size(); }

  std::size_t lanes() const { return turns_.size(); }

  bool is_streaming(std::uint64_t lane) const { return lanes_.contains(lane); }

  bool is_inside_frame() const { return in_frame_ || staged_ > 0; }

 private:
  struct Frame {
    HeaderBytes header;
    Buffer payload;  // or null
    std::size_t offset = 0;
    std::size_t length = 0;
  };

  struct Stream {
    FrameHeader header;
    Buffer bytes;
    std::size_t offset = 0;
  };

  static Frame frame_of(FrameHeader header, Buffer payload, std::size_t offset);
  Frame next_piece();
  void make_ready();
  void written(std::size_t count);

  Result<std::size_t> receive();
  Result<void> parse(FrameSink& sink);
  Result<void> begin(FrameSink& sink, const FrameHeader& header);
  Result<void> end(FrameSink& sink);
  std::byte* landing_at(std::size_t filled);

  FileDescriptor socket_;

  std::deque<Frame> ready_;        // being written
  std::size_t ready_written_ = 0;  // of the first
  std::deque<Frame> control_;
  std::map<std::uint64_t, std::deque<Stream>> lanes_;
  std::deque<std::uint64_t> turns_;

  std::vector<std::byte> staging_;
  std::size_t staged_ = 0;
  bool in_frame_ = false;
  FrameHeader header_;
  Landing landing_;
  std::size_t filled_ = 0;
  std::vector<std::byte> dropped_;  // where payloads without a landing go
};

}  // namespace shoal::transport
