// A real directory through pread and pwrite, without the page cache where the file system allows
// that (O_DIRECT).
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "transport/file_descriptor.h"
#include "transport/file_store/file_io.h"

namespace shoal::transport {

class PosixIo : public FileIo {
 public:
  // `unique` is part of temporary names: several processes share the directory.
  PosixIo(std::filesystem::path directory, std::string unique, bool direct)
      : directory_(std::move(directory)),
        unique_(std::move(unique)),
        direct_(direct) {}

  int depth() const override { return 1; }

  Result<std::vector<std::string>> list() override;
  Result<Facts> facts(const std::string& name) override;
  Result<FilePtr> open(const std::string& name) override;
  Result<FilePtr> create(const std::string& name) override;
  Result<void> remove(const std::string& name) override;
  void read(std::span<Read> reads) override;
  Result<void> write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Result<void> truncate(File& file, std::uint64_t bytes) override;
  Result<void> sync(File& file) override;
  Result<std::string> content(const std::string& name) override;
  Result<void> replace(const std::string& name, std::string_view content) override;

 protected:
  static int descriptor_of(const File& file);
  // `error` is an errno.
  tl::unexpected<Error> refused(const char* what, const std::string& name, int error) const;
  tl::unexpected<Error> refused(const char* what, const File& file, int error) const;

 private:
  class Opened;

  Result<FilePtr> open_with(const std::string& name, int flags);
  // Errors are about `name`, whose place `temporary` takes.
  Result<void> write_and_sync(const std::string& temporary,
                              const std::string& name,
                              std::string_view content);
  Result<void> sync_directory();

  const std::filesystem::path directory_;
  const std::string unique_;
  const bool direct_;
  std::atomic<std::uint64_t> replaced_ = 0;
};

}  // namespace shoal::transport
