// The golden data of the codec: DeepSeek-V4.1's tokenizer, and the lines of a JSON Lines file.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/codec/tokenizer.h"

namespace shoal {

// The text of tests/golden/codec/tokenizer/tokenizer.json.xz.
std::string golden_tokenizer_json();

// Loaded once per program; aborts the program when the file does not load.
std::shared_ptr<const Tokenizer> golden_tokenizer();

// The cases of tests/golden/codec/`name`, one a line.
std::vector<nlohmann::json> golden_codec_cases(const std::string& name);

std::string read_test_file(const std::string& path);

}  // namespace shoal
