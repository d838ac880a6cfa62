// Odd model output, one case of public reports each: what is text, what is a call, what is held and
// for how long.
#include <string>
#include <vector>

#include "tests/codec/decoded_answer.h"

namespace {

using namespace shoal;

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
