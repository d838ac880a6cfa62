// The alphabet in which a byte-level tokenizer.json spells bytes as printable characters.
#pragma once

#include <string>
#include <string_view>

namespace shoal {

// The one character that stands for a byte, in UTF-8.
std::string byte_level_spelling(unsigned char byte);

// The bytes a piece stands for; false when a character is outside the alphabet, and then `bytes`
// holds nothing of use.
bool read_byte_level(std::string_view spelled, std::string& bytes);

}  // namespace shoal
