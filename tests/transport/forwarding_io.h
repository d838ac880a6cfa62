// Files that are another's: for tests that stand between a store and its files in a call or two.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/file_store/file_io.h"

namespace shoal::testing {

class ForwardingIo : public transport::FileIo {
 public:
  explicit ForwardingIo(std::shared_ptr<transport::FileIo> io) : io_(std::move(io)) {}

  int depth() const override { return io_->depth(); }

  Result<std::vector<std::string>> list() override { return io_->list(); }

  Result<Facts> facts(const std::string& name) override { return io_->facts(name); }

  Result<FilePtr> open(const std::string& name) override { return io_->open(name); }

  Result<FilePtr> create(const std::string& name) override { return io_->create(name); }

  Result<void> remove(const std::string& name) override { return io_->remove(name); }

  void read(std::span<Read> reads) override { io_->read(reads); }

  Result<void> write(File& file, std::uint64_t at, std::span<const std::byte> bytes) override {
    return io_->write(file, at, bytes);
  }

  Result<void> truncate(File& file, std::uint64_t bytes) override {
    return io_->truncate(file, bytes);
  }

  Result<void> sync(File& file) override { return io_->sync(file); }

  Result<std::string> content(const std::string& name) override { return io_->content(name); }

  Result<void> replace(const std::string& name, std::string_view text) override {
    return io_->replace(name, text);
  }

 private:
  const std::shared_ptr<transport::FileIo> io_;
};

}  // namespace shoal::testing
