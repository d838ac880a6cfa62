// shoal tokenize: the ids of a text under a model's tokenizer, one JSON array per call.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "actors/codec/tokenizer.h"
#include "tools/commands.h"

namespace shoal::tools {

int run_tokenize(const TokenizeOptions& options) {
  const auto tokenizer = Tokenizer::load(std::filesystem::path(options.model) / "tokenizer.json");
  if (!tokenizer) {
    return report(tokenizer.error());
  }
  std::string text = options.text;
  if (text.empty()) {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  }
  text = replace_malformed_utf8(text);
  const std::vector<TokenId> ids =
      options.parse_special ? (*tokenizer)->encode_parsed(text) : (*tokenizer)->encode(text);
  std::string line = "[";
  for (const TokenId id : ids) {
    line += (line.size() > 1 ? "," : "") + std::to_string(id);
  }
  std::printf("%s]\n", line.c_str());
  return 0;
}

}  // namespace shoal::tools
