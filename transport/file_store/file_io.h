// The port to a directory of files: what the row `file` needs of a file system, as calls that
// block.
//
// Rows: pread and pwrite; io_uring; objects of a Ceph pool; a simulated disk. Threads: every call
// from any thread, one thread at a time per file that is written. A call may never return (a mount
// that hangs): callers run them on threads that nobody waits for without a deadline. Errors:
// kNotFound (no such file), kNoCapacity (full: the disk, a quota or a limit of the process),
// kUnavailable (anything else).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/result.h"
#include "schemas/units.h"
#include "transport/block_index.h"
#include "transport/file_store/aligned_buffer.h"

namespace shoal::transport {

class FileIo {
 public:
  // Open; closed with its last owner.
  class File {
   public:
    virtual ~File() = default;
  };

  using FilePtr = std::shared_ptr<File>;

  // Offset, size and memory are multiples of kKvRecordAlign.
  struct Read {
    FilePtr file;
    std::uint64_t offset = 0;
    std::span<std::byte> bytes;
    Result<void> result;  // kCorrupt: the file ends before
  };

  struct Facts {
    std::uint64_t bytes = 0;
    WallMillis modified = 0;  // by the clock of the file system
  };

  virtual ~FileIo() = default;

  // What a file that was synced outlives, in one sentence.
  virtual std::string_view durable() const {
    return "a process that is killed, and a machine that stops, as far as its disk keeps what "
           "fdatasync was told";
  }

  // Reads that one call of read() does at the same time; 1: one after the other.
  virtual int depth() const = 0;

  virtual Result<std::vector<std::string>> list() = 0;
  virtual Result<Facts> facts(const std::string& name) = 0;
  virtual Result<FilePtr> open(const std::string& name) = 0;
  // A new file, to be written. kUnavailable: there is one of that name.
  virtual Result<FilePtr> create(const std::string& name) = 0;
  virtual Result<void> remove(const std::string& name) = 0;

  virtual void read(std::span<Read> reads) = 0;
  virtual Result<void> write(File& file,
                             std::uint64_t offset,
                             std::span<const std::byte> bytes) = 0;
  virtual Result<void> truncate(File& file, std::uint64_t bytes) = 0;
  // What was written outlives the machine, as far as the medium keeps its word.
  virtual Result<void> sync(File& file) = 0;

  // A small file as a whole. replace() is atomic and durable.
  virtual Result<std::string> content(const std::string& name) = 0;
  virtual Result<void> replace(const std::string& name, std::string_view content) = 0;
};

}  // namespace shoal::transport
