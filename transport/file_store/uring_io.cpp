// Each call takes a ring for itself; there are as many rings as threads that ever called at once.
#include "transport/file_store/uring_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <liburing.h>
#include <mutex>
#include <vector>

namespace shoal::transport {
namespace {

// Deeper only adds latency on the disks that were measured.
constexpr unsigned kDepth = 16;
// Of a write: a file that grows takes one at a time, so a few large ones.
constexpr std::size_t kWritePiece = std::size_t{4} << 20;

class Ring {
 public:
  // Nothing where the system refuses.
  static std::unique_ptr<Ring> open() {
    auto ring = std::unique_ptr<Ring>(new Ring);
    ring->error_ = -io_uring_queue_init(kDepth, &ring->ring_, 0);
    return ring;
  }

  ~Ring() {
    if (error_ == 0) {
      io_uring_queue_exit(&ring_);
    }
  }

  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  int error() const { return error_; }

  // A read or write in parts: `left` moves on, `error` is an errno.
  struct Part {
    int file = -1;
    bool is_write = false;
    std::uint64_t offset = 0;
    std::span<std::byte> left;
    int error = 0;
  };

  void run(std::span<Part> parts) {
    std::vector<Part*> todo;
    for (Part& part : parts) {
      todo.push_back(&part);
    }
    std::size_t flying = 0;
    while (!todo.empty() || flying > 0) {
      while (!todo.empty() && flying < kDepth && submit(*todo.back())) {
        todo.pop_back();
        ++flying;
      }
      io_uring_submit_and_wait(&ring_, 1);
      flying -= reap(todo);
    }
  }

 private:
  Ring() = default;

  bool submit(Part& part) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      return false;
    }
    const auto size = static_cast<unsigned>(part.left.size());
    if (part.is_write) {
      io_uring_prep_write(entry, part.file, part.left.data(), size, part.offset);
    } else {
      io_uring_prep_read(entry, part.file, part.left.data(), size, part.offset);
    }
    io_uring_sqe_set_data(entry, &part);
    return true;
  }

  // Parts that are not done yet go back to `todo`.
  std::size_t reap(std::vector<Part*>& todo) {
    std::size_t reaped = 0;
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      auto* part = static_cast<Part*>(io_uring_cqe_get_data(entry));
      const int moved = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      ++reaped;
      if (moved == -EINTR || moved == -EAGAIN) {
        todo.push_back(part);
      } else if (moved < 0) {
        part->error = -moved;
      } else if (moved == 0) {
        part->error = ENODATA;
      } else {
        part->left = part->left.subspan(static_cast<std::size_t>(moved));
        part->offset += static_cast<std::uint64_t>(moved);
        if (!part->left.empty()) {
          todo.push_back(part);
        }
      }
    }
    return reaped;
  }

  io_uring ring_{};
  int error_ = 0;
};

class UringIo final : public PosixIo {
 public:
  UringIo(std::filesystem::path directory,
          std::string unique,
          bool direct,
          std::unique_ptr<Ring> first)
      : PosixIo(std::move(directory), std::move(unique), direct) {
    rings_.push_back(std::move(first));
  }

  int depth() const override { return static_cast<int>(kDepth); }

  void read(std::span<Read> reads) override {
    std::unique_ptr<Ring> ring = take();
    if (ring->error() != 0) {
      return PosixIo::read(reads);
    }
    std::vector<Ring::Part> parts;
    for (const Read& read : reads) {
      parts.push_back({descriptor_of(*read.file), false, read.offset, read.bytes});
    }
    ring->run(parts);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const int error = parts[i].error;
      reads[i].result = error == 0 ? Result<void>() : refused("read", *reads[i].file, error);
    }
    give(std::move(ring));
  }

  Result<void> write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::unique_ptr<Ring> ring = take();
    if (ring->error() != 0) {
      return PosixIo::write(file, offset, bytes);
    }
    std::vector<Ring::Part> parts;
    for (std::size_t at = 0; at < bytes.size(); at += kWritePiece) {
      const auto piece = bytes.subspan(at, std::min(kWritePiece, bytes.size() - at));
      // The ring takes both directions by one type; a write does not touch its memory.
      parts.push_back({descriptor_of(file),
                       true,
                       offset + at,
                       {const_cast<std::byte*>(piece.data()), piece.size()}});
    }
    ring->run(parts);
    give(std::move(ring));
    const auto failed =
        std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.error != 0; });
    return failed == parts.end() ? Result<void>() : refused("write", file, failed->error);
  }

 private:
  std::unique_ptr<Ring> take() {
    const std::lock_guard lock(mutex_);
    if (rings_.empty()) {
      return Ring::open();
    }
    auto ring = std::move(rings_.back());
    rings_.pop_back();
    return ring;
  }

  void give(std::unique_ptr<Ring> ring) {
    const std::lock_guard lock(mutex_);
    rings_.push_back(std::move(ring));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace

Result<std::shared_ptr<FileIo>> open_uring_io(std::filesystem::path directory,
                                              std::string unique,
                                              bool direct) {
  auto first = Ring::open();
  if (first->error() != 0) {
    return fail(Code::kUnavailable,
                std::string("io_uring is not to be had: ") + std::strerror(first->error()));
  }
  return std::make_shared<UringIo>(
      std::move(directory), std::move(unique), direct, std::move(first));
}

}  // namespace shoal::transport
