// Options, events and counters: what an operator sees.
#include "actors/config.h"

#include <array>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "actors/log.h"

using namespace shoal;

namespace {

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("shoal_config_test_" + std::to_string(::getpid()) + ".txtpb")) {
    std::ofstream(path_) << text;
  }

  ~ConfigFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("deploy/defaults.txtpb equals the defaults") {
  std::ifstream file(std::string(SHOAL_MODELS_DIR) + "/../defaults.txtpb");
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == default_config_file());
}

TEST_CASE("the file of all defaults is read and changes nothing") {
  const ConfigFile file(default_config_file());
  ConfigSources sources;
  REQUIRE(read_config_file(file.path(), sources).has_value());
  CHECK(sources.config.http().port() == Config().http().port());
  CHECK(sources.config.prefill().cost().token_ps() == Config().prefill().cost().token_ps());
  CHECK(validate(sources.config).has_value());
}

TEST_CASE("the defaults are valid") {
  CHECK(validate(Config()).has_value());
}

TEST_CASE("a value knows where it came from") {
  const ConfigFile file("http { port: 9000 }");
  ConfigSources sources;
  REQUIRE(read_config_file(file.path(), sources).has_value());
  REQUIRE(set_option("log.level", "debug", "--log-level", sources).has_value());
  const std::string text = describe_config(sources);
  CHECK(text.find("http.port = 9000  (" + file.path().string() + ")") != std::string::npos);
  CHECK(text.find("log.level = \"debug\"  (--log-level)") != std::string::npos);
  CHECK(text.find("kv.sequences = 64  (default)") != std::string::npos);
}

TEST_CASE("a flag wins over a file") {
  const ConfigFile file("http { port: 9000 }");
  ConfigSources sources;
  REQUIRE(read_config_file(file.path(), sources).has_value());
  REQUIRE(set_option("http.port", "9001", "--port", sources).has_value());
  CHECK(sources.config.http().port() == 9001);
  CHECK(sources.origin.at("http.port") == "--port");
}

TEST_CASE("an unknown name in a file is refused and the nearest one named") {
  const ConfigFile file("http {\n  prot: 1\n}");
  ConfigSources sources;
  const auto read = read_config_file(file.path(), sources);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == Code::kMisconfigured);
  CHECK(read.error().message.find(file.path().string() + ":2") != std::string::npos);
  CHECK(read.error().message.find("Did you mean \"port\"?") != std::string::npos);
}

TEST_CASE("an unknown option name is refused and the nearest one named") {
  ConfigSources sources;
  const auto set = set_option("prefil.quota_us", "1", "--set", sources);
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().message.find("prefill.quota_us") != std::string::npos);
}

TEST_CASE("a name unlike every known one gets no guess") {
  ConfigSources sources;
  const auto set = set_option("a", "b", "--set", sources);
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().message == "--set: there is no option \"a\", see `shoal config`");
  CHECK(nearest_name("serv", {"serve", "chat"}) == "serve");
  CHECK(nearest_name("ab", {"abcd"}) == "abcd");
  CHECK(nearest_name("a", {"abcd"}) == std::nullopt);
  CHECK(nearest_name("a", {}) == std::nullopt);
}

TEST_CASE("a wrong value in a file is named with its place, tabs and line ends in between") {
  for (const auto& [text, place, name] : std::vector<std::array<std::string, 3>>{
           {"http { port: \"many\" }", ":1:14: ", "port: Expected integer"},
           {"kv { blocks: 1 }\nhttp {\n\tport :\n\t\"many\"\n}",
            ":4:9: ",
            "port: Expected integer"},
           {"http {\tport:\tmany }", ":1:17: ", "port: Expected integer"},
           {"http { port: 99999999999 }", ":1:14: ", "port: Integer out of range"},
           {"log { level: }", ":1:14: ", "level: Expected string"}}) {
    CAPTURE(text);
    const ConfigFile file(text);
    ConfigSources sources;
    const auto read = read_config_file(file.path(), sources);
    REQUIRE_FALSE(read.has_value());
    CHECK_MESSAGE(read.error().message.starts_with(file.path().string() + place + name),
                  read.error().message);
  }
}

TEST_CASE("a context that holds no answer is blamed on model.max_model_len") {
  ConfigSources sources;
  REQUIRE(set_option("model.max_model_len", "1", "--max-model-len", sources).has_value());
  const auto verdict = validate(sources.config);
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().message.starts_with("model.max_model_len: 1 "));
  REQUIRE(set_option("model.max_model_len", "2", "--max-model-len", sources).has_value());
  CHECK(validate(sources.config).has_value());
}

TEST_CASE("values outside their range or choice are refused by name") {
  ConfigSources sources;
  REQUIRE(set_option("http.port", "70000", "--port", sources).has_value());
  auto verdict = validate(sources.config);
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().message.find("http.port: 70000") != std::string::npos);
  sources = {};
  REQUIRE(set_option("model.replay", "sloppy", "--replay", sources).has_value());
  verdict = validate(sources.config);
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().message.find("bounded, exact") != std::string::npos);
}

TEST_CASE("the bounds of an option are its range or choices and its default, where it has them") {
  CHECK(option_bounds("http.port") == "0 .. 65535, default 8000");
  CHECK(option_bounds("model.replay") == "bounded, exact, default \"bounded\"");
  CHECK(option_bounds("http.host") == "default \"127.0.0.1\"");
  CHECK(option_bounds("kv.dir").empty());
}

TEST_CASE("autoscale times beyond what is remembered are refused with the limit") {
  ConfigSources sources;
  REQUIRE(set_option("autoscale.outage_ms", "86400001", "--set", sources).has_value());
  const auto verdict = validate(sources.config);
  REQUIRE_FALSE(verdict.has_value());
  CHECK(verdict.error().message ==
        "autoscale.outage_ms: 86400001 is more than 1440 times autoscale.bucket_ms, at most "
        "86400000 with that");
  REQUIRE(set_option("autoscale.outage_ms", "86400000", "--set", sources).has_value());
  CHECK(validate(sources.config).has_value());
  REQUIRE(set_option("autoscale.bucket_ms", "1000", "--set", sources).has_value());
  CHECK_FALSE(validate(sources.config).has_value());
}

TEST_CASE("a value that is no number is refused under its option's name") {
  ConfigSources sources;
  const auto set = set_option("decode.max_batch", "abc", "--set", sources);
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().message ==
        "decode.max_batch: \"abc\" is not a whole number of 1 .. 4096 (--set)");
  CHECK_FALSE(set_option("http.port", "80x", "--port", sources).has_value());
}

TEST_CASE("a file that cannot be read is named") {
  ConfigSources sources;
  const auto read = read_config_file("/no/such/file.txtpb", sources);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message.find("/no/such/file.txtpb") != std::string::npos);
}

TEST_CASE("what is no configuration file is refused by its path and never read") {
  const ConfigFile file("# " + std::string((1 << 20) - 1, 'x'));
  const std::string directory = std::filesystem::temp_directory_path().string();
  for (const auto& [path, why] :
       std::vector<std::array<std::string, 2>>{{directory, ": is a directory"},
                                               {"/dev/zero", ": is not a regular file"},
                                               {file.path().string(), ": is larger than 1 MiB"}}) {
    ConfigSources sources;
    const auto read = read_config_file(path, sources);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == Code::kMisconfigured);
    CHECK_MESSAGE(read.error().message.starts_with(path + why), read.error().message);
  }
  std::filesystem::resize_file(file.path(), 1 << 20);
  ConfigSources sources;
  CHECK(read_config_file(file.path(), sources).has_value());
}

TEST_CASE("an event is one line of name and fields, and text cannot forge another") {
  std::vector<std::string> lines;
  const EventLog log(LogLevel::kInfo,
                     [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); });
  log.event(LogLevel::kInfo,
            "request.placed",
            {{"request", RequestId{7}}, {"rank", 2}, {"reason", "it said \"no\"\nand left"}});
  log.event(LogLevel::kDebug, "request.quiet", {});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "request.placed request=7 rank=2 reason=\"it said \\\"no\\\" and left\"");
}
