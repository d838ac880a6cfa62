// JSON Lines, plain or gzip; every line is checked, what is not needed is not looked at.
#include "tests/sim/trace_file.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "schemas/units.h"
#include "tests/sim/gzip_file.h"

namespace shoal::sim {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMost = 10'000'000'000;  // of any number: 115 days in ms

constexpr char kExpected[] =
    R"(a trace has one request a line, like {"arrival_ms":0,"input_tokens":300,"output_tokens":20})";

Result<std::int64_t> whole_number(const Json& line, const char* field, std::int64_t least) {
  const auto value = line.find(field);
  if (value == line.end() || !value->is_number_integer() || value->get<std::int64_t>() < least ||
      value->get<std::int64_t>() > kMost) {
    return fail(Code::kMisconfigured,
                std::string(field) + ": expected a whole number, at least " +
                    std::to_string(least) + "; " + kExpected);
  }
  return value->get<std::int64_t>();
}

Result<std::vector<BlockRun>> block_runs(const Json& line, std::int64_t input_tokens) {
  std::vector<BlockRun> runs;
  const auto blocks = line.find("blocks");
  if (blocks == line.end()) {
    return runs;
  }
  std::int64_t count = 0;
  const auto is_number = [](const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
  };
  bool well_formed = blocks->is_array();
  for (const Json& run : *blocks) {
    well_formed &= run.is_array() && run.size() == 2 && is_number(run[0]) && is_number(run[1]);
    if (!well_formed) {
      break;
    }
    runs.push_back({run[0].get<std::int64_t>(), run[1].get<std::int64_t>()});
    count += runs.back().count;
  }
  const std::int64_t full = input_tokens / kBlockTokens;
  if (!well_formed || count != full) {
    return fail(Code::kMisconfigured,
                "blocks: expected runs [first id, count] of " + std::to_string(full) +
                    " blocks in all, the full ones of " + std::to_string(kBlockTokens) +
                    " tokens in input_tokens");
  }
  return runs;
}

Result<std::vector<std::int64_t>> image_tokens(const Json& line) {
  std::vector<std::int64_t> images;
  const auto tokens = line.find("image_tokens");
  if (tokens == line.end()) {
    return images;
  }
  bool well_formed = tokens->is_array();
  for (const Json& image : *tokens) {
    well_formed &= image.is_number_unsigned() && image.get<std::uint64_t>() <= kMost;
    if (!well_formed) {
      break;
    }
    images.push_back(image.get<std::int64_t>());
  }
  if (!well_formed) {
    return fail(Code::kMisconfigured,
                "image_tokens: expected the tokens of each image, like [324]");
  }
  return images;
}

Result<TraceRequest> request_of(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) {
    return fail(Code::kMisconfigured, std::string("not a JSON object; ") + kExpected);
  }
  TraceRequest request;
  TRY(request.arrival_ms, whole_number(line, "arrival_ms", 0));
  TRY(request.input_tokens, whole_number(line, "input_tokens", 1));
  TRY(request.output_tokens, whole_number(line, "output_tokens", 0));
  if (line.contains("think_ms")) {
    TRY(request.think_ms, whole_number(line, "think_ms", 0));
  }
  if (line.contains("session")) {
    if (!line["session"].is_string()) {
      return fail(Code::kMisconfigured, "session: expected the name of a conversation");
    }
    request.session = line["session"];
  }
  if (const auto kind = line.find("kind"); kind != line.end() && kind->is_string()) {
    request.kind = *kind;
  }
  TRY(request.image_tokens, image_tokens(line));
  TRY(request.blocks, block_runs(line, request.input_tokens));
  return request;
}

}  // namespace

Result<std::vector<TraceRequest>> read_trace(const std::filesystem::path& file,
                                             std::int64_t limit) {
  TRY(std::string text, read_text(file));
  std::istringstream lines(std::move(text));
  std::vector<TraceRequest> requests;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (limit > 0 && std::ssize(requests) == limit) {
      break;
    }
    auto request = request_of(line);
    const bool is_sorted =
        !request || requests.empty() || request->arrival_ms >= requests.back().arrival_ms;
    if (!request || !is_sorted) {
      return fail(Code::kMisconfigured,
                  file.string() + ":" + std::to_string(number) + ": " +
                      (request ? "arrival_ms: expected requests in the order of their arrival"
                               : request.error().message));
    }
    requests.push_back(*std::move(request));
  }
  if (requests.empty()) {
    return fail(Code::kMisconfigured, file.string() + ": is empty; " + kExpected);
  }
  return requests;
}

}  // namespace shoal::sim
