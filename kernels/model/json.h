// A parsed JSON document of the model directory; errors are one line that names the file.
#pragma once

#include <filesystem>
#include <memory>
#include <simdjson.h>
#include <string>
#include <string_view>

#include "schemas/result.h"

namespace shoal::kernels {

// The whole file. Meant for JSON: a model directory's text files are a few MB.
Result<std::string> read_text(const std::filesystem::path& path);

// Elements taken from root() are valid while the document lives; moving it does not disturb them.
class JsonDocument {
 public:
  static Result<JsonDocument> parse(std::string_view text, std::string_view name_for_errors);
  static Result<JsonDocument> read(const std::filesystem::path& path);

  simdjson::dom::element root() const { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
  simdjson::dom::element root_;
};

}  // namespace shoal::kernels
