// Reads a file in Protobuf's text format; what is wrong with it is said with file, line, name and
// the nearest known name.
#pragma once

#include <filesystem>
#include <string_view>

#include "schemas/result.h"

namespace google::protobuf {
class Message;
}

namespace shoal {

struct TextFileKind {
  std::string_view name;  // "configuration file"
  std::string_view hint;  // where to look when an unknown name resembles none
};

// A regular file of at most 1 MiB. kMisconfigured otherwise.
Result<void> read_text_format(const std::filesystem::path& file,
                              const TextFileKind& kind,
                              google::protobuf::Message& into);

}  // namespace shoal
