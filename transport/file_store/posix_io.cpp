// System calls, repeated where they were interrupted or did a part.
#include "transport/file_store/posix_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace shoal::transport {

class PosixIo::Opened final : public File {
 public:
  Opened(std::string name, FileDescriptor file, bool is_direct)
      : name(std::move(name)),
        file(std::move(file)),
        is_direct(is_direct) {}

  const std::string name;
  const FileDescriptor file;
  const bool is_direct;
};

namespace {

// Records hold the tokens of their prompts: nobody else's to read.
constexpr ::mode_t kFileMode = 0600;

// A larger "small file" is not one of ours.
constexpr std::size_t kContentMax = 4'096;
// What the page cache has taken when it is told to begin writing.
constexpr std::size_t kCachedPiece = std::size_t{1} << 20;

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ESTALE:
      return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kNoCapacity;
    default:
      return Code::kUnavailable;
  }
}

// 0, or an errno; ENODATA: the file ends before.
int read_fully(int file, std::uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno != EINTR) {
      return errno;
    }
    if (got == 0) {
      return ENODATA;
    }
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    bytes = bytes.subspan(done);
    offset += done;
  }
  return 0;
}

int write_fully(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno != EINTR) {
      return errno;
    }
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    bytes = bytes.subspan(done);
    offset += done;
  }
  return 0;
}

// Through the page cache: the disk begins with the first piece, not with the sync. File systems
// that cannot be told so write at the sync.
int write_cached(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kCachedPiece) {
    const auto piece = bytes.subspan(at, std::min(kCachedPiece, bytes.size() - at));
    if (const int error = write_fully(file, offset + at, piece); error != 0) {
      return error;
    }
    ::sync_file_range(file,
                      static_cast<off64_t>(offset + at),
                      static_cast<off64_t>(piece.size()),
                      SYNC_FILE_RANGE_WRITE);
  }
  return 0;
}

}  // namespace

int PosixIo::descriptor_of(const File& file) {
  return static_cast<const Opened&>(file).file.get();
}

tl::unexpected<Error> PosixIo::refused(const char* what, const std::string& name, int error) const {
  if (error == ENODATA) {
    return fail(Code::kCorrupt, (directory_ / name).string() + " ends before what was asked for");
  }
  return fail(code_of(error),
              std::string("cannot ") + what + " " + (directory_ / name).string() + ": " +
                  std::strerror(error));
}

tl::unexpected<Error> PosixIo::refused(const char* what, const File& file, int error) const {
  return refused(what, static_cast<const Opened&>(file).name, error);
}

Result<std::vector<std::string>> PosixIo::list() {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(directory_, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error) {
    return refused("list", std::string(), error.value());
  }
  return names;
}

Result<FileIo::Facts> PosixIo::facts(const std::string& name) {
  struct stat facts {};

  if (::stat((directory_ / name).c_str(), &facts) != 0) {
    return refused("stat", name, errno);
  }
  return Facts{static_cast<std::uint64_t>(facts.st_size),
               WallMillis{facts.st_mtim.tv_sec} * 1'000 + facts.st_mtim.tv_nsec / 1'000'000};
}

Result<FileIo::FilePtr> PosixIo::open_with(const std::string& name, int flags) {
  const std::filesystem::path path = directory_ / name;
  FileDescriptor file(direct_ ? ::open(path.c_str(), flags | O_CLOEXEC | O_DIRECT, kFileMode) : -1);
  const bool is_direct = file.is_open();
  // Not every file system has O_DIRECT; a refused one may have created the file already.
  if (!file.is_open() && (!direct_ || errno == EINVAL)) {
    if (direct_) {
      flags &= ~O_EXCL;
    }
    file = FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC, kFileMode));
  }
  if (!file.is_open()) {
    return refused((flags & O_CREAT) != 0 ? "create" : "open", name, errno);
  }
  return std::make_shared<Opened>(name, std::move(file), is_direct);
}

Result<FileIo::FilePtr> PosixIo::open(const std::string& name) {
  return open_with(name, O_RDONLY);
}

Result<FileIo::FilePtr> PosixIo::create(const std::string& name) {
  TRY(FilePtr file, open_with(name, O_RDWR | O_CREAT | O_EXCL));
  TRY_VOID(sync_directory());
  return file;
}

Result<void> PosixIo::remove(const std::string& name) {
  if (::unlink((directory_ / name).c_str()) != 0) {
    return refused("remove", name, errno);
  }
  return {};
}

void PosixIo::read(std::span<Read> reads) {
  for (Read& read : reads) {
    const int error = read_fully(descriptor_of(*read.file), read.offset, read.bytes);
    read.result = error == 0 ? Result<void>() : refused("read", *read.file, error);
  }
}

Result<void> PosixIo::write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto& opened = static_cast<const Opened&>(file);
  const int error = opened.is_direct ? write_fully(opened.file.get(), offset, bytes)
                                     : write_cached(opened.file.get(), offset, bytes);
  return error == 0 ? Result<void>() : refused("write", file, error);
}

Result<void> PosixIo::truncate(File& file, std::uint64_t bytes) {
  if (::ftruncate(descriptor_of(file), static_cast<off_t>(bytes)) != 0) {
    return refused("truncate", file, errno);
  }
  return {};
}

Result<void> PosixIo::sync(File& file) {
  if (::fdatasync(descriptor_of(file)) != 0) {
    return refused("sync", file, errno);
  }
  return {};
}

Result<std::string> PosixIo::content(const std::string& name) {
  const FileDescriptor file(::open((directory_ / name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return refused("open", name, errno);
  }
  std::string text(kContentMax, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) {
    return refused("read", name, errno);
  }
  text.resize(static_cast<std::size_t>(got));
  return text;
}

Result<void> PosixIo::replace(const std::string& name, std::string_view content) {
  const std::string temporary = name + "." + unique_ + "." + std::to_string(replaced_++) + ".new";
  auto replaced = write_and_sync(temporary, name, content);
  if (replaced && ::rename((directory_ / temporary).c_str(), (directory_ / name).c_str()) != 0) {
    replaced = refused("replace", name, errno);
  }
  if (!replaced) {
    ::unlink((directory_ / temporary).c_str());
    return replaced;
  }
  return sync_directory();
}

Result<void> PosixIo::write_and_sync(const std::string& temporary,
                                     const std::string& name,
                                     std::string_view content) {
  const FileDescriptor file(::open(
      (directory_ / temporary).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode));
  if (!file.is_open()) {
    return refused("create", name, errno);
  }
  const int error = write_fully(file.get(), 0, std::as_bytes(std::span(content)));
  if (error != 0) {
    return refused("write", name, error);
  }
  if (::fsync(file.get()) != 0) {
    return refused("sync", name, errno);
  }
  return {};
}

Result<void> PosixIo::sync_directory() {
  const FileDescriptor file(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.get()) != 0) {
    return refused("sync", std::string(), errno);
  }
  return {};
}

}  // namespace shoal::transport
