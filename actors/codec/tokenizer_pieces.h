// Finds where the pre-tokenizer of the DeepSeek family cuts text; merges never cross such a cut.
#pragma once

namespace shoal {

// End of the first piece of [begin, end), which is not empty. Pieces need no context before them,
// so calling this again at the end of each piece gives all of them. Written for valid UTF-8; reads
// nothing outside the range whatever the bytes are.
//
// The patterns, each one cutting only inside the pieces the one before left:
//   1. \p{N}{1,3}
//   2. [U+4E00-9FA5 U+3040-30FF]+
//   3. [ASCII sign][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ | ' '?[\p{P}\p{S}]+[\r\n]* |
//   \s*[\r\n]+ | \s+(?!\S) | \s+
// What none of them matches is one piece per run.
const char* piece_end(const char* begin, const char* end);

}  // namespace shoal
