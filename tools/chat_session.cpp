// Chat Completions from the client's side.
#include "tools/chat_session.h"

#include <optional>
#include <utility>

#include "actors/codec/json_fields.h"
#include "actors/codec/json_reader.h"
#include "actors/codec/json_writer.h"

namespace shoal::tools {

namespace {

void append_message(std::string& out, std::string_view role, std::string_view content) {
  out += out.back() == '[' ? "{\"role\":" : ",{\"role\":";
  append_json_string(out, role);
  out += ",\"content\":";
  append_json_string(out, content);
  out += '}';
}

std::string text_of(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  return value != nullptr && value->is_string() ? value->text : std::string();
}

// The message of an {"error": {...}} body; empty when it is none.
std::string error_text(const JsonValue& body) {
  const JsonValue* error = given(body, "error");
  return error == nullptr ? std::string() : text_of(*error, "message");
}

Error refusal(const HttpReply& reply) {
  const auto body = read_json(reply.body);
  std::string message = body ? error_text(*body) : std::string();
  if (message.empty()) {
    message = "the server answered with status " + std::to_string(reply.status);
  }
  return Error{reply.status == 401 ? Code::kUnauthorized : Code::kInvalid, std::move(message)};
}

// An answer that grows by chunks; shown on the way.
class Growing {
 public:
  explicit Growing(AnswerView& view) : view_(view) {}

  void take(std::string_view data) {
    if (data == "[DONE]") {
      return;
    }
    const auto chunk = read_json(data);
    if (!chunk) {
      failure_ = "the server sent a broken event: " + chunk.error().message;
      return;
    }
    if (std::string failed = error_text(*chunk); !failed.empty()) {
      failure_ = std::move(failed);
    }
    const JsonValue* choices = given(*chunk, "choices");
    if (choices != nullptr && !choices->items.empty()) {
      show(choices->items.front());
    }
  }

  const std::string& content() const { return content_; }

  Result<std::string> outcome() const {
    if (!failure_.empty()) {
      return fail(Code::kUnavailable, failure_);
    }
    if (finish_.empty()) {
      return fail(Code::kUnavailable, "the answer ended without a finish reason");
    }
    return finish_;
  }

 private:
  void show(const JsonValue& choice) {
    if (std::string reason = text_of(choice, "finish_reason"); !reason.empty()) {
      finish_ = std::move(reason);
    }
    const JsonValue* delta = given(choice, "delta");
    if (delta == nullptr) {
      return;
    }
    if (const std::string text = text_of(*delta, "reasoning_content"); !text.empty()) {
      view_.reasoning(text);
    }
    if (const std::string text = text_of(*delta, "content"); !text.empty()) {
      content_ += text;
      view_.content(text);
    }
  }

  AnswerView& view_;
  std::string content_;
  std::string finish_;
  std::string failure_;
};

}  // namespace

ChatSession::ChatSession(HttpClient client, std::string model, const ChatCommandOptions& options)
    : client_(std::move(client)),
      model_(std::move(model)),
      options_(options) {}

std::string ChatSession::body() const {
  std::string out = "{\"model\":";
  append_json_string(out, model_);
  out += ",\"stream\":true";
  if (!options_.effort.empty()) {
    out += ",\"reasoning_effort\":";
    append_json_string(out, options_.effort);
  }
  if (options_.max_tokens > 0) {
    out += ",\"max_tokens\":" + std::to_string(options_.max_tokens);
  }
  out += ",\"messages\":[";
  if (!options_.system.empty()) {
    append_message(out, "system", options_.system);
  }
  for (const Turn& turn : turns_) {
    append_message(out, turn.role, turn.content);
  }
  return out + "]}";
}

Result<std::string> ChatSession::ask(std::string_view text, AnswerView& view) {
  turns_.push_back({"user", std::string(text)});
  Growing answer(view);
  EventReader events;
  const auto reply =
      client_.post("/v1/chat/completions", body(), [&events, &answer](std::string_view bytes) {
        events.push(bytes, [&answer](std::string_view data) { answer.take(data); });
      });
  if (answer.content().empty()) {
    turns_.pop_back();
  } else {
    turns_.push_back({"assistant", answer.content()});
  }
  if (!reply) {
    return tl::unexpected(reply.error());
  }
  if (reply->status != 200) {
    return tl::unexpected(refusal(*reply));
  }
  return answer.outcome();
}

Result<std::string> served_model(const HttpClient& client) {
  TRY(const HttpReply reply, client.get("/v1/models"));
  if (reply.status != 200) {
    return tl::unexpected(refusal(reply));
  }
  TRY(const JsonValue body, read_json(reply.body));
  const JsonValue* models = given(body, "data");
  if (models == nullptr || models->items.empty() || text_of(models->items.front(), "id").empty()) {
    return fail(Code::kUnavailable, "the server lists no model under /v1/models");
  }
  return text_of(models->items.front(), "id");
}

}  // namespace shoal::tools
