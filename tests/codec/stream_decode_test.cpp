// Model output becomes the official program's events, for every cut; where the official result is
// wrong, ours is named here.
#include <doctest/doctest.h>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/chat_request.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/model_profile.h"
#include "actors/codec/stream_decoder.h"
#include "tests/codec/golden_tokenizer.h"

namespace {

using nlohmann::json;
using namespace shoal;

const Tokenizer& tokenizer() {
  return *golden_tokenizer();
}

const ModelProfile& profile() {
  static const ModelProfile model = make_profile(Generation::kV41, tokenizer()).value();
  return model;
}

DecoderSetup setup_of(const json& request) {
  const auto chat = read_chat_request(read_json(request.dump()).value(), profile());
  REQUIRE_MESSAGE(chat, chat.error().message);
  return render_chat(*chat, profile()).parse;
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

std::string reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kToolCalls:
      return "tool_calls";
    case EndReason::kContentFilter:
      return "content_filter";
    case EndReason::kAborted:
      return "aborted";
  }
  return "?";
}

EndReason reason_of(const std::string& name) {
  return name == "length" ? EndReason::kLength : EndReason::kStop;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

void push_chunk(StreamDecoder& decoder, const json& chunk, std::vector<StreamEvent>& events) {
  if (chunk.contains("text")) {
    decoder.push_text(chunk["text"].get<std::string>(), chunk["n"].get<std::uint32_t>(), events);
  } else {
    REQUIRE(decoder.push(chunk["ids"].get<std::vector<TokenId>>(), events));
  }
}

// Golden results that ours replaces by choice; the reason is the test of the same behaviour below
// or the note.
const std::map<std::string, json>& ours_instead() {
  static const std::map<std::string, json> scenarios = {
      // The official program ends a key at its first space and leaves its quote open: no client can
      // parse that.
      {"calls: unicode names",
       {{"calls",
         json::array(
             {json::array({"put", "{\"város é\": \"漢字\", \"a=b string=\\\"x\\\"\": 1}"})})}}},
      // Forced calls: text that the model wrote instead is shown, not lost.
      {"malformed: forced but text", {{"content", "just text"}}},
  };
  return scenarios;
}

json expected_of(const json& golden) {
  json expected = golden["final"];
  if (golden.contains("right"))
    expected.update(golden["right"]);
  const auto ours = ours_instead().find(golden["scenario"].get<std::string>());
  if (ours != ours_instead().end())
    expected.update(ours->second);
  return expected;
}

void check_final(const json& golden, const Answer& answer) {
  const json expected = expected_of(golden);
  const bool is_json = golden["kind"] == "json";
  CHECK(answer.reasoning == expected["reasoning"].get<std::string>());
  if (is_json) {
    CHECK(trimmed(answer.content) == trimmed(expected["content"].get<std::string>()));
  } else {
    CHECK(answer.content == expected["content"].get<std::string>());
  }
  CHECK(answer.calls_json() == expected["calls"]);
  REQUIRE(answer.end);
  if (expected["finish"] == "not tool_calls") {
    CHECK(answer.end->reason != EndReason::kToolCalls);
  } else {
    CHECK(reason_name(answer.end->reason) == expected["finish"].get<std::string>());
  }
}

Answer run(const json& golden) {
  StreamDecoder decoder(tokenizer(), profile(), setup_of(golden["request"]));
  Answer answer;
  for (const json& chunk : golden["chunks"]) {
    std::vector<StreamEvent> events;
    push_chunk(decoder, chunk, events);
    answer.add(events);
  }
  std::vector<StreamEvent> events;
  decoder.finish(reason_of(golden["finish"].get<std::string>()), events);
  answer.add(events);
  return answer;
}

// Removes what ours may hold longer than the official program: what stands before a key until the
// key's quote is there, a quote that may be part of a key, a scalar whose end shows whether it is
// JSON, and (spelled out) a tag that may end a value without its closer.
std::string without_judged_tail(std::string arguments) {
  if (arguments == "{")
    return "";
  for (const std::string tag : {"<｜DSML", "<｜DSM", "<｜DS", "<｜D", "<｜"}) {
    if (arguments.ends_with(tag))
      arguments.resize(arguments.size() - tag.size());
  }
  if (arguments.ends_with(", "))
    arguments.resize(arguments.size() - 2);
  const std::size_t value = arguments.rfind("\": ");
  if (value != arguments.npos &&
      arguments.find_first_not_of("-+.0123456789eEaflnrstu", value + 3) == arguments.npos) {
    arguments.resize(value + 3);
  }
  if (arguments.ends_with("\": "))
    arguments.resize(arguments.size() - 3);
  if (arguments.ends_with('"'))
    arguments.pop_back();
  return arguments;
}

Answer joined_step(const json& step, Answer so_far) {
  for (const json& event : step) {
    const std::string kind = event[0];
    if (kind == "r")
      so_far.reasoning += event[1].get<std::string>();
    if (kind == "c")
      so_far.content += event[1].get<std::string>();
    if (kind == "call")
      so_far.calls.emplace_back(event[2].get<std::string>(), "");
    if (kind == "args")
      so_far.calls[event[1].get<std::size_t>()].second += event[2].get<std::string>();
  }
  return so_far;
}

void check_not_later(const Answer& ours, Answer official, bool is_spelled) {
  // Spelled out, "</" after newlines is held as a whole: it may begin a tag.
  while (is_spelled && official.content.ends_with('\n'))
    official.content.pop_back();
  CHECK(ours.reasoning.size() >= official.reasoning.size());
  CHECK(ours.content.size() >= official.content.size());
  REQUIRE(ours.calls.size() >= official.calls.size());
  for (std::size_t i = 0; i < official.calls.size(); ++i) {
    const std::string earliest = without_judged_tail(official.calls[i].second);
    CAPTURE(official.calls[i].second);
    CAPTURE(ours.calls[i].second);
    CHECK(ours.calls[i].second.starts_with(earliest));
  }
}

}  // namespace

TEST_CASE("every golden answer is joined to the official result, for every cut") {
  int cases = 0;
  for (const json& golden : golden_codec_cases("stream.jsonl")) {
    ++cases;
    CAPTURE(golden["id"].get<std::string>());
    CAPTURE(golden["scenario"].get<std::string>());
    check_final(golden, run(golden));
  }
  CHECK(cases == 304);
}

TEST_CASE("text leaves no later than from the official program") {
  for (const json& golden : golden_codec_cases("stream.jsonl")) {
    // JSON mode: official spaces are no text. Results that ours replaces have no official time.
    if (golden["kind"] == "json" || golden.contains("right") ||
        ours_instead().contains(golden["scenario"].get<std::string>()))
      continue;
    CAPTURE(golden["id"].get<std::string>());
    StreamDecoder decoder(tokenizer(), profile(), setup_of(golden["request"]));
    Answer ours;
    Answer official;
    for (std::size_t i = 0; i < golden["chunks"].size(); ++i) {
      CAPTURE(i);
      std::vector<StreamEvent> events;
      push_chunk(decoder, golden["chunks"][i], events);
      ours.add(events);
      const json& step = golden["steps"][i + 1];
      if (step.is_null())
        continue;
      official = joined_step(step, official);
      check_not_later(ours, official, golden["chunks"][i].contains("text"));
      if (!step.empty() && step.back()[0] == "end")
        CHECK(ours.end);
    }
  }
}

namespace {

DecoderSetup plain_setup(StartState start = StartState::kContent) {
  DecoderSetup setup;
  setup.start = start;
  setup.thinking = start == StartState::kReasoning;
  setup.tools = true;
  return setup;
}

// `text` with control tokens by their spelling, as the model would produce it.
std::vector<TokenId> model_ids(const std::string& text) {
  return tokenizer().encode_parsed(text);
}

Answer decode(const std::string& text,
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

std::string call_block(const std::string& parameters) {
  return "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + parameters +
         "</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}

std::string parameter(const std::string& header, const std::string& value) {
  std::string out = "<｜DSML｜ parameter ";
  return out + header + ">" + value + "</｜DSML｜ parameter>\n";
}

std::string arguments_of(const std::string& parameters) {
  const Answer answer = decode(call_block(parameters), plain_setup());
  REQUIRE(answer.calls.size() == 1);
  CHECK(answer.content.empty());
  return answer.calls[0].second;
}

}  // namespace

TEST_CASE("random cuts: ids one by one or in runs, text at any character, give one result") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::map<std::string, Answer> by_ids;
  for (const json& golden : golden_codec_cases("stream.jsonl")) {
    const DecoderSetup setup = setup_of(golden["request"]);
    CAPTURE(golden["id"].get<std::string>());
    const Answer whole = run(golden);
    for (int round = 0; round < 8; ++round) {
      StreamDecoder decoder(tokenizer(), profile(), setup);
      Answer answer;
      std::vector<StreamEvent> events;
      const auto leave = [&] {
        answer.add(events);
        events.clear();
      };
      for (const json& chunk : golden["chunks"]) {
        if (chunk.contains("ids")) {
          for (const TokenId id : chunk["ids"].get<std::vector<TokenId>>()) {
            REQUIRE(decoder.push(id, events));
            if (random() % 2 == 0)
              leave();
          }
          continue;
        }
        // Text may be cut inside a character too.
        const std::string text = chunk["text"];
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t length = 1 + random() % 7;
          decoder.push_text(text.substr(at, length), 0, events);
          at += length;
          if (random() % 2 == 0)
            leave();
        }
      }
      decoder.finish(reason_of(golden["finish"]), events);
      leave();
      REQUIRE(answer.reasoning == whole.reasoning);
      REQUIRE(answer.content == whole.content);
      REQUIRE(answer.calls == whole.calls);
      REQUIRE(answer.end->reason == whole.end->reason);
    }
  }
}

TEST_CASE(
    "tokens are counted up to the one that ended the answer, whatever the cut; reasoning by the "
    "ids that carried it") {
  std::map<std::string, std::uint32_t> one_by_one;
  for (const json& golden : golden_codec_cases("stream.jsonl")) {
    if (!golden["chunks"][0].contains("ids"))
      continue;
    CAPTURE(golden["id"].get<std::string>());
    const std::string scenario = golden["scenario"];
    const Answer answer = run(golden);
    if (golden["cut"] == "ids one by one") {
      one_by_one[scenario] = golden["final"]["completion_tokens"];
      // A stray role token ends ours one token earlier.
      if (!golden.contains("right"))
        CHECK(answer.end->completion_tokens == one_by_one[scenario]);
    } else if (!golden.contains("right") && one_by_one.contains(scenario)) {
      CHECK(answer.end->completion_tokens == one_by_one[scenario]);
    }
    if (golden["final"]["reasoning_tokens"].is_null())
      continue;
    // The official program encodes the text again, so trimmed newlines and joined pieces make up to
    // 4 tokens of difference.
    const int difference = static_cast<int>(answer.end->reasoning_tokens) -
                           golden["final"]["reasoning_tokens"].get<int>();
    CHECK(std::abs(difference) <= 4);
  }
  const Answer counted = decode("\n\nI think.\n</think>ok", plain_setup(StartState::kReasoning));
  CHECK(counted.end->reasoning_tokens + 2 == counted.end->completion_tokens);
}

TEST_CASE("G15, G24: unfinished tags are text, and leave without waiting for the end") {
  CHECK(decode("a </thi", plain_setup()).content == "a </thi");
  CHECK(decode("a /think> b", plain_setup()).content == "a /think> b");
  const std::string text = "1 < 2 and a <b> tag";
  StreamDecoder decoder(tokenizer(), profile(), plain_setup());
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::vector<StreamEvent> events;
    decoder.push_text(text.substr(i, 1), 1, events);
    for (const StreamEvent& event : events)
      shown += event.text;
    REQUIRE(shown.size() + 2 > i);
  }
}

TEST_CASE("G17: a wrapper of any name is markup when a call follows, and text when none does") {
  const std::string call =
      "\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
  const Answer misspelt = decode("Ok.\n\n<｜DSML｜toolcalls>" + call, plain_setup());
  CHECK(misspelt.content == "Ok.");
  CHECK(misspelt.calls_json() == json::array({json::array({"f", "{}"})}));
  const Answer bare =
      decode("Ok.\n\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>", plain_setup());
  CHECK(bare.content == "Ok.");
  CHECK(bare.calls.size() == 1);
  CHECK(decode("a <｜DSML｜ thing>\n<b>", plain_setup()).content == "a <｜DSML｜ thing>\n<b>");
  CHECK(decode("a <｜DSML｜ thing>\n<｜DSML｜ other>", plain_setup()).content ==
        "a <｜DSML｜ thing>\n<｜DSML｜ other>");
}

TEST_CASE("G20: an empty block and stray closers show nothing, the text between them is content") {
  const Answer answer = decode(
      "<｜DSML｜ calls>\n\n</｜DSML｜ calls>\n\nNothing to do.\n</｜DSML｜ calls>", plain_setup());
  CHECK(answer.content == "Nothing to do.");
  CHECK(answer.calls.empty());
  CHECK(answer.end->reason == EndReason::kStop);
}

TEST_CASE("G21: a misspelt or missing closer does not swallow the next parameter") {
  CHECK(arguments_of("<｜DSML｜ parameter name=\"a\" string=\"true\">x</｜DSML｜ paramater>\n" +
                     parameter("name=\"b\" string=\"true\"", "y")) == R"({"a": "x", "b": "y"})");
  CHECK(arguments_of("<｜DSML｜ parameter name=\"a\" string=\"true\">x<｜DSML｜ parameter "
                     "name=\"b\" string=\"true\">y</｜DSML｜ parameter>\n") ==
        R"({"a": "x", "b": "y"})");
}

TEST_CASE("G23: a call inside reasoning ends it") {
  const Answer answer =
      decode("I should look. " + call_block(parameter("name=\"q\" string=\"true\"", "x")),
             plain_setup(StartState::kReasoning));
  CHECK(answer.reasoning == "I should look. ");
  CHECK(answer.content.empty());
  CHECK(answer.calls_json() == json::array({json::array({"f", R"({"q": "x"})"})}));
}

TEST_CASE(
    "better than the official program: attributes, names and values that it turns into broken "
    "JSON") {
  CHECK(arguments_of(parameter("name=\"a\"", "5") + parameter("name=\"b\"", "6")) ==
        R"({"a": 5, "b": 6})");
  CHECK(arguments_of(parameter("name=\"a\"", "five [5]")) == R"({"a": "five [5]"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"True\"", "x")) == R"({"a": "x"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"FALSE\"", "[1]")) == R"({"a": [1]})");
  CHECK(arguments_of(parameter("name=\"a\\b\" string=\"true\"", "x")) == R"({"a\\b": "x"})");
  CHECK(arguments_of(parameter("name=\"a\"b\" string=\"true\"", "x")) == R"({"a\"b": "x"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"false\"", "tru")) == R"({"a": "tru"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"false\"", "plain words")) ==
        R"({"a": "plain words"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"false\"", "12 apples")) ==
        R"({"a": "12 apples"})");
  CHECK(arguments_of(parameter("name=\"a\" string=\"false\"", "")) == R"({"a": ""})");
  const std::string words(400, 't');
  CHECK(arguments_of(parameter("name=\"a\" string=\"false\"", words)) ==
        "{\"a\": \"" + words + "\"}");
}

TEST_CASE("only the control token ends a value: its spelling from ordinary tokens is text") {
  std::vector<TokenId> ids = model_ids(
      "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
      "string=\"true\">see ");
  tokenizer().encode("</｜DSML｜ parameter> and </think>", ids);
  for (const TokenId id : model_ids("</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"))
    ids.push_back(id);
  StreamDecoder decoder(tokenizer(), profile(), plain_setup());
  std::vector<StreamEvent> events;
  REQUIRE(decoder.push(ids, events));
  decoder.finish(EndReason::kStop, events);
  Answer answer;
  answer.add(events);
  CHECK(answer.calls_json() ==
        json::array({json::array({"f", R"({"a": "see </｜DSML｜ parameter> and </think>"})"})}));
}

TEST_CASE(
    "better than the official program: second block, missing invoke closer, text for a forced "
    "call, unfinished calls") {
  const std::string call =
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
  CHECK(decode(call + "\n\n" + call, plain_setup()).calls.size() == 2);
  const Answer open = decode(
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n<｜DSML｜ invoke "
      "name=\"g\">\n\n</｜DSML｜ calls>",
      plain_setup());
  CHECK(open.calls_json() == json::array({json::array({"f", "{}"}), json::array({"g", "{}"})}));
  CHECK(decode("plain text", plain_setup(StartState::kInCalls)).content == "plain text");
  const Answer cut = decode(
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
      "string=\"true\">x",
      plain_setup());
  CHECK(cut.end->reason == EndReason::kStop);
}

TEST_CASE(
    "G28: stop strings are looked for in content only; the token that completed one is the last "
    "that counts") {
  DecoderSetup setup = plain_setup(StartState::kReasoning);
  setup.stop = {"END"};
  const Answer answer = decode("x END y</think>so END it goes on", setup);
  CHECK(answer.reasoning == "x END y");
  CHECK(answer.content == "so ");
  CHECK(answer.end->reason == EndReason::kStop);
  CHECK(answer.end->stop_string == 0);
  CHECK(answer.end->completion_tokens < model_ids("x END y</think>so END it goes on").size());
}

TEST_CASE(
    "G30: split characters arrive whole; a half character at the end is dropped, in the middle it "
    "is U+FFFD") {
  const std::string text = "naïve 🧑‍🚀 漢字";
  StreamDecoder decoder(tokenizer(), profile(), plain_setup());
  std::string shown;
  std::vector<StreamEvent> events;
  for (const TokenId id : tokenizer().encode(text)) {
    REQUIRE(decoder.push(id, events));
    for (const StreamEvent& event : events) {
      CHECK(event.text.find("\uFFFD") == std::string::npos);
      shown += event.text;
    }
    events.clear();
  }
  CHECK(shown == text);
  const std::vector<TokenId> halves = tokenizer().encode("𓀀");
  REQUIRE(halves.size() > 1);
  REQUIRE(decoder.push(halves[0], events));
  REQUIRE(decoder.push(tokenizer().encode("x")[0], events));
  REQUIRE(decoder.push(halves[0], events));
  decoder.finish(EndReason::kLength, events);
  REQUIRE(events.size() == 2);
  CHECK(events[0].text == "\uFFFDx");
}

TEST_CASE("G32: JSON mode shows the JSON value and nothing else, the same bytes for every cut") {
  DecoderSetup setup = plain_setup(StartState::kReasoning);
  setup.json = true;
  const std::string text = "maybe {a}?</think>Here it is:\n```json\n{\"b\": [1]}\n```\nDone.";
  const Answer answer = decode(text, setup);
  CHECK(answer.reasoning == "maybe {a}?");
  CHECK(answer.content == "{\"b\": [1]}");
}

TEST_CASE(
    "G08: an id of the vocabulary without a text is harmless, one outside it fails the request") {
  StreamDecoder decoder(tokenizer(), profile(), plain_setup());
  std::vector<StreamEvent> events;
  CHECK(decoder.push(tokenizer().vocabulary_size() - 1, events));
  for (const TokenId bad : {tokenizer().vocabulary_size(), 2'000'000'000, -1}) {
    const auto result = decoder.push(bad, events);
    REQUIRE(!result);
    CHECK(result.error().code == Code::kInternal);
  }
}

TEST_CASE("EOS ends the answer without a trace, or is skipped when the client ignores it") {
  CHECK(decode("hi<｜end▁of▁sentence｜> more", plain_setup()).content == "hi");
  DecoderSetup setup = plain_setup();
  setup.keep_eos = true;
  CHECK(decode("hi<｜end▁of▁sentence｜> more", setup).content == "hi more");
}

TEST_CASE("plain completions: no markup is looked for, only stop strings") {
  DecoderSetup setup;
  setup.markup = false;
  setup.tools = true;
  setup.stop = {"STOP"};
  CHECK(decode("\n\na</think>b\n\n<｜DSML｜ calls>", setup).content ==
        "\n\na</think>b\n\n<｜DSML｜ calls>");
  CHECK(decode("one STOP two", setup).content == "one ");
}

TEST_CASE("what is held is bounded: newlines, names, undecided tags") {
  StreamDecoder decoder(tokenizer(), profile(), plain_setup());
  std::vector<StreamEvent> events;
  decoder.push_text("x" + std::string(100'000, '\n'), 1, events);
  REQUIRE(events.size() == 1);
  CHECK(events[0].text.size() == 100'001 - AnswerMachine::kNewlinesHeldMax);
  const Answer endless = decode(
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"" + std::string(10'000, 'n'), plain_setup());
  CHECK(endless.calls.empty());
  events.clear();
  StreamDecoder tag(tokenizer(), profile(), plain_setup());
  tag.push_text("<｜DSML｜" + std::string(1'000, 't'), 1, events);
  REQUIRE(events.size() == 1);
  CHECK(events[0].text == "<｜DSML｜" + std::string(1'000, 't'));
}

TEST_CASE("tracked tokens: each shown text names the tokens that carried it, markup names none") {
  DecoderSetup setup = plain_setup(StartState::kReasoning);
  setup.track_tokens = true;
  StreamDecoder decoder(tokenizer(), profile(), setup);
  std::vector<std::vector<std::uint32_t>> claimed;
  for (const TokenId id : model_ids("hm</think>é𓀀")) {
    std::vector<StreamEvent> events;
    REQUIRE(decoder.push(id, events));
    for (const StreamEvent& event : events)
      claimed.push_back(event.tokens);
  }
  REQUIRE(claimed.size() == 3);
  CHECK(claimed[0] == std::vector<std::uint32_t>{0});
  CHECK(claimed[1] == std::vector<std::uint32_t>{2});
  CHECK(claimed[2].size() == model_ids("𓀀").size());
}
