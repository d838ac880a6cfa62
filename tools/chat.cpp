// shoal chat: a conversation in the terminal, with a server of its own or with one that runs.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <editline/readline.h>
#include <iostream>
#include <memory>
#include <optional>
#include <sys/eventfd.h>
#include <unistd.h>

#include "actors/codec/tokenizer_utf8.h"
#include "tools/chat_session.h"
#include "tools/commands.h"
#include "tools/local_server.h"

namespace shoal::tools {

namespace {

// An eventfd that Ctrl-C makes readable. A signal handler reaches nothing but globals.
std::atomic<int> interrupt_event{-1};

extern "C" void on_interrupt(int) {
  const int keep = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_event.load(), &one, sizeof one);
  errno = keep;
}

// From here on Ctrl-C ends an answer, not the program.
int catch_interrupts() {
  interrupt_event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

  struct sigaction action {};

  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  return interrupt_event;
}

void forget_interrupts() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(interrupt_event.load(), &count, sizeof count);
}

// A terminal gets the answer with its reasoning dimmed, a pipe the answer alone.
class Screen final : public AnswerView {
 public:
  explicit Screen(bool terminal) : terminal_(terminal) {}

  void reasoning(std::string_view text) override {
    if (terminal_) {
      print(std::exchange(dim_, true) ? "" : "\033[2m", text);
    }
  }

  void content(std::string_view text) override {
    const bool leaves_reasoning = std::exchange(dim_, false);
    print(leaves_reasoning ? "\033[0m\n" : "", text);
  }

  void end() { print(std::exchange(dim_, false) ? "\033[0m" : "", "\n"); }

 private:
  // What a model writes must not steer the terminal: of control characters only line ends and tabs
  // pass.
  void print(const char* style, std::string_view text) const {
    std::fputs(style, stdout);
    for (const char c : text) {
      const bool is_control =
          (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
      if (!terminal_ || !is_control) {
        std::fputc(c, stdout);
      }
    }
    std::fflush(stdout);
  }

  bool terminal_;
  bool dim_ = false;
};

// Lines with editing and history where both ends are a terminal, plain lines otherwise.
class LineSource {
 public:
  explicit LineSource(bool terminal) : terminal_(terminal) {
    // The editor prints its prompt and only then takes the terminal; a Ctrl-D between the two would
    // be the kernel's, and lost.
    rl_pre_input_hook = take_terminal;
  }

  // Nothing at the end of input (Ctrl-D).
  std::optional<std::string> next() const {
    if (!terminal_) {
      std::string line;
      return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
    }
    const std::unique_ptr<char, decltype(&std::free)> line(::readline("> "), &std::free);
    if (line == nullptr) {
      return std::nullopt;
    }
    if (*line != '\0') {
      ::add_history(line.get());
    }
    return std::string(line.get());
  }

 private:
  static int take_terminal() {
    ::rl_prep_terminal(1);
    return 0;
  }

  bool terminal_;
};

// True: the turn is over without an error.
bool take_turn(ChatSession& session, const std::string& text, Screen& screen) {
  forget_interrupts();
  const auto finish = session.ask(replace_malformed_utf8(text), screen);
  screen.end();
  if (finish) {
    if (*finish == "length") {
      std::fputs("shoal: the answer reached its token limit\n", stderr);
    }
    return true;
  }
  if (finish.error().code == Code::kCancelled) {
    return true;
  }
  report(finish.error());
  return false;
}

constexpr char kCommands[] =
    "commands: /help, /clear forgets the conversation, /exit leaves; //TEXT sends a text that "
    "starts with a slash";

// A line of one slash and more is for this program, not for the model. False: it is no command.
bool obey(std::string_view command, ChatSession& session) {
  if (command == "/clear") {
    session.forget();
    return true;
  }
  if (command == "/help") {
    std::fprintf(stderr, "%s\n", kCommands);
    return true;
  }
  report(Error{Code::kInvalid, "there is no " + std::string(command) + "; " + kCommands});
  return false;
}

std::string_view without_end_spaces(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

int converse(ChatSession session) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (terminal) {
    std::puts("Ctrl-C ends an answer, /help lists commands, /exit or Ctrl-D leaves.");
  }
  const LineSource lines(terminal);
  Screen screen(::isatty(STDOUT_FILENO) == 1);
  int status = 0;
  while (const std::optional<std::string> line = lines.next()) {
    const std::string_view text = without_end_spaces(*line);
    const bool escaped = text.starts_with("//");
    bool good = true;
    if (text == "/exit") {
      return status;
    }
    if (text.starts_with('/') && !escaped) {
      good = obey(text, session);
    } else if (!text.empty()) {
      good = take_turn(session, line->substr(escaped ? 1 : 0), screen);
    }
    status = good || terminal ? status : 1;
    if (std::ferror(stdout) != 0) {
      return 1;  // nobody reads any more
    }
  }
  if (terminal) {
    std::puts("");
  }
  return status;
}

int converse_with(const std::string& url,
                  const std::string& key,
                  const ChatCommandOptions& options) {
  const auto address = parse_url(url);
  if (!address) {
    return report(Error{address.error().code, "--url: " + address.error().message});
  }
  const HttpClient client(*address, key, catch_interrupts());
  const auto model = served_model(client);
  if (!model) {
    return report(model.error());
  }
  return converse(ChatSession(client, *model, options));
}

// Any free port, and no word on standard error but about errors, unless the user said otherwise.
Result<std::unique_ptr<LocalServer>> start_quietly(ConfigSources& sources) {
  if (!sources.origin.contains("http.port")) {
    TRY_VOID(set_option("http.port", "0", "shoal chat", sources));
  }
  if (!sources.origin.contains("log.level")) {
    TRY_VOID(set_option("log.level", "error", "shoal chat", sources));
  }
  return LocalServer::start(sources.config);
}

}  // namespace

int run_chat(const ChatCommandOptions& options, ConfigSources sources) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto& keys = sources.config.http().api_key();
  const std::string key = keys.empty() ? std::string() : keys.Get(0);
  if (!options.url.empty()) {
    return converse_with(options.url, key, options);
  }
  auto server = start_quietly(sources);
  if (!server) {
    return report(server.error());
  }
  const int status = converse_with((*server)->url(), key, options);
  if (!(*server)->stop()) {
    std::fflush(nullptr);
    std::_Exit(status);  // an actor that would not stop must not hold the exit
  }
  return status;
}

}  // namespace shoal::tools
