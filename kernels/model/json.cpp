// Parses the JSON files of a model directory; simdjson's errors end here.
#include "kernels/model/json.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace shoal::kernels {

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name_for_errors) {
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  const auto error = document.parser_->parse(text.data(), text.size()).get(document.root_);
  if (error != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured, std::string(name_for_errors) + ": not valid JSON (" +
                                          simdjson::error_message(error) + "): restore the file");
  }
  return document;
}

Result<JsonDocument> JsonDocument::read(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // An empty file sets failbit on `text` as well; the parser reports that case better.
  if (!in || (!(text << in.rdbuf()) && in.bad())) {
    return fail(Code::kMisconfigured,
                path.string() + ": cannot read (" + std::generic_category().message(errno) +
                    "): pass a model directory that holds this file");
  }
  return parse(text.view(), path.string());
}

}  // namespace shoal::kernels
