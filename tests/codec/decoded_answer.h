// What the tests of the stream decoder share: the golden model, and an answer as a client joins it.
#pragma once

#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/codec/model_profile.h"
#include "actors/codec/stream_decoder.h"
#include "tests/codec/golden_tokenizer.h"

namespace shoal {

using nlohmann::json;

inline const Tokenizer& tokenizer() {
  return *golden_tokenizer();
}

inline const ModelProfile& profile() {
  static const ModelProfile model = make_profile(Generation::kV41, tokenizer()).value();
  return model;
}

// What a client has after joining the events so far.
struct Answer {
  std::string reasoning;
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;
  std::optional<StreamEvent> end;

  void add(const std::vector<StreamEvent>& events) {
    for (const StreamEvent& event : events) {
      REQUIRE(!end);
      switch (event.kind) {
        case StreamEvent::Kind::kReasoning:
          reasoning += event.text;
          break;
        case StreamEvent::Kind::kContent:
          content += event.text;
          break;
        case StreamEvent::Kind::kCallBegin:
          REQUIRE(event.call == static_cast<int>(calls.size()));
          calls.emplace_back(event.text, "");
          break;
        case StreamEvent::Kind::kCallArguments:
          calls.at(static_cast<std::size_t>(event.call)).second += event.text;
          break;
        case StreamEvent::Kind::kEnd:
          end = event;
          break;
      }
    }
  }

  json calls_json() const {
    json out = json::array();
    for (const auto& [name, arguments] : calls)
      out.push_back({name, arguments});
    return out;
  }
};

inline DecoderSetup plain_setup(StartState start = StartState::kContent) {
  DecoderSetup setup;
  setup.start = start;
  setup.thinking = start == StartState::kReasoning;
  setup.tools = true;
  return setup;
}

// `text` with control tokens by their spelling, as the model would produce it.
inline std::vector<TokenId> model_ids(const std::string& text) {
  return tokenizer().encode_parsed(text);
}

inline Answer decode(const std::string& text,
              const DecoderSetup& setup,
              EndReason reason = EndReason::kStop) {
  StreamDecoder decoder(tokenizer(), profile(), setup);
  std::vector<StreamEvent> events;
  REQUIRE(decoder.push(model_ids(text), events));
  decoder.finish(reason, events);
  Answer answer;
  answer.add(events);
  return answer;
}

}  // namespace shoal
