// Layout, little endian: 8 bytes "SHOALREC", format u32, length u32, version u64, crc32c u32 of all
// before it and of the record, then the record.
#include "transport/embedded/record_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>

#include "schemas/checksum.h"
#include "transport/file_descriptor.h"

namespace shoal::transport {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "SHOALREC";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kChecked = 24;  // of the header, by the checksum that follows
constexpr std::size_t kHeader = kChecked + 4;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
T at(const std::string& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::uint32_t checksum(std::string_view header, std::string_view record) {
  return crc32c(std::as_bytes(std::span(record)),
                crc32c(std::as_bytes(std::span(header.substr(0, kChecked)))));
}

std::string encode(const ClusterRecord& record) {
  std::string out(kMagic);
  append(out, kFormat);
  append(out, static_cast<std::uint32_t>(record.bytes.size()));
  append(out, record.version);
  append(out, checksum(out, record.bytes));
  return out + record.bytes;
}

tl::unexpected<Error> unavailable(const std::filesystem::path& path, const char* what) {
  return fail(Code::kUnavailable,
              std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno));
}

Result<void> write_all(int file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return unavailable(path, "write");
    }
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return {};
}

Result<std::string> read_all(int file, std::size_t size, const std::filesystem::path& path) {
  std::string bytes(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::read(file, bytes.data() + filled, size - filled);
    if (got < 0 && errno != EINTR) {
      return unavailable(path, "read");
    }
    if (got == 0) {
      break;
    }
    filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

Result<ClusterRecord> RecordFile::read() const {
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) {
      return ClusterRecord{};
    }
    return unavailable(path_, "open");
  }

  struct stat facts {};

  if (::fstat(file.get(), &facts) != 0) {
    return unavailable(path_, "stat");
  }
  const auto refuse = [this](const char* what) {
    return fail(Code::kCorrupt,
                path_.string() + " " + what +
                    "; stop every node, move the file away and start again: the cluster then "
                    "agrees on its members anew");
  };
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size > kHeader + kBytesMax) {
    return refuse("is not a cluster record: it is too large");
  }
  TRY(const std::string stored, read_all(file.get(), size, path_));
  if (stored.size() < kHeader || stored.compare(0, kMagic.size(), kMagic) != 0) {
    return refuse("is not a cluster record");
  }
  if (at<std::uint32_t>(stored, 8) != kFormat) {
    return refuse("is of another format than this program's");
  }
  ClusterRecord record{at<std::uint64_t>(stored, 16), stored.substr(kHeader)};
  if (record.bytes.size() != at<std::uint32_t>(stored, 12) ||
      checksum(stored, record.bytes) != at<std::uint32_t>(stored, kChecked)) {
    return refuse("is torn: its checksum differs");
  }
  return record;
}

// The rename replaces the record as a whole; the directory's fsync makes the rename durable.
Result<void> RecordFile::write(const ClusterRecord& record) const {
  if (record.bytes.size() > kBytesMax) {
    return fail(Code::kTooLarge,
                "a cluster record of " + std::to_string(record.bytes.size()) + " bytes is over " +
                    std::to_string(kBytesMax));
  }
  const FileDescriptor file(
      ::open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    return unavailable(temporary(), "open");
  }
  TRY_VOID(write_all(file.get(), encode(record), temporary()));
  if (::fsync(file.get()) != 0) {
    return unavailable(temporary(), "fsync");
  }
  if (::rename(temporary().c_str(), path_.c_str()) != 0) {
    return unavailable(path_, "replace");
  }
  const FileDescriptor directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open() || ::fsync(directory.get()) != 0) {
    return unavailable(directory_, "fsync");
  }
  return {};
}

Result<void> RecordFile::check_writable() const {
  const FileDescriptor file(::open(temporary().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    return fail(Code::kMisconfigured,
                "cannot write " + temporary().string() + ": " + std::strerror(errno) +
                    "; give a state directory that this user may write");
  }
  return {};
}

}  // namespace shoal::transport
