// The files of a store as objects of a Ceph pool.
//
// One object, the directory, has a line for every file (its omap): "file CONTENT" for small files,
// "segment BYTES" for segments, "leaving BYTES" for segments that are being removed. A segment's
// bytes are in objects NAME/0, NAME/1, ... of kStripe each: a block is one read of one or two of
// them, and an object holds dozens of blocks.
//
// Durable: Ceph acknowledges a write once every copy has it, so sync() has only to say how long the
// segment is now. No two clocks are compared: `modified` is when this process first saw the line as
// it is.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transport/file_store/file_io.h"
#include "transport/rados_store/rados_cluster.h"
#include "transport/scheduler.h"

namespace shoal::transport {

class RadosIo final : public FileIo {
 public:
  static constexpr std::uint64_t kStripe = std::uint64_t{4} << 20;

  RadosIo(std::shared_ptr<RadosCluster> cluster, Clock now)
      : cluster_(std::move(cluster)),
        now_(std::move(now)) {}

  // If there is none. kMisconfigured: a pool that cannot have one.
  Result<void> make_directory();

  std::string_view durable() const override;

  int depth() const override;

  // Also asks a cluster that is away whether it is back, and removes what somebody left half
  // removed.
  Result<std::vector<std::string>> list() override;
  // As of the last list(), if the file was there then.
  Result<Facts> facts(const std::string& name) override;
  // Does not look whether it is there: the first read does.
  Result<FilePtr> open(const std::string& name) override;
  Result<FilePtr> create(const std::string& name) override;
  Result<void> remove(const std::string& name) override;
  void read(std::span<Read> reads) override;
  Result<void> write(File& file, std::uint64_t offset, std::span<const std::byte> bytes) override;
  Result<void> truncate(File& file, std::uint64_t bytes) override;
  Result<void> sync(File& file) override;
  Result<std::string> content(const std::string& name) override;
  Result<void> replace(const std::string& name, std::string_view content) override;

 private:
  struct Line {
    std::string text;
    WallMillis since = 0;  // that this process knows it
  };

  using Lines = std::map<std::string, Line>;

  Result<std::map<std::string, std::string>> lines();
  Result<std::string> line(const std::string& name);
  Result<void> set_line(const std::string& name, const std::string& text);
  Result<void> change_segment(const std::string& name, std::uint64_t bytes);
  Result<void> remove_line(const std::string& name);
  Result<void> remove_stripes(const std::string& name, std::uint64_t from, std::uint64_t bytes);
  Facts facts_of(const Line& line) const;
  WallMillis now() const;

  const std::shared_ptr<RadosCluster> cluster_;
  const Clock now_;
  std::mutex mutex_;
  Lines known_;  // by the last list()
};

}  // namespace shoal::transport
