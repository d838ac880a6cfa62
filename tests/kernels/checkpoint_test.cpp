// Safetensors files and model directories: what is read, and what is refused with which words.
#include "kernels/model/checkpoint.h"

#include <cstring>
#include <doctest/doctest.h>
#include <string>

#include "tests/kernels/sparse_checkpoint.h"
#include "tests/kernels/temp_directory.h"

using namespace shoal;
using namespace shoal::kernels;
using shoal::test::TempDirectory;

namespace {

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(data_bytes, '\0');
}

std::string entry(const std::string& name,
                  const std::string& dtype,
                  const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

const std::string kGood = "{" + entry("a", "BF16", "[2,3]", "[0,12]") + "}";

}  // namespace

TEST_CASE("names, dtypes, shapes and bytes come out as written") {
  const TempDirectory directory;
  std::string file =
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + entry("a", "F32", "[2]", "[0,8]") + "," +
                  entry("scalar", "U8", "[]", "[8,9]") + "," +
                  entry("none", "I64", "[0,7]", "[9,9]") + "}  ",
              9);
  file.back() = 'x';
  const auto opened = SafetensorsFile::open(directory.write("m.safetensors", file));
  REQUIRE(opened.has_value());
  CHECK(opened->tensors().size() == 3);
  CHECK(opened->bytes() == static_cast<std::int64_t>(file.size()));
  const Tensor* a = opened->find("a");
  REQUIRE(a != nullptr);
  CHECK(a->dtype == Dtype::kF32);
  CHECK(a->shape == std::vector<std::int64_t>{2});
  CHECK(a->bytes.size() == 8);
  REQUIRE(opened->find("scalar") != nullptr);
  CHECK(opened->find("scalar")->elements() == 1);
  CHECK(opened->find("scalar")->bytes[0] == std::byte{'x'});
  CHECK(opened->find("none")->elements() == 0);
  CHECK(opened->find("b") == nullptr);
}

TEST_CASE("a broken safetensors file is refused with its name and the reason") {
  struct Case {
    std::string content;
    const char* reason;
  };

  std::string huge_length = file_of(kGood, 12);
  huge_length[4] = 1;  // 4 GB of header
  std::string long_length = file_of(kGood, 12);
  long_length[2] = 1;  // 64 KB of header
  const std::string two = entry("a", "U8", "[1]", "[0,1]") + "," + entry("a", "U8", "[1]", "[1,2]");
  const Case cases[] = {
      {"", "it is empty"},
      {"<html>404", "not a safetensors file"},
      {"abc", "not a safetensors file"},
      {huge_length, "not a safetensors file"},
      {long_length, "truncated"},
      {file_of("{\"a\":", 12), "not valid JSON"},
      {file_of("[1, 2]", 12), "not a safetensors file"},
      {file_of(kGood, 11), "tensor a ends 1 bytes behind the end of the file"},
      {file_of("{" + two + "}", 2), "tensor a is named twice"},
      {file_of("{\"a\":3}", 0), "tensor a has no dtype"},
      {file_of("{" + entry("a", "F8_E5M9", "[1]", "[0,1]") + "}", 1), "unknown dtype F8_E5M9"},
      {file_of("{" + entry("a", "U8", "3", "[0,1]") + "}", 1), "has no shape"},
      {file_of("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", 1), "has no shape"},
      {file_of("{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1), "impossible shape"},
      {file_of("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 1),
       "impossible shape"},
      {file_of("{" + entry("a", "F64", "[4611686018427387904]", "[0,0]") + "}", 1),
       "does not fit its dtype and shape"},
      {file_of("{" + entry("a", "U8", "[1]", "[1,0]") + "}", 1), "no valid data_offsets"},
      {file_of("{" + entry("a", "U8", "[1]", "[-1,0]") + "}", 1), "no valid data_offsets"},
      {file_of("{" + entry("a", "U8", "[1]", "[0]") + "}", 1), "no valid data_offsets"},
      {file_of("{" + entry("a", "BF16", "[2,3]", "[0,24]") + "}", 24), "takes 24 bytes"},
  };
  const TempDirectory directory;
  for (const Case& bad : cases) {
    const auto path = directory.write("broken.safetensors", bad.content);
    const auto opened = SafetensorsFile::open(path);
    CAPTURE(bad.reason);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == Code::kMisconfigured);
    CHECK(opened.error().message.starts_with(path.string() + ": "));
    CHECK(opened.error().message.find(bad.reason) != std::string::npos);
    CHECK(opened.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a missing file and a directory in its place are refused") {
  const TempDirectory directory;
  const auto missing = SafetensorsFile::open(directory.path() / "none.safetensors");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().message.find("No such file") != std::string::npos);
  CHECK_FALSE(SafetensorsFile::open(directory.path()).has_value());
}

TEST_CASE("without an index every file of the directory is read, with one only those it names") {
  const TempDirectory directory;
  test::write_sparse(directory.path() / "one.safetensors", {{"a", "U8", {3}}, {"b", "BF16", {2}}});
  test::write_sparse(directory.path() / "two.safetensors", {{"c", "F32", {4}}});
  directory.write("notes.txt", "not a checkpoint");
  std::int64_t last = 0;
  std::int64_t total = 0;
  int calls = 0;
  const auto all = Checkpoint::open(directory.path(), [&](std::int64_t done, std::int64_t whole) {
    CHECK(done > last);
    last = done;
    total = whole;
    ++calls;
  });
  REQUIRE(all.has_value());
  CHECK(calls == 2);
  CHECK(last == total);
  CHECK((*all)->bytes() == total);
  CHECK((*all)->tensor_count() == 3);
  REQUIRE((*all)->find("c").tensor != nullptr);
  CHECK((*all)->find("c").file->filename() == "two.safetensors");
  CHECK((*all)->find("d").tensor == nullptr);

  directory.write("model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors"}})");
  const auto indexed = Checkpoint::open(directory.path());
  REQUIRE(indexed.has_value());
  CHECK((*indexed)->find("a").tensor != nullptr);
  CHECK((*indexed)->find("c").tensor == nullptr);
}

TEST_CASE("a model directory that is not whole is refused in one line that names the culprit") {
  const TempDirectory directory;
  const auto refused = [&](const std::string& name, std::string_view what) {
    const auto opened = Checkpoint::open(directory.path());
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == Code::kMisconfigured);
    const auto culprit = name.empty() ? directory.path() : directory.path() / name;
    CHECK(opened.error().message.starts_with(culprit.string() + ": "));
    CHECK(opened.error().message.find(what) != std::string::npos);
  };
  refused("", "holds no .safetensors file");
  test::write_sparse(directory.path() / "one.safetensors", {{"a", "U8", {3}}});
  const std::string index = "model.safetensors.index.json";
  directory.write(index, R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  refused("two.safetensors", "missing, but named by model.safetensors.index.json");
  directory.write(index, R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})");
  refused("one.safetensors", "lacks tensor b");
  directory.write(index, R"({"weight_map": {"a": "../one.safetensors"}})");
  refused(index, "weight_map.a is not a file name");
  directory.write(index, R"({"weight": 1})");
  refused(index, "has no object weight_map");
  directory.write(index, "{");
  refused(index, "not valid JSON");
  std::filesystem::remove(directory.path() / index);
  test::write_sparse(directory.path() / "two.safetensors", {{"a", "U8", {3}}});
  refused("two.safetensors", "tensor a is also in");
}

TEST_CASE("a directory that does not exist is refused") {
  const TempDirectory directory;
  const auto opened = Checkpoint::open(directory.path() / "nowhere");
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().message.find("nowhere: cannot read the model directory") !=
        std::string::npos);
}
