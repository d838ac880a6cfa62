// Chat bodies become the official program's prompts, byte for byte and id for id; what it refuses
// is refused in its words.
#include <algorithm>
#include <array>
#include <cstdio>
#include <doctest/doctest.h>
#include <openssl/sha.h>
#include <random>
#include <string>
#include <vector>

#include "actors/codec/chat_renderer.h"
#include "actors/codec/chat_request.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/model_profile.h"
#include "tests/codec/golden_tokenizer.h"

namespace {

using nlohmann::json;
using namespace shoal;

const ModelProfile& profile(Generation generation = Generation::kV41) {
  static const ModelProfile v41 = make_profile(Generation::kV41, *golden_tokenizer()).value();
  static const ModelProfile v4 = make_profile(Generation::kV4, *golden_tokenizer()).value();
  return generation == Generation::kV41 ? v41 : v4;
}

struct Outcome {
  Result<ChatRequest> request;
  RenderedPrompt prompt;
};

Outcome render(const std::string& body,
               const ChatOptions& options = {},
               const ModelProfile& model = profile()) {
  auto value = read_json(body, {.repair_lone_surrogates = !options.strict_official});
  if (!value)
    return {tl::unexpected(value.error()), {}};
  Outcome out{read_chat_request(*value, model, options), {}};
  if (out.request)
    out.prompt = render_chat(*out.request, model, options);
  return out;
}

std::string error_of(const std::string& body, const ChatOptions& options = {}) {
  const Outcome out = render(body, options);
  return out.request ? "accepted" : out.request.error().message;
}

ChatOptions options_of(const json& golden) {
  ChatOptions options;
  options.strict_official = true;
  const json given = golden.value("options", json::object());
  options.default_thinking = given.value("default_thinking_mode", true);
  options.reject_missing_reasoning =
      given.value("reasoning_content_behavior", "FillEmpty") == "Reject";
  return options;
}

json parse_start(const RenderedPrompt& prompt) {
  json thinking = nullptr;
  if (prompt.parse.start == StartState::kReasoning)
    thinking = "reasoning";
  if (prompt.parse.start == StartState::kReasoningContinued)
    thinking = "reasoning_continued";
  if (prompt.parse.start == StartState::kContentContinued)
    thinking = "content_continued";
  return {{"thinking", thinking},
          {"tools", prompt.parse.tools},
          {"in_calls", prompt.parse.start == StartState::kInCalls},
          {"json", prompt.parse.json},
          {"stop", prompt.parse.stop}};
}

json images_of(const RenderedPrompt& prompt) {
  json images = json::array();
  for (const ImageSource& image : prompt.images) {
    images.push_back({{"kind", image.is_inline ? "data_url" : "url"},
                      {"detail", image.detail},
                      {"path", image.path}});
  }
  return images;
}

void check_params(const json& golden, const ChatRequest& request, const ModelProfile& model) {
  const Sampling& sampling = request.sampling;
  const json& asked = golden["max_tokens"];
  CHECK(sampling.max_tokens == (asked.is_null() ? 0 : asked.get<int>()));
  const int effective = sampling.max_tokens > 0
                            ? sampling.max_tokens
                            : default_max_tokens(model, request.thinking, request.effort);
  CHECK(effective == golden["default_max_tokens"].get<int>());
  CHECK(sampling.temperature == doctest::Approx(golden["temperature"].get<double>()));
  CHECK(sampling.top_p == doctest::Approx(golden["top_p"].get<double>()));
  CHECK(sampling.has_seed == golden.contains("seed"));
  if (golden.contains("seed"))
    CHECK(sampling.seed == golden["seed"].get<std::uint64_t>());
  CHECK(request.stream == golden.value("stream", false));
  CHECK((sampling.logprobs >= 0) == golden.value("logprobs", false));
  if (golden.contains("top_logprobs"))
    CHECK(sampling.logprobs == golden["top_logprobs"].get<int>());
}

void check_rendered(const json& golden, const Outcome& out, const ModelProfile& model) {
  REQUIRE_MESSAGE(out.request, out.request.error().message);
  CHECK(out.prompt.text == golden["prompt"].get<std::string>());
  json control = json::array();
  for (const ControlRange& range : out.prompt.control)
    control.push_back({range.first, range.end, range.id});
  CHECK(control == golden["control"]);
  CHECK(encode_prompt(*golden_tokenizer(), out.prompt) ==
        golden["ids"].get<std::vector<TokenId>>());
  CHECK(parse_start(out.prompt) == golden["parse"]);
  CHECK(images_of(out.prompt) == golden.value("images", json::array()));
  check_params(golden["params"], *out.request, model);
}

std::string chat_body(const std::string& messages,
                      const std::string& more = R"(,"thinking":{"type":"disabled"})") {
  return R"({"model":"m","messages":[)" + messages + "]" + more + "}";
}

std::string user(const std::string& text) {
  return R"({"role":"user","content":)" + json(text).dump() + "}";
}

std::vector<TokenId> ids_of(const std::string& body) {
  const Outcome out = render(body);
  REQUIRE(out.request);
  return encode_prompt(*golden_tokenizer(), out.prompt);
}

constexpr const char* kClock =
    R"(,"tools":[{"type":"function","function":{"name":"clock","description":"Local time — ville","parameters":{"type":"object","properties":{"city":{"type":"string"},"h24":{"type":"boolean"}},"required":["city"]}}}])";

}  // namespace

TEST_CASE(
    "every golden chat body gives the official prompt, ids, parameters and parser start, or its "
    "refusal") {
  int cases = 0;
  for (const json& golden : golden_codec_cases("render.jsonl")) {
    if (golden["dialect"] != "chat")
      continue;
    ++cases;
    CAPTURE(golden["id"].get<std::string>());
    const ModelProfile& model =
        profile(golden["kind"] == "v4" ? Generation::kV4 : Generation::kV41);
    const Outcome out = render(golden["body"].get<std::string>(), options_of(golden), model);
    if (!golden.contains("error")) {
      check_rendered(golden, out, model);
      continue;
    }
    REQUIRE(!out.request);
    CHECK(out.request.error().code == Code::kInvalid);
    if (golden["error"]["stage"] == "convert") {
      CHECK(out.request.error().message ==
            golden["error"]["body"]["error"]["message"].get<std::string>());
    }
  }
  CHECK(cases == 270);
}

namespace {

std::string sha256_head(const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (int i = 0; i < 8; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", digest[static_cast<std::size_t>(i)]);
    hex += two;
  }
  return hex;
}

struct Worked {
  const char* name;
  std::string messages;
  std::string more;
  std::size_t bytes;
  const char* hash;
};

}  // namespace

TEST_CASE("the worked examples E1 to E9 are rendered byte for byte") {
  const std::string off = R"(,"thinking":{"type":"disabled"})";
  const std::string history =
      user("Time in Oslo and Lima?") +
      R"(,{"role":"assistant","reasoning_content":"Need two calls.","content":"Checking.","tool_calls":[)"
      R"({"id":"1","type":"function","function":{"name":"clock","arguments":"{\"city\": \"Oslo\", \"h24\": true}"}},)"
      R"({"id":"2","type":"function","function":{"name":"clock","arguments":"{\"city\": \"Lima\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"14:02"},{"role":"tool","tool_call_id":"2","content":"8:02"},)" +
      user("Thanks, compare them");
  const std::vector<Worked> examples = {
      {"E1", user("Hi"), off, 68, "43a8b16635804295"},
      {"E2", user("Hi"), "", 172, "41e136346aced970"},
      {"E3",
       R"({"role":"system","content":"Be brief."},)" + user("Hi"),
       R"(,"reasoning_effort":"max")",
       182,
       "ba262df461a74ccf"},
      {"E4", user("Time in Oslo?"), off + kClock, 1262, "ffcb335fadbe8617"},
      {"E5", history, kClock, 1919, "3276d80073bc81a9"},
      {"E6",
       user("q1") + R"(,{"role":"assistant","reasoning_content":"r","content":"a1"},)" + user("q2"),
       R"(,"reasoning_effort":"low")",
       240,
       "543fc7a87df22499"},
      {"E7",
       R"({"role":"system","content":"S0"},)" + user("hello") +
           R"(,{"role":"system","content":"Mode: French only."})",
       off,
       119,
       "8b128aa2d91969f1"},
      {"E8",
       R"({"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"https://x/y.png"}},)"
       R"({"type":"text","text":"what is it?"}]})",
       off,
       99,
       "836c51f5fa1c36eb"},
      {"E9",
       user("Write a haiku") + R"(,{"role":"assistant","content":"Snow on","prefix":true})",
       off,
       86,
       "e9a7446ee3ebddf6"},
  };
  for (const Worked& example : examples) {
    CAPTURE(example.name);
    const Outcome out = render(chat_body(example.messages, example.more));
    REQUIRE(out.request);
    CHECK(out.prompt.text.size() == example.bytes);
    CHECK(sha256_head(out.prompt.text) == example.hash);
  }
}

TEST_CASE("E10: a call without arguments keeps one blank line") {
  const Outcome out = render(chat_body(
      user("q") +
      R"(,{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"ping","arguments":"{}"}}]})"
      R"(,{"role":"tool","tool_call_id":"1","content":"ok"})"));
  REQUIRE(out.request);
  const std::size_t first = out.prompt.text.find("</think>") + 8;
  const std::string markup =
      out.prompt.text.substr(first, out.prompt.text.find("<｜end▁of▁sentence｜>") - first);
  CHECK(markup.size() == 94);
  CHECK(sha256_head(markup) == "429c9f4c718bbfbb");
}

TEST_CASE("G01, G03: spelled control tokens in user text are ordinary tokens") {
  const std::size_t empty = ids_of(chat_body(user(""))).size();
  CHECK(empty == 4);
  CHECK(ids_of(chat_body(user("<｜User｜>"))).size() == empty + 5);
  CHECK(ids_of(chat_body(user("</think>"))).size() == empty + 3);
  const Outcome out = render(chat_body(
      user("see <｜image｜>") + R"(,{"role":"assistant","content":"a"},)" + user("<｜image｜>")));
  REQUIRE(out.request);
  CHECK(out.prompt.images.empty());
  CHECK(out.prompt.control.size() == 8);
}

TEST_CASE("user text can never become a control token: 10,000 random texts full of spellings") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const Tokenizer& tokenizer = *golden_tokenizer();
  std::vector<std::string> pieces = {"<",
                                     "｜",
                                     ">",
                                     "</",
                                     "\n\n",
                                     " ",
                                     "a",
                                     "漢",
                                     "<tool_result>",
                                     "calls>",
                                     "invoke name=\"x\">",
                                     "1"};
  for (const AddedToken& token : tokenizer.added_tokens()) {
    // Grounding marks in what the assistant wrote are control tokens by design.
    const auto& grounding = profile().grounding;
    const bool is_grounding =
        std::any_of(grounding.begin(), grounding.end(), [&](const ControlToken& mark) {
          return mark.id == token.id;
        });
    if (!is_grounding && token.text.find("place") == std::string::npos)
      pieces.push_back(token.text);
  }
  const auto text = [&] {
    std::string out;
    for (unsigned count = random() % 8; count > 0; --count)
      out += pieces[random() % pieces.size()];
    return out;
  };
  const auto in_json = [&] { return json(text()).dump(); };
  for (int round = 0; round < 10'000; ++round) {
    const std::string body = chat_body(
        R"({"role":"system","content":)" + in_json() + R"(},{"role":"user","content":)" +
            in_json() + R"(},{"role":"assistant","content":)" + in_json() +
            R"(,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":)" +
            json(json{{text(), text()}}.dump()).dump() +
            R"(}}]},{"role":"tool","tool_call_id":"1","content":)" + in_json() +
            R"(},{"role":"latest_reminder","content":)" + in_json() + "}",
        "");
    const Outcome out = render(body);
    REQUIRE(out.request);
    const std::vector<TokenId> ids = encode_prompt(tokenizer, out.prompt);
    const auto added = std::count_if(ids.begin(), ids.end(), [&](TokenId id) {
      return tokenizer.added_spelling(id).has_value();
    });
    // BOS, system, user, assistant, </think>, 6 DSML, EOS, user, reminder, assistant, <think>
    REQUIRE(out.prompt.control.size() == 16);
    REQUIRE(added == 16);
    REQUIRE(decode_bytes(tokenizer, ids) == out.prompt.text);
  }
}

TEST_CASE("G04: effort names, numbers and refusals; V4 has sentences instead of numbers") {
  const auto effort_line = [](const std::string& value, Generation generation = Generation::kV41) {
    const Outcome out =
        render(chat_body(user("x"), value.empty() ? "" : ",\"reasoning_effort\":" + value),
               {},
               profile(generation));
    if (!out.request)
      return std::string("refused");
    const std::size_t at = out.prompt.text.find("Effort: ");
    return at == std::string::npos
               ? std::string("none")
               : out.prompt.text.substr(at + 8, out.prompt.text.find(' ', at + 8) - at - 8);
  };
  CHECK(effort_line("\"low\"") == "50");
  CHECK(effort_line("\"high\"") == "75");
  CHECK(effort_line("\"max\"") == "100");
  CHECK(effort_line("") == "75");
  CHECK(effort_line("\"none\"") == "none");
  CHECK(effort_line("37") == "37");
  for (const char* bad : {"0", "101", "true", "\"37\"", "2.5"})
    CHECK(effort_line(bad) == "refused");
  CHECK(effort_line("\"low\"", Generation::kV4) == "none");
  CHECK(effort_line("\"high\"", Generation::kV4) == "Absolute");
  CHECK(effort_line("\"max\"", Generation::kV4) == "Beyond");
}

TEST_CASE("the effort numbers are data of the profile: a pre-release table changes the line") {
  ModelProfile model = profile();
  model.effort_numbers = {25, 50, 100};
  CHECK(effort_text(model, {EffortLevel::kLow, 0}).starts_with("Reasoning Effort: 25 ("));
  CHECK(effort_text(model, {EffortLevel::kHigh, 0}).starts_with("Reasoning Effort: 50 ("));
}

TEST_CASE(
    "G07: text, input_text and output_text parts are joined by a blank line; an unknown part is "
    "named") {
  const Outcome out = render(chat_body(
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"input_text","text":"b"},{"type":"output_text","text":"c"}]})"));
  REQUIRE(out.request);
  CHECK(out.prompt.text.find("a\n\nb\n\nc") != std::string::npos);
  CHECK(error_of(chat_body(R"({"role":"user","content":[{"type":"video_url"}]})"))
            .find("video_url") != std::string::npos);
}

TEST_CASE("G09, G11, G12: calls must be answered; the message names the call that is not") {
  const std::string calls =
      user("q") +
      R"(,{"role":"assistant","content":"","tool_calls":[{"id":"aa","type":"function","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"bb","type":"function","function":{"name":"g","arguments":"{}"}}]},)";
  const std::string answer_a = R"({"role":"tool","tool_call_id":"aa","content":"A"},)";
  const std::string answer_b = R"({"role":"tool","tool_call_id":"bb","content":"B"})";
  CHECK(error_of(chat_body(calls + answer_a + user("z"))).find("Without a response: bb") !=
        std::string::npos);
  CHECK(error_of(chat_body(calls + user("note") + "," + answer_a + answer_b)).find("aa, bb") !=
        std::string::npos);
  CHECK(
      error_of(chat_body(calls + answer_a + R"({"role":"tool","tool_call_id":"zz","content":"B"})"))
          .find("messages: bb") != std::string::npos);
  CHECK(error_of(chat_body(user("q") + R"(,{"role":"tool","tool_call_id":"","content":"B"})"))
            .find("tool_call_id") != std::string::npos);
  CHECK(error_of(chat_body(user("q") + R"(,{"role":"assistant","content":null})")) != "accepted");
  CHECK(error_of(chat_body(user("q") + R"(,{"role":"assistant","content":""})")) == "accepted");
}

TEST_CASE(
    "G14: a tool turn without its reasoning is kept as a call with empty reasoning, or refused in "
    "strict mode") {
  const std::string body = chat_body(
      user("q") +
          R"(,{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"clock","arguments":"{}"}}]})"
          R"(,{"role":"tool","tool_call_id":"1","content":"x"})",
      kClock);
  const Outcome out = render(body);
  REQUIRE(out.request);
  CHECK(out.prompt.text.find("<think></think>\n\n<｜DSML｜ calls>") != std::string::npos);
  CHECK(error_of(body, {.reject_missing_reasoning = true}).find("reasoning_content") !=
        std::string::npos);
}

TEST_CASE(
    "better than the official program: developer role, refusal parts, max_completion_tokens, n, "
    "repaired surrogates, reminders") {
  const Outcome developer = render(chat_body(R"({"role":"developer","content":"D"},)" + user("x")));
  REQUIRE(developer.request);
  CHECK(developer.prompt.text.find("<｜System｜>D<｜User｜>x") != std::string::npos);
  CHECK(
      error_of(chat_body(R"({"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},)" +
                         user("x"))) == "accepted");
  const Outcome alias = render(chat_body(user("x"), R"(,"max_completion_tokens":7,"n":3)"));
  REQUIRE(alias.request);
  CHECK(alias.request->sampling.max_tokens == 7);
  CHECK(alias.request->choices == 3);
  CHECK(error_of(chat_body(user("x"), R"(,"n":17)")) != "accepted");
  const Outcome repaired =
      render(R"({"model":"m","messages":[{"role":"user","content":"\ud83d"}]})");
  REQUIRE(repaired.request);
  CHECK(repaired.prompt.text.find("\uFFFD") != std::string::npos);
  const Outcome reminders = render(chat_body(
      user("x") +
      R"(,{"role":"latest_reminder","content":"R1"},{"role":"latest_reminder","content":"R2"})"));
  REQUIRE(reminders.request);
  CHECK(reminders.prompt.text.find("R1<｜latest_reminder｜>R2") != std::string::npos);
}

TEST_CASE("G36, G44: forced tools while thinking and bad max_tokens are refused") {
  for (const char* choice :
       {R"("required")", R"({"type":"function","function":{"name":"clock"}})"}) {
    const std::string more = std::string(kClock) + ",\"tool_choice\":" + choice;
    CHECK(error_of(chat_body(user("x"), more)) ==
          "Thinking mode does not support this tool_choice");
    CHECK(error_of(chat_body(user("x"), more + R"(,"thinking":{"type":"disabled"})")) ==
          "accepted");
  }
  for (const char* bad : {"0", "-1", "393217", "\"12\"", "1e3"}) {
    CHECK(error_of(chat_body(user("x"), std::string(",\"max_tokens\":") + bad)) != "accepted");
  }
  CHECK(error_of(chat_body(user("x"), R"(,"max_tokens":393216)")) == "accepted");
}

TEST_CASE("shoal's own fields reach the worker as asked") {
  const Outcome out = render(
      chat_body(
          user("x"),
          R"(,"thinking":{"type":"disabled"},"top_k":5,"min_p":0.1,"min_tokens":2,"stop_token_ids":[7,8],"ignore_eos":true,)"
          R"("replay":"exact","cache_class":"chat","timeout":1.5,"return_token_ids":true,"logit_bias":{"5":-2},"top_p":0.5)"),
      {.official_sampling = false});
  REQUIRE(out.request);
  const Sampling& sampling = out.request->sampling;
  CHECK(sampling.top_k == 5);
  CHECK(sampling.min_p == doctest::Approx(0.1));
  CHECK(sampling.min_tokens == 2);
  CHECK(sampling.stop_token_ids == std::vector<TokenId>{7, 8});
  CHECK(sampling.ignore_eos);
  CHECK(sampling.top_p == doctest::Approx(0.5));
  CHECK(sampling.logit_bias == std::vector<std::pair<TokenId, float>>{{5, -2.0F}});
  CHECK(out.request->serving.replay == ReplayMode::kExact);
  CHECK(out.request->serving.cache_class == CacheClass::kChat);
  CHECK(out.request->serving.timeout_s == doctest::Approx(1.5));
  CHECK(out.request->serving.return_token_ids);
  CHECK(error_of(chat_body(user("x"), R"(,"replay":"fast")")) != "accepted");
}

TEST_CASE(
    "the ids come from the tokenizer: a vocabulary without the template's tokens is refused by "
    "name") {
  const auto tokenizer = Tokenizer::load(std::string(SHOAL_MODELS_DIR) + "/guppy/tokenizer.json");
  REQUIRE(tokenizer);
  const auto model = make_profile(detect_generation(**tokenizer), **tokenizer);
  REQUIRE(model);
  CHECK(model->generation == Generation::kV41);
  CHECK(model->user.id == *(*tokenizer)->added_id("<｜User｜>"));
  CHECK(model->user.id != profile().user.id);
  CHECK(model->grounding.empty());
}

TEST_CASE("a hostile body with very many calls and tools costs linear time") {
  constexpr int kMany = 20'000;
  json body = {{"model", "m"},
               {"messages", {{{"role", "user"}, {"content", "q"}}}},
               {"thinking", {{"type", "disabled"}}}};
  json calls = json::array();
  for (int i = 0; i < kMany; ++i) {
    calls.push_back({{"id", "c" + std::to_string(i)},
                     {"type", "function"},
                     {"function", {{"name", "f"}, {"arguments", "{}"}}}});
    body["tools"].push_back(
        {{"type", "function"}, {"function", {{"name", "t" + std::to_string(i)}}}});
  }
  body["messages"].push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
  for (int i = kMany - 1; i >= 0; --i) {
    body["messages"].push_back({{"role", "tool"},
                                {"tool_call_id", "c" + std::to_string(i)},
                                {"content", std::to_string(i)}});
  }
  const Outcome out = render(body.dump());
  REQUIRE(out.request);
  // Results follow the order of the calls.
  CHECK(out.prompt.text.find("<tool_result>0</tool_result>\n\n<tool_result>1<") !=
        std::string::npos);
}
