// The commands of shoal as CLI11 sees them: their flags, help and examples, bound to option
// values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands.h"

namespace shoal::tools {

struct ConfigFlag;

// What serve, chat and config take: a file, flags, and any option by its name.
struct ConfigArguments {
  std::string file;
  std::string model;
  std::vector<std::string> api_keys;
  std::vector<std::string> settings;
  std::vector<std::pair<const ConfigFlag*, std::string>> flags;
};

// What the arguments say, and the status of the command that ran. CLI11 keeps references into it.
struct CommandLine {
  ConfigArguments config;
  NodeCommandOptions node;
  ChatCommandOptions chat;
  ExplainOptions explain;
  GenerateOptions generate;
  CodecOptions codec;
  TokenizeOptions tokenize;
  SimOptions sim;
  KvOptions kv;
  PlanOptions plan;
  std::string models_directory;
  int status = 0;
};

// Parsing `app` afterwards runs the named command.
void add_commands(CLI::App& app, CommandLine& line);

}  // namespace shoal::tools
