// A chat request as the text the model was trained on, with the byte ranges that are control
// tokens.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/codec/chat_request.h"
#include "actors/codec/decoder_setup.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/tokenizer.h"
#include "schemas/ids.h"

namespace shoal {

struct ControlRange {
  std::size_t first = 0;  // bytes of text
  std::size_t end = 0;
  TokenId id = 0;

  friend bool operator==(const ControlRange&, const ControlRange&) = default;
};

struct RenderedPrompt {
  std::string text;
  std::vector<ControlRange> control;  // ascending, disjoint; only the template and images make
                                      // them, and grounding spellings in what the assistant wrote
  std::vector<ImageSource> images;  // in placeholder order
  DecoderSetup parse;
};

RenderedPrompt render_chat(const ChatRequest& request,
                           const ModelProfile& profile,
                           const ChatOptions& options = {});

// Each control range becomes its id; all text between two ranges is encoded as one plain piece, so
// that spellings in it stay text and no merge is lost at the seams of the template.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const RenderedPrompt& prompt);

}  // namespace shoal
