// One function a command: its flags, its examples, and what runs.
#include "tools/command_line.h"

#include <functional>

#include "actors/config.h"
#include "tools/bench_command_line.h"
#include "tools/flag_checks.h"
#include "tools/plan_command_line.h"
#include "tools/sim_command_line.h"

namespace shoal::tools {

// A flag that sets one option of the node's configuration.
struct ConfigFlag {
  const char* flag;
  const char* option;
  const char* help;
};

namespace {

// Named as in vLLM where the meaning is the same.
constexpr ConfigFlag kConfigFlags[] = {
    {"--host", "http.host", "address to listen on; anything but loopback needs --api-key"},
    {"--port", "http.port", "TCP port; 0: any free one"},
    {"--served-model-name", "model.served_name", "the model's name in the API"},
    {"--max-model-len", "model.max_model_len", "longest prompt plus answer, tokens"},
    {"--max-num-seqs", "decode.max_batch", "answers in one decode step"},
    {"--replay", "model.replay", "how windows are rebuilt unless a request says so"},
    {"--device",
     "compute.device",
     "cpu; or sim: reads no weights, answers from hashes in the time that sim.* says"},
    {"--threads", "compute.threads", "compute threads; 0: one per core"},
    {"--kv-bytes",
     "kv.bytes",
     "KV memory of the answers in work, bytes; not of the store: --kv-store-bytes"},
    {"--kv-dir",
     "kv.dir",
     "directory of the KV store, kept for days and shared; default: shoal/kv in the user's cache; "
     "--set kv.store=none keeps none"},
    {"--kv-store-bytes", "kv.store_bytes", "most bytes of the KV store"},
    {"--log-level", "log.level", "least important events that are written"},
};

void add_api_key(CLI::App& app, ConfigArguments& arguments, const char* help) {
  app.add_option("--api-key", arguments.api_keys, help)->allow_extra_args(false);
}

constexpr char kKeyOfServer[] = "key to let in, each one a tenant; may be repeated";

std::vector<CLI::Option*> add_settings(CLI::App& app, ConfigArguments& arguments) {
  return {
      app.add_option("--config", arguments.file, "configuration file, see deploy/defaults.txtpb")
          ->check(not_empty()),
      app.add_option("--set",
                     arguments.settings,
                     "any option by its name: --set kv.bytes=1073741824; may be repeated; all with "
                     "their ranges: deploy/defaults.txtpb")
          ->allow_extra_args(false)};
}

// A directory left empty is a script's unset variable.
CLI::Validator names_store(std::string_view option) {
  return {[option](const std::string& value) {
            return option == "kv.dir" && value.empty()
                       ? "is empty; name a directory, or keep no KV: --set kv.store=none"
                       : std::string();
          },
          ""};
}

std::string help_of(const ConfigFlag& flag) {
  const std::string bounds = option_bounds(flag.option);
  return bounds.empty() ? flag.help : flag.help + (" (" + bounds + ")");
}

// Returns what it adds: the arguments that mean something only to a server in this process.
std::vector<CLI::Option*> add_config_arguments(CLI::App& app, ConfigArguments& arguments) {
  std::vector<CLI::Option*> added = add_settings(app, arguments);
  added.push_back(app.add_option("model",
                                 arguments.model,
                                 "model directory (config.json, *.safetensors, tokenizer.json); "
                                 "default: the built-in model")
                      ->check(not_empty()));
  for (const ConfigFlag& flag : kConfigFlags) {
    added.push_back(app.add_option_function<std::string>(
        flag.flag,
        [&arguments, &flag](const std::string& value) {
          arguments.flags.emplace_back(&flag, value);
        },
        help_of(flag)));
    added.back()->check(names_store(flag.option));
  }
  return added;
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

void add_serve(CLI::App& app, CommandLine& line) {
  CLI::App* serve = app.add_subcommand("serve", "serve a model over HTTP until SIGTERM");
  add_config_arguments(*serve, line.config);
  add_api_key(*serve, line.config, kKeyOfServer);
  serve->footer(
      "Examples:\n  shoal serve\n  shoal serve MODEL_DIR --port 8080 --max-num-seqs 32 --api-key "
      "SECRET\n  shoal serve --device sim --set sim.step_ns=20000000");
  serve->callback([&line] {
    line.status =
        with_config(line.config, [](const ConfigSources& s) { return run_serve(s.config); });
  });
}

void add_node(CLI::App& app, CommandLine& line) {
  CLI::App* node =
      app.add_subcommand("node", "run one node of a cluster until SIGTERM, as a file names it");
  node->add_option("--topology", line.node.topology, "topology file, see deploy/topologies")
      ->check(not_empty())
      ->required();
  node->add_option("--name", line.node.name, "name of the node in it")
      ->check(not_empty())
      ->required();
  node->footer(
      "Examples:\n"
      "  shoal node --topology deploy/topologies/one-host.txtpb --name front\n"
      "  shoal node --topology deploy/topologies/one-host.txtpb --name prefill\n"
      "  shoal node --topology deploy/topologies/one-host.txtpb --name decode");
  node->callback([&line] { line.status = run_node(line.node); });
}

// Option::excludes() would do the same, and say so at every flag in the help.
void refuse_beside_url(const std::vector<CLI::Option*>& own_server) {
  for (const CLI::Option* option : own_server) {
    if (option->count() > 0) {
      throw CLI::ExcludesError(
          option->get_name() + " is for an own server, --url names a running one; give one of them",
          CLI::ExitCodes::ExcludesError);
    }
  }
}

void add_chat(CLI::App& app, CommandLine& line) {
  CLI::App* chat = app.add_subcommand(
      "chat",
      "talk to a model: one in this process, or a server's (--url); a pipe gets answers only");
  const std::vector<CLI::Option*> own_server = add_config_arguments(*chat, line.config);
  add_api_key(*chat, line.config, "key sent to the server, the one of --url or the own one");
  chat->add_option("--url",
                   line.chat.url,
                   "a running server, http://HOST:PORT, instead of an own one with the flags above")
      ->check(not_empty());
  chat->add_option("--system", line.chat.system, "system message");
  chat->add_option("--effort", line.chat.effort, "how hard to think; default: the server's")
      ->check(CLI::IsMember({"none", "low", "high", "max"}));
  chat->add_option("--max-tokens", line.chat.max_tokens, "longest answer; default: the server's")
      ->check(CLI::Range(1, kMostTokens));
  chat->footer(
      "Examples:\n  shoal chat --effort none\n  shoal chat --url http://127.0.0.1:8000 --api-key "
      "SECRET --system 'Be brief.'\n  echo 'What is shoal?' | shoal chat --effort none");
  chat->callback([&line, own_server] {
    if (!line.chat.url.empty()) {
      refuse_beside_url(own_server);
    }
    line.status = with_config(line.config,
                              [&line](const ConfigSources& s) { return run_chat(line.chat, s); });
  });
}

void add_explain(CLI::App& app, CommandLine& line) {
  CLI::App* explain =
      app.add_subcommand("explain", "what a running server did for a request, step by step");
  explain->add_option("id", line.explain.id, "id of an answer (chatcmpl-...), or its x-request-id")
      ->required();
  explain->add_option("--url", line.explain.url, "the server, http://HOST:PORT")
      ->check(not_empty())
      ->capture_default_str();
  explain->add_option("--api-key", line.explain.api_key, "key sent to the server")
      ->check(not_empty());
  explain->footer(
      "Examples:\n  shoal explain chatcmpl-0123456789abcdefghijklmn\n  shoal explain "
      "my-request-7 --url http://127.0.0.1:8000 --api-key SECRET");
  explain->callback([&line] { line.status = run_explain(line.explain); });
}

void add_config(CLI::App& app, CommandLine& line) {
  CLI::App* show =
      app.add_subcommand("config", "print every option, its value and where that came from");
  add_config_arguments(*show, line.config);
  add_api_key(*show, line.config, kKeyOfServer);
  show->footer("Example:\n  shoal config --config my.txtpb --port 8080");
  show->callback([&line] {
    line.status = with_config(line.config, [](const ConfigSources& s) { return run_config(s); });
  });
}

void add_generate_flags(CLI::App& app, GenerateOptions& o) {
  app.add_option("--model", o.model, "model directory")->check(not_empty())->capture_default_str();
  app.add_option("--device", o.device, "cpu; or sim: reads no weights, answers from hashes")
      ->capture_default_str();
  app.add_option(
      "--ids", o.ids, "prompt as comma-separated token ids; prints ids and top-2 margins");
  app.add_option(
      "--prompt", o.prompt, "prompt as text; spellings of control tokens become control tokens");
  app.add_option("--max-tokens", o.max_tokens, "most tokens to generate")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  app.add_option("--temperature", o.temperature, "0: greedy")
      ->check(real(0.0, 2.0))
      ->capture_default_str();
  app.add_option("--top-p", o.top_p)->check(real(0.0, 1.0))->capture_default_str();
  app.add_option("--top-k", o.top_k, "0: off")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str();
  app.add_option("--seed", o.seed)->capture_default_str();
  app.add_option("--threads", o.threads, "compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_eos, "go on behind the end token");
}

void add_generate(CLI::App& app, CommandLine& line) {
  CLI::App* one =
      app.add_subcommand("generate", "generate straight on the device, without a server");
  add_generate_flags(*one, line.generate);
  one->footer(
      "Examples:\n  shoal generate --prompt '<｜begin▁of▁sentence｜><｜User｜>What is "
      "shoal?<｜Assistant｜></think>'\n"
      "  shoal generate --model DIR --ids 0,2436,300 --max-tokens 16");
  one->callback([&line] { line.status = run_generate(line.generate); });
}

struct CodecCommand {
  CodecTask task;
  const char* name;
  const char* help;
  const char* example;
};

constexpr CodecCommand kCodecCommands[] = {
    {CodecTask::kRender,
     "render",
     "prompt of a request body: {id, dialect, body, options} to {id, prompt, control, ids} or {id, "
     "error}",
     R"(echo '{"id":1,"dialect":"chat","body":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"}' | shoal codec render)"},
    {CodecTask::kTokenize,
     "tokenize",
     "token ids of a text: {id, text} or {id, text_runs: [[text, count], ...]} to {id, ids}",
     R"(echo '{"id":1,"text":"Hello there."}' | shoal codec tokenize)"},
    {CodecTask::kDecode,
     "decode",
     "text of token ids: {id, ids} to {id, bytes_hex, text}",
     R"(echo '{"id":1,"ids":[43,1075,705]}' | shoal codec decode)"},
    {CodecTask::kParse,
     "parse",
     "message of a generated answer: {id, request, chunks, finish} to {id, steps, final}",
     R"(echo '{"id":1,"request":{"model":"m","messages":[{"role":"user","content":"Hi"}]},"chunks":[{"ids":[43]}],"finish":"stop"}' | shoal codec parse)"},
};

void add_codec(CLI::App& app, CommandLine& line) {
  CLI::App* codec = app.add_subcommand("codec", "JSON Lines in, JSON Lines out, without a model");
  codec->require_subcommand(1);
  codec->footer("Example:\n  shoal codec tokenize --model DIR < cases.jsonl");
  for (const CodecCommand& command : kCodecCommands) {
    CLI::App* sub = codec->add_subcommand(command.name, command.help);
    sub->add_option("--model", line.codec.model, "model directory: its tokenizer.json")
        ->check(not_empty())
        ->capture_default_str();
    sub->add_option("--tokenizer", line.codec.tokenizer, "a tokenizer.json instead")
        ->check(not_empty());
    sub->add_option("--placeholder",
                    line.codec.placeholder,
                    "spelling of an image in prompts; default: the model's");
    sub->add_flag("--as-served",
                  line.codec.as_served,
                  "render: with what shoal's API accepts beyond the official one");
    sub->footer(std::string("Example:\n  ") + command.example);
    sub->callback([&line, &command] {
      line.codec.task = command.task;
      line.status = run_codec(line.codec);
    });
  }
}

void add_tokenize(CLI::App& app, CommandLine& line) {
  CLI::App* ids =
      app.add_subcommand("tokenize", "print the token ids of a text (argument or standard input)");
  ids->add_option("text", line.tokenize.text, "the text");
  ids->add_option("--model", line.tokenize.model, "model directory")
      ->check(not_empty())
      ->capture_default_str();
  ids->add_flag("--parse-special",
                line.tokenize.parse_special,
                "spellings of control tokens become control tokens");
  ids->footer("Example:\n  shoal tokenize 'Hello there.'");
  ids->callback([&line] { line.status = run_tokenize(line.tokenize); });
}

struct KvCommand {
  KvTask task;
  const char* name;
  const char* help;
  const char* example;
};

constexpr KvCommand kKvCommands[] = {
    {KvTask::kStat,
     "stat",
     "how much is in a store, and how old it is",
     "shoal kv stat\n  shoal kv stat DIR"},
    {KvTask::kList,
     "ls",
     "one line a block that a server that starts now would find",
     "shoal kv ls"},
    {KvTask::kVerify,
     "verify",
     "read every block and segment and check it; status 1 if any is damaged",
     "shoal kv verify --config my.txtpb"},
    {KvTask::kScrub, "scrub", "verify, and take damaged blocks out", "shoal kv scrub"},
    {KvTask::kEvict,
     "evict",
     "take blocks out, the longest unused first",
     "shoal kv evict --to-bytes 1000000000\n  shoal kv evict DIR --class chat --older-than 24"},
    {KvTask::kExport,
     "export",
     "write every good block into the store of another directory, with the time of its last use",
     "shoal kv export DIR OTHER_DIR --to NEW_DIR"},
};

void add_evict_flags(CLI::App& app, KvOptions& o) {
  app.add_option("--class", o.ttl, "only of this class")
      ->check(CLI::IsMember({"agent", "chat", "pinned"}));
  app.add_option("--older-than", o.older_than_hours, "only what was last used so many hours ago")
      ->check(real(0, 1e18));
  app.add_option("--to-bytes", o.to_bytes, "until no more than this is left; 0: all that match")
      ->check(real(0, 1e18))
      ->capture_default_str();
}

// A forgotten flag must not empty a store.
void refuse_evicting_all(const CLI::App& evict) {
  for (const char* flag : {"--class", "--older-than", "--to-bytes"}) {
    if (evict.get_option(flag)->count() > 0) {
      return;
    }
  }
  throw CLI::RequiredError("say which: --class, --older-than or --to-bytes (0 for all)",
                           CLI::ExitCodes::RequiredError);
}

void add_kv(CLI::App& app, CommandLine& line) {
  CLI::App* kv =
      app.add_subcommand("kv", "look into and clean the KV stores of servers, running or not");
  kv->require_subcommand(1);
  kv->footer("Example:\n  shoal kv stat");
  for (const KvCommand& command : kKvCommands) {
    CLI::App* sub = kv->add_subcommand(command.name, command.help);
    sub->add_option("stores",
                    line.kv.stores,
                    "directories of stores, or rados:POOL/STORE (kv.ceph_conf, kv.ceph_user); "
                    "default: where `shoal serve` keeps its KV")
        ->check(not_empty());
    add_settings(*sub, line.config);
    if (command.task == KvTask::kEvict) {
      add_evict_flags(*sub, line.kv);
    } else if (command.task == KvTask::kExport) {
      sub->add_option("--to", line.kv.to, "the directory, created if need be, or rados:POOL/STORE")
          ->check(not_empty())
          ->required();
    }
    const bool tells_provenance = command.task == KvTask::kStat || command.task == KvTask::kList;
    sub->footer((tells_provenance ? std::string("Blocks are\n  ") + kExactBlocks + "\n  " +
                                        kBoundedBlocks + "\n\n"
                                  : std::string()) +
                "Example:\n  " + command.example);
    sub->callback([&line, &command, sub] {
      if (command.task == KvTask::kEvict) {
        refuse_evicting_all(*sub);
      }
      line.kv.task = command.task;
      line.status = with_config(
          line.config, [&line](const ConfigSources& s) { return run_kv(line.kv, s.config); });
    });
  }
}

void add_models(CLI::App& app, CommandLine& line) {
  CLI::App* models = app.add_subcommand("models", "list the model directories under a folder");
  models->add_option("directory", line.models_directory, "the folder")
      ->check(not_empty())
      ->capture_default_str();
  models->footer("Example:\n  shoal models /data/models");
  models->callback([&line] { line.status = run_models(line.models_directory); });
}

}  // namespace

void add_commands(CLI::App& app, CommandLine& line) {
  app.require_subcommand(1);
  app.set_version_flag("--version", kVersionLine, "Print the version and exit");
  app.footer(
      "Examples:\n  shoal serve\n  shoal serve MODEL_DIR --port 8080 --api-key SECRET\n  shoal "
      "chat --effort none\n  shoal generate --ids 0,2436,300");
  for (std::string* model : {&line.generate.model, &line.codec.model, &line.tokenize.model}) {
    *model = SHOAL_BUILTIN_MODEL;
  }
  line.models_directory = SHOAL_MODELS;
  add_serve(app, line);
  add_node(app, line);
  add_chat(app, line);
  add_explain(app, line);
  add_generate(app, line);
  add_codec(app, line);
  add_tokenize(app, line);
  add_models(app, line);
  add_kv(app, line);
  add_config(app, line);
  add_bench(app, line.status);
  add_sim(app, line);
  add_plan(app, line);
  CLI::App* version = app.add_subcommand("version", "print the version");
  version->footer("Example:\n  shoal version");
  version->callback([&line] { line.status = run_version(); });
}

}  // namespace shoal::tools
