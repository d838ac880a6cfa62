// Parses the JSON files of a model directory; simdjson's errors end here.
#include "kernels/model/json.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

namespace shoal::kernels {

Result<std::string> read_text(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text;
  bool good = file != nullptr;
  for (std::size_t got = 1; good && got > 0;) {
    constexpr std::size_t kChunk = 1 << 16;
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    got = std::fread(text.data() + before, 1, kChunk, file.get());
    text.resize(before + got);
    good = std::ferror(file.get()) == 0;
  }
  if (!good) {
    return fail(Code::kMisconfigured,
                path.string() + ": cannot read (" + std::generic_category().message(errno) +
                    "): pass a model directory that holds this file");
  }
  return text;
}

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name_for_errors) {
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  const auto error = document.parser_->parse(text.data(), text.size()).get(document.root_);
  if (error != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured,
                std::string(name_for_errors) + ": not valid JSON (" +
                    simdjson::error_message(error) + "): restore the file");
  }
  return document;
}

Result<JsonDocument> JsonDocument::read(const std::filesystem::path& path) {
  TRY(const auto text, read_text(path));
  return parse(text, path.string());
}

}  // namespace shoal::kernels
