// The shoal program: arguments to subcommands. Unknown flags name the nearest known one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "actors/config.h"
#include "tools/commands.h"

namespace shoal::tools {

int report(const Error& error) {
  std::fprintf(stderr, "shoal: %s\n", error.message.c_str());
  return 1;
}

namespace {

// A flag that sets one option of the node's configuration.
struct ConfigFlag {
  const char* flag;
  const char* option;
  const char* help;
};

// Named as in vLLM where the meaning is the same.
constexpr ConfigFlag kConfigFlags[] = {
    {"--host", "http.host", "address to listen on; anything but loopback needs --api-key"},
    {"--port", "http.port", "TCP port; 0: any free one"},
    {"--served-model-name", "model.served_name", "the model's name in the API"},
    {"--max-model-len", "model.max_model_len", "longest prompt plus answer, tokens"},
    {"--max-num-seqs", "decode.max_batch", "answers in one decode step"},
    {"--replay",
     "model.replay",
     "bounded or exact: how windows are rebuilt unless a request says so"},
    {"--threads", "compute.threads", "compute threads; 0: one per core"},
    {"--kv-bytes", "kv.bytes", "KV memory, bytes"},
    {"--log-level", "log.level", "debug, info, warning or error"},
};

// What serve, chat and config take: a file, flags, and any option by its name.
struct ConfigArguments {
  std::string file;
  std::string model;
  std::vector<std::string> api_keys;
  std::vector<std::string> settings;
  std::vector<std::pair<const ConfigFlag*, std::string>> flags;
};

void add_config_arguments(CLI::App& app, ConfigArguments& arguments) {
  app.add_option(
      "model",
      arguments.model,
      "model directory (config.json, *.safetensors, tokenizer.json); default: the built-in model");
  app.add_option("--config", arguments.file, "configuration file, see deploy/defaults.txtpb");
  app.add_option(
         "--api-key", arguments.api_keys, "key to let in, each one a tenant; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--set",
                 arguments.settings,
                 "any option by its name: --set kv.bytes=1073741824; may be repeated")
      ->allow_extra_args(false);
  for (const ConfigFlag& flag : kConfigFlags) {
    app.add_option_function<std::string>(
        flag.flag,
        [&arguments, &flag](const std::string& value) {
          arguments.flags.emplace_back(&flag, value);
        },
        flag.help);
  }
}

Result<ConfigSources> read_sources(const ConfigArguments& arguments) {
  ConfigSources sources;
  if (!arguments.file.empty()) {
    TRY_VOID(read_config_file(arguments.file, sources));
  }
  for (const std::string& setting : arguments.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return fail(Code::kMisconfigured, "--set: '" + setting + "' is not NAME=VALUE");
    }
    TRY_VOID(set_option(setting.substr(0, equals), setting.substr(equals + 1), "--set", sources));
  }
  for (const auto& [flag, value] : arguments.flags) {
    TRY_VOID(set_option(flag->option, value, flag->flag, sources));
  }
  for (const std::string& key : arguments.api_keys) {
    TRY_VOID(set_option("http.api_key", key, "--api-key", sources));
  }
  if (!arguments.model.empty()) {
    TRY_VOID(set_option("model.path", arguments.model, "argument", sources));
  }
  return sources;
}

// Runs a command that needs the configuration.
int with_config(const ConfigArguments& arguments,
                const std::function<int(const ConfigSources&)>& run) {
  const auto sources = read_sources(arguments);
  return sources ? run(*sources) : report(sources.error());
}

void add_generate(CLI::App& app, GenerateOptions& o) {
  app.add_option("--model", o.model, "model directory")->capture_default_str();
  app.add_option(
      "--ids", o.ids, "prompt as comma-separated token ids; prints ids and top-2 margins");
  app.add_option(
      "--prompt", o.prompt, "prompt as text; spellings of control tokens become control tokens");
  app.add_option("--max-tokens", o.max_tokens, "most tokens to generate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", o.temperature, "0: greedy")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-p", o.top_p)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--top-k", o.top_k, "0: off")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--threads", o.threads, "compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_eos, "go on behind the end token");
  app.footer(
      "Examples:\n  shoal generate --prompt '<｜begin▁of▁sentence｜><｜User｜>What is "
      "shoal?<｜Assistant｜></think>'\n"
      "  shoal generate --model DIR --ids 0,2436,300 --max-tokens 16");
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

// The deepest subcommand that was named, for messages about its flags.
const CLI::App& named_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : named_command(*chosen.front());
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = named_command(app);
  std::string line = error.what();
  const std::vector<std::string> extras = command.remaining();
  if (!extras.empty()) {
    std::vector<std::string> known = flag_names(command);
    if (extras.front().rfind("-", 0) != 0) {
      for (const CLI::App* sub : command.get_subcommands({})) {
        known.push_back(sub->get_name());
      }
    }
    const std::string word = extras.front().substr(0, extras.front().find('='));
    line = "unknown argument '" + word + "', did you mean '" + nearest_name(word, known) + "'?";
  }
  std::fprintf(stderr,
               "shoal: %s See `%s --help`.\n",
               line.c_str(),
               (&command == &app ? "shoal" : "shoal " + command.get_name()).c_str());
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("shoal: serves DeepSeek-V4.1-class models over OpenAI-style HTTP.", "shoal");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  shoal serve\n  shoal serve MODEL_DIR --port 8080 --api-key SECRET\n  shoal "
      "chat\n  shoal generate --ids 0,2436,300");
  int status = 0;
  ConfigArguments config;
  GenerateOptions generate{.model = SHOAL_BUILTIN_MODEL};
  TokenizeOptions tokenize{.model = SHOAL_BUILTIN_MODEL};
  BenchEngineOptions bench_engine{.model = SHOAL_BUILTIN_MODEL};
  std::string models_directory = SHOAL_MODELS;

  CLI::App* serve = app.add_subcommand("serve", "serve a model over HTTP until SIGTERM");
  add_config_arguments(*serve, config);
  serve->footer(
      "Examples:\n  shoal serve\n  shoal serve MODEL_DIR --port 8080 --max-num-seqs 32 --api-key "
      "SECRET");
  serve->callback([&] {
    status = with_config(config, [](const ConfigSources& s) { return run_serve(s.config); });
  });

  CLI::App* show =
      app.add_subcommand("config", "print every option, its value and where that came from");
  add_config_arguments(*show, config);
  show->footer("Example:\n  shoal config --config my.txtpb --port 8080");
  show->callback(
      [&] { status = with_config(config, [](const ConfigSources& s) { return run_config(s); }); });

  CLI::App* one =
      app.add_subcommand("generate", "generate straight on the device, without a server");
  add_generate(*one, generate);
  one->callback([&] { status = run_generate(generate); });

  CLI::App* ids =
      app.add_subcommand("tokenize", "print the token ids of a text (argument or standard input)");
  ids->add_option("text", tokenize.text, "the text");
  ids->add_option("--model", tokenize.model, "model directory")->capture_default_str();
  ids->add_flag("--parse-special",
                tokenize.parse_special,
                "spellings of control tokens become control tokens");
  ids->footer("Example:\n  shoal tokenize 'Hello there.'");
  ids->callback([&] { status = run_tokenize(tokenize); });

  CLI::App* bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  CLI::App* engine =
      bench->add_subcommand("engine", "decode and prefill steps straight on the device");
  engine->add_option("--model", bench_engine.model, "model directory")->capture_default_str();
  engine->add_option("--prompt", bench_engine.prompt, "tokens in the cache before decode is timed")
      ->capture_default_str();
  engine->add_option("--prefill", bench_engine.prefill, "tokens of the timed prefill")
      ->capture_default_str();
  engine->add_option("--steps", bench_engine.steps, "decode steps a measurement")
      ->check(CLI::Range(3, 1000000))
      ->capture_default_str();
  engine->add_flag("--profile", bench_engine.profile, "time per operator");
  engine->callback([&] { status = run_bench_engine(bench_engine); });

  CLI::App* models = app.add_subcommand("models", "list the model directories under a folder");
  models->add_option("directory", models_directory, "the folder")->capture_default_str();
  models->callback([&] { status = run_models(models_directory); });

  app.add_subcommand("version", "print the version")->callback([&] { status = run_version(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  return status;
}

}  // namespace

}  // namespace shoal::tools

int main(int argc, char** argv) {
  return shoal::tools::run(argc, argv);
}
