// Where the output parser starts and what it looks for: decided by the prompt, obeyed by the stream
// decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shoal {

enum class StartState : std::uint8_t {
  kContent,             // leading newlines are the template's and are dropped
  kReasoning,           // the same
  kContentContinued,    // the answer goes on where the client's text ended: newlines stay
  kReasoningContinued,  // the same in the middle of reasoning
  kInCalls,             // the prompt already opened the block of calls
};

struct DecoderSetup {
  StartState start = StartState::kContent;
  bool thinking = false;      // reasoning tokens are counted
  bool tools = false;         // calls are parsed; off: their markup is text
  bool json = false;          // only the JSON value is shown
  bool markup = true;         // off for plain completions: nothing but stop strings is looked for
  bool keep_eos = false;      // ignore_eos: an EOS ends nothing and shows nothing
  bool track_tokens = false;  // events say which tokens carried them (log probabilities)
  std::vector<std::string> stop;

  friend bool operator==(const DecoderSetup&, const DecoderSetup&) = default;
};

}  // namespace shoal
