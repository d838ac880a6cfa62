// The shoal program: parses arguments, runs the named command, and says in one line what is wrong
// with a command line; an unknown word names the nearest known one.
#include <cstdio>
#include <string>
#include <vector>

#include "actors/config.h"
#include "tools/command_line.h"

namespace shoal::tools {

int report(const Error& error) {
  std::fprintf(stderr, "shoal: %s\n", error.message.c_str());
  return 1;
}

namespace {

// A command line that cannot be understood, as with other programs of this kind.
constexpr int kUsageStatus = 2;

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// The words from the program to the deepest command that was named.
std::vector<const CLI::App*> named_path(const CLI::App& app) {
  std::vector<const CLI::App*> path{&app};
  while (!path.back()->get_subcommands().empty()) {
    path.push_back(path.back()->get_subcommands().front());
  }
  return path;
}

std::string explain_unknown(const CLI::App& command, const std::string& argument) {
  const bool is_flag = argument.starts_with("-");
  const std::string word = is_flag ? argument.substr(0, argument.find('=')) : argument;
  const std::vector<std::string> known = is_flag ? flag_names(command) : command_names(command);
  if (known.empty()) {
    return "unexpected argument '" + word + "'.";
  }
  const auto nearest = nearest_name(word, known);
  return (is_flag ? "unknown flag '" : "unknown command '") + word + "'" +
         (nearest ? ", did you mean '" + *nearest + "'?" : ".");
}

std::string joined_names(const std::vector<const CLI::App*>& path) {
  std::string names;
  for (const CLI::App* command : path) {
    names += (names.empty() ? "" : " ") + command->get_name();
  }
  return names;
}

// A flag that stands before the command of `path`, which alone could know it; otherwise empty.
std::string flag_before_command(const std::vector<const CLI::App*>& path) {
  for (const CLI::App* group : path) {
    for (const std::string& word : group->remaining()) {
      if (group != path.back() && word.starts_with("-")) {
        return word.substr(0, word.find('='));
      }
    }
  }
  return {};
}

std::string explain(const std::vector<const CLI::App*>& path, const CLI::ParseError& error) {
  if (const std::string flag = flag_before_command(path); !flag.empty()) {
    return "flags go after the command: " + joined_names(path) + " " + flag + ".";
  }
  const std::vector<std::string> unknown = path.back()->remaining();
  return unknown.empty() ? error.what() : explain_unknown(*path.back(), unknown.front());
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> path = named_path(app);
  std::string line = explain(path, error);
  if (!line.ends_with('.') && !line.ends_with('?')) {
    line += '.';
  }
  std::fprintf(stderr, "shoal: %s See `%s --help`.\n", line.c_str(), joined_names(path).c_str());
  return kUsageStatus;
}

int run(int argc, char** argv) {
  CLI::App app("shoal: serves DeepSeek-V4.1-class models over OpenAI-style HTTP.", "shoal");
  CommandLine line;
  add_commands(app, line);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return kUsageStatus;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {  // --help, --version
    return app.exit(answered);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  return line.status;
}

}  // namespace

}  // namespace shoal::tools

int main(int argc, char** argv) {
  return shoal::tools::run(argc, argv);
}
