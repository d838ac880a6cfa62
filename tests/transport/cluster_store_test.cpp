// What every row of the cluster store promises, and what each alone has to.
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "tests/kernels/temp_directory.h"
#include "tests/transport/step_scheduler.h"
#include "tests/transport/waits.h"
#include "transport/registry.h"
#include "transport/sim/sim_store.h"
#include "transport/thread_scheduler.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using shoal::test::TempDirectory;
using transport::ClusterRecord;
using transport::ClusterStore;
using Version = std::optional<std::uint64_t>;

Result<ClusterRecord> read(ClusterStore& store) {
  Inbox<Result<ClusterRecord>> answers;
  store.read(later(), [&](Result<ClusterRecord> record) { answers.put(std::move(record)); });
  return answers.wait(1).at(0);
}

Result<Version> swap(ClusterStore& store, std::uint64_t expected, std::string bytes) {
  Inbox<Result<Version>> answers;
  store.compare_and_swap(expected, std::move(bytes), later(), [&](Result<Version> version) {
    answers.put(std::move(version));
  });
  return answers.wait(1).at(0);
}

class EmbeddedRow {
 public:
  std::unique_ptr<ClusterStore> open() {
    auto store = transport::open_cluster_store("embedded", directory_.path() / "state", clock_now);
    REQUIRE(store.has_value());
    return *std::move(store);
  }

 private:
  TempDirectory directory_;
};

class SimRow {
 public:
  std::unique_ptr<ClusterStore> open() {
    return transport::make_sim_store({record_, scheduler_.port(), nullptr});
  }

 private:
  transport::ThreadScheduler scheduler_{clock_now};
  std::shared_ptr<transport::SimRecord> record_ = std::make_shared<transport::SimRecord>();
};

const std::filesystem::path kRecord = "cluster.record";

// A state directory in which a record was written.
struct Written {
  TempDirectory directory;

  Written() {
    auto store = transport::open_cluster_store("embedded", directory.path(), clock_now);
    REQUIRE(store.has_value());
    REQUIRE(swap(**store, 0, "members: 1 2 3").has_value());
  }

  std::string content() const {
    std::ifstream in(directory.path() / kRecord, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Result<ClusterRecord> read_again() const {
    auto store = transport::open_cluster_store("embedded", directory.path(), clock_now);
    REQUIRE(store.has_value());
    return read(**store);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a record begins empty and takes a write of the version expected",
                   Row,
                   EmbeddedRow,
                   SimRow) {
  Row row;
  const auto store = row.open();
  CHECK(read(*store)->version == 0);
  CHECK(read(*store)->bytes.empty());
  CHECK(swap(*store, 5, "early").value() == Version());
  CHECK(swap(*store, 0, "one").value() == Version(1));
  CHECK(swap(*store, 0, "late").value() == Version());
  CHECK(swap(*store, 1, std::string("t\0wo", 4)).value() == Version(2));
  CHECK(read(*store)->version == 2);
  CHECK(read(*store)->bytes == std::string("t\0wo", 4));
}

TEST_CASE_TEMPLATE("of writers of one version one wins", Row, EmbeddedRow, SimRow) {
  Row row;
  const auto store = row.open();
  for (std::uint64_t version = 0; version < 5; ++version) {
    Inbox<Result<Version>> answers;
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&, i] {
        store->compare_and_swap(version, std::to_string(i), later(), [&](Result<Version> result) {
          answers.put(std::move(result));
        });
      });
    }
    for (std::thread& writer : writers) {
      writer.join();
    }
    int winners = 0;
    for (const auto& answer : answers.wait(4)) {
      REQUIRE(answer.has_value());
      winners += answer->has_value();
    }
    CHECK(winners == 1);
    CHECK(read(*store)->version == version + 1);
  }
}

TEST_CASE_TEMPLATE("a record survives its store", Row, EmbeddedRow, SimRow) {
  Row row;
  CHECK(swap(*row.open(), 0, "kept").value() == Version(1));
  const auto again = row.open();
  CHECK(read(*again)->bytes == "kept");
  CHECK(swap(*again, 1, "next").value() == Version(2));
}

TEST_CASE_TEMPLATE("a store that is closed answers what it was asked, once",
                   Row,
                   EmbeddedRow,
                   SimRow) {
  Row row;
  Inbox<bool> answers;
  for (int i = 0; i < 20; ++i) {
    const auto store = row.open();
    store->read(later(), [&](const Result<ClusterRecord>& record) {
      answers.put(record || record.error().code == Code::kUnavailable);
    });
  }
  CHECK(answers.wait(20) == std::vector<bool>(20, true));
}

TEST_CASE("a torn or foreign file is corrupt, by name, at every byte") {
  const Written written;
  const std::string content = written.content();
  std::vector<std::string> broken = {"", "not a record at all, but long enough to hold a header"};
  for (std::size_t size = 0; size < content.size(); size += 5) {
    broken.push_back(content.substr(0, size));
  }
  for (std::size_t at = 0; at < content.size(); at += 3) {
    broken.push_back(content);
    broken.back()[at] ^= 4;
  }
  broken.push_back(content + "x");
  for (const std::string& bytes : broken) {
    written.directory.write(kRecord, bytes);
    const auto record = written.read_again();
    REQUIRE(!record.has_value());
    CHECK(record.error().code == Code::kCorrupt);
    CHECK(record.error().message.find(kRecord) != std::string::npos);
  }
  written.directory.write(kRecord, content);
  CHECK(written.read_again()->bytes == "members: 1 2 3");
}

TEST_CASE("a corrupt file is not written over") {
  const Written written;
  written.directory.write(kRecord, "torn");
  auto store = transport::open_cluster_store("embedded", written.directory.path(), clock_now);
  REQUIRE(store.has_value());
  CHECK(swap(**store, 0, "new").error().code == Code::kCorrupt);
  CHECK(written.content() == "torn");
}

TEST_CASE("what a write that was cut short left behind does not matter") {
  const Written written;
  written.directory.write("cluster.record.new", "half a rec");
  CHECK(written.read_again()->version == 1);
  auto store = transport::open_cluster_store("embedded", written.directory.path(), clock_now);
  REQUIRE(store.has_value());
  CHECK(swap(**store, 1, "next").value() == Version(2));
  CHECK(read(**store)->bytes == "next");
}

TEST_CASE("one process at a time has a state directory") {
  const TempDirectory directory;
  auto first = transport::open_cluster_store("embedded", directory.path(), clock_now);
  REQUIRE(first.has_value());
  const auto second = transport::open_cluster_store("embedded", directory.path(), clock_now);
  REQUIRE(!second.has_value());
  CHECK(second.error().code == Code::kMisconfigured);
  CHECK(second.error().message.find(directory.path().string()) != std::string::npos);
  CHECK(second.error().message.find("process") != std::string::npos);
  first->reset();
  CHECK(transport::open_cluster_store("embedded", directory.path(), clock_now).has_value());
}

TEST_CASE("a state directory that cannot be is named") {
  const TempDirectory directory;
  directory.write("file", "");
  const auto store =
      transport::open_cluster_store("embedded", directory.path() / "file" / "state", clock_now);
  REQUIRE(!store.has_value());
  CHECK(store.error().code == Code::kMisconfigured);
  CHECK(store.error().message.find("file/state") != std::string::npos);
  CHECK(transport::open_cluster_store("paper", directory.path(), clock_now).error().code ==
        Code::kMisconfigured);
}

TEST_CASE("a record over its ceiling is refused") {
  const TempDirectory directory;
  auto store = transport::open_cluster_store("embedded", directory.path(), clock_now);
  REQUIRE(store.has_value());
  CHECK(swap(**store, 0, std::string((4 << 20) + 1, 'x')).error().code == Code::kTooLarge);
  CHECK(swap(**store, 0, std::string(4 << 20, 'x')).value() == Version(1));
  CHECK(read(**store)->bytes.size() == 4 << 20);
}

TEST_CASE("what the simulator's hook says becomes of a call") {
  using transport::StoreFate;
  StepScheduler scheduler;
  auto record = std::make_shared<transport::SimRecord>();
  transport::StoreVerdict verdict{Nanos(10), Nanos(5)};
  const auto store =
      transport::make_sim_store({record, scheduler.port(), [&verdict](bool) { return verdict; }});
  std::vector<std::pair<Instant, Result<Version>>> answers;
  const auto ask = [&](StoreFate fate) {
    verdict.fate = fate;
    store->compare_and_swap(
        record->read().version, "x", scheduler.now() + Nanos(100), [&](Result<Version> version) {
          answers.emplace_back(scheduler.now(), std::move(version));
        });
    scheduler.run_all();
    return answers.back();
  };
  Instant begin = scheduler.now();
  CHECK(ask(StoreFate::kAnswer).second.value() == Version(1));
  CHECK(answers.back().first == begin + Nanos(15));
  CHECK(ask(StoreFate::kUnavailable).second.error().code == Code::kUnavailable);
  CHECK(record->read().version == 1);
  begin = scheduler.now();
  CHECK(ask(StoreFate::kLostCall).second.error().code == Code::kDeadline);
  CHECK(answers.back().first == begin + Nanos(100));
  CHECK(record->read().version == 1);
  CHECK(ask(StoreFate::kLostAnswer).second.error().code == Code::kDeadline);
  CHECK(record->read().version == 2);
  CHECK(answers.size() == 4);
}
