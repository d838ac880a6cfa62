// The parser's first complaint is the one that is told, made more helpful.
#include "actors/text_format.h"

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "actors/config.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::uintmax_t kLargestFile = 1 << 20;  // bytes; every option with its help is 4 KiB

// Where a line and column of the parser, from 0, are in the text.
std::size_t offset_of(std::string_view text, int line, int column) {
  constexpr int kTab = 8;  // a tab takes the parser's column to the next multiple
  std::size_t at = 0;
  for (; line > 0 && at < text.size(); ++at) {
    line -= text[at] == '\n' ? 1 : 0;
  }
  for (int passed = 0; passed < column && at < text.size(); ++at) {
    passed += text[at] == '\t' ? kTab - passed % kTab : 1;
  }
  return at;
}

// The name whose value comes next, when `text` ends with "NAME:"; otherwise empty.
std::string_view name_before_value(std::string_view text) {
  const auto colon = text.find_last_not_of(" \t\r\n");
  if (colon == std::string_view::npos || text[colon] != ':') {
    return {};
  }
  text = text.substr(0, colon);
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const auto outside = text.find_last_not_of("abcdefghijklmnopqrstuvwxyz_0123456789");
  return outside == std::string_view::npos ? text : text.substr(outside + 1);
}

// The text in quotes behind `mark`.
std::optional<std::string> quoted_after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const auto begin = at + mark.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

// Keeps the first complaint of the parser, with the name whose value is wrong and the nearest known
// name when a name is unknown.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(std::string file,
             std::string_view content,
             const TextFileKind& kind,
             const Descriptor& type)
      : file_(std::move(file)),
        content_(content),
        kind_(kind),
        type_(type) {}

  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) {
      const std::string name(
          name_before_value(content_.substr(0, offset_of(content_, line, column))));
      text_ = file_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " +
              (name.empty() ? "" : name + ": ") + message + hint(message);
    }
  }

  void AddWarning(int, int, const std::string&) override {}

  const std::string& text() const { return text_; }

 private:
  // The parser says: Message type "shoal.config.Http" has no field named "prot".
  // Or: Unknown enumeration value of "decoder" for field "role".
  std::string hint(const std::string& message) const {
    if (const auto word = quoted_after(message, "has no field named \"")) {
      const Descriptor* type = type_.file()->pool()->FindMessageTypeByName(
          quoted_after(message, "Message type \"").value_or(""));
      std::vector<std::string> known;
      for (int i = 0; type != nullptr && i < type->field_count(); ++i) {
        known.push_back(type->field(i)->name());
      }
      return nearest(*word, known);
    }
    if (const auto word = quoted_after(message, "Unknown enumeration value of \"")) {
      return nearest(*word, values_of(quoted_after(message, "for field \"").value_or("")));
    }
    return "";
  }

  std::string nearest(const std::string& word, const std::vector<std::string>& known) const {
    const auto nearest = nearest_name(word, known);
    return " " + (nearest ? "Did you mean \"" + *nearest + "\"?" : std::string(kind_.hint));
  }

  // Of the enumerations that fields of this name have.
  std::vector<std::string> values_of(const std::string& field_name) const {
    std::vector<std::string> values;
    for (int t = 0; t < type_.file()->message_type_count(); ++t) {
      const FieldDescriptor* field = type_.file()->message_type(t)->FindFieldByName(field_name);
      if (field == nullptr || field->enum_type() == nullptr) {
        continue;
      }
      for (int v = 0; v < field->enum_type()->value_count(); ++v) {
        values.push_back(field->enum_type()->value(v)->name());
      }
    }
    return values;
  }

  std::string file_;
  std::string_view content_;
  const TextFileKind& kind_;
  const Descriptor& type_;
  std::string text_;
};

// Looks before it opens: a pipe or a device could block or never end.
Result<std::string> read_text(const std::filesystem::path& file, std::string_view kind) {
  const auto refuse = [&file](const std::string& why) {
    return fail(Code::kMisconfigured, file.string() + ": " + why);
  };
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return refuse(std::string(std::filesystem::is_directory(status) ? "is a directory"
                                                                    : "is not a regular file") +
                  ", give a " + std::string(kind));
  }
  std::ifstream stream(file);
  if (failed || !stream) {
    return refuse("cannot be read; check the path and its permissions");
  }
  if (std::filesystem::file_size(file, failed) > kLargestFile || failed) {
    return refuse("is larger than 1 MiB, which no " + std::string(kind) + " is");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

}  // namespace

Result<void> read_text_format(const std::filesystem::path& file,
                              const TextFileKind& kind,
                              Message& into) {
  TRY(const std::string text, read_text(file, kind.name));
  FirstError error(file.string(), text, kind, *into.GetDescriptor());
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &into)) {
    return fail(Code::kMisconfigured, error.text());
  }
  return {};
}

}  // namespace shoal
