// One conversation with a server: its history, a request for each turn, and the answer's parts as
// they stream in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schemas/result.h"
#include "tools/commands.h"
#include "tools/http_client.h"

namespace shoal::tools {

// Where an answer goes while it streams.
class AnswerView {
 public:
  virtual ~AnswerView() = default;
  virtual void reasoning(std::string_view text) = 0;
  virtual void content(std::string_view text) = 0;
};

class ChatSession {
 public:
  ChatSession(HttpClient client, std::string model, const ChatCommandOptions& options);

  // One turn; returns the reason why the answer ended ("stop", "length", ...). A turn without any
  // answer leaves no trace in the history; one that broke off or was interrupted (kCancelled) keeps
  // what was shown.
  Result<std::string> ask(std::string_view text, AnswerView& view);

  // The history; the system message stays.
  void forget() { turns_.clear(); }

 private:
  struct Turn {
    std::string_view role;
    std::string content;
  };

  std::string body() const;

  HttpClient client_;
  std::string model_;
  ChatCommandOptions options_;
  std::vector<Turn> turns_;
};

// The first model that the server lists; kUnauthorized when it wants another key.
Result<std::string> served_model(const HttpClient& client);

}  // namespace shoal::tools
