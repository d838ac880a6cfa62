// The subcommands of shoal: each takes its options as plain values and returns the exit status.
// Errors go to stderr, one line each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config.h"
#include "schemas/result.h"

namespace shoal::tools {

struct GenerateOptions {
  std::string model;
  std::string device = "cpu";
  std::string ids;     // comma-separated token ids; or
  std::string prompt;  // text; spellings of control tokens become control tokens
  int max_tokens = 64;
  float temperature = 0;
  float top_p = 1;
  int top_k = 0;
  std::uint64_t seed = 0;
  int threads = 1;
  bool ignore_eos = false;
};

struct TokenizeOptions {
  std::string model;
  std::string text;  // empty: standard input
  bool parse_special = false;
};

enum class CodecTask : std::uint8_t { kRender, kTokenize, kDecode, kParse };

struct CodecOptions {
  CodecTask task = CodecTask::kRender;
  std::string model;
  std::string tokenizer;    // a tokenizer.json; empty: the model's
  std::string placeholder;  // spelling of an image in prompts; empty: the profile's
  bool as_served = false;   // with what shoal's API adds to the official one
};

struct ChatCommandOptions {
  std::string url;     // of a running server; empty: one in this process
  std::string system;  // the system message; empty: none
  std::string effort;  // low, high, max or none; empty: the server's default
  int max_tokens = 0;  // 0: the server's default
};

struct NodeCommandOptions {
  std::string topology;  // the file
  std::string name;      // of the node in it
};

struct ExplainOptions {
  std::string id;  // of an answer, or its x-request-id
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
};

struct PlanOptions {
  std::string workload = "agents-155t";  // a file, or a name in deploy/workloads
  std::string machine = "gb200-nvl72";   // a file, or a name in deploy/machines
  double input_tokens = 0;               // a day; 0, and below: the file's
  double output_tokens = 0;
  double prompt_tokens = 0;
  double hit_share = -1;
  std::int64_t ttft_ms = 0;
  double user_rate = 0;
  bool all = false;        // layouts, not only the best
  bool economics = false;  // one of these instead of a plan
  bool storage = false;
  bool validate = false;
  bool json = false;
};

struct SimOptions {
  std::vector<std::string> scenarios;  // files, or folders of them; none: drawn from each seed
  std::uint64_t seed = 1;
  std::string seeds;            // "A..B", instead of seed
  int nodes = 3;                // of drawn scenarios
  std::string topology;         // file whose nodes they have instead
  std::string trace;            // file whose requests come in place of drawn ones
  std::int64_t requests = 200;  // of the trace, the first ones; 0: all
  double rate = 1;              // its arrivals and pauses are that many times shorter
  bool keeps_kv = false;        // all nodes keep KV in a store, whatever the scenario says
  bool shrink = false;
  std::string log;  // file for the events of a single run, or for the progress of a range
  // A fleet without actors instead.
  std::string fleet;                 // its file
  std::vector<std::string> compare;  // ROLE:ROW of policies; none: the file's
  std::int64_t copies = 1;           // of the trace at once, at its own pace
  std::string rates;                 // file of rates that arrivals follow; empty: always the same
  std::string service;               // of it; empty: the first
  double hours = 1;                  // of arrivals; the trace comes again and again
  int from_hour = 0;                 // of the trace
  int to_hour = 0;                   // 0: its end
  std::string plot;                  // folder for charts
  bool json = false;
};

enum class KvTask : std::uint8_t { kStat, kList, kVerify, kScrub, kEvict, kExport };

// What `shoal kv` calls blocks, in its help and output.
inline constexpr char kExactBlocks[] =
    "exact: as every run from the first token on computes them; any request takes them";
inline constexpr char kBoundedBlocks[] =
    "bounded: computed behind a hit with rebuilt windows; requests with replay exact do not take "
    "them";

struct KvOptions {
  KvTask task = KvTask::kStat;
  std::vector<std::string> stores;  // directories, or rados:POOL/STORE; empty: as serve would
  std::string to;                   // export: another store
  std::string ttl;                  // evict: of this class only; empty: all
  double older_than_hours = 0;      // evict: last used before
  std::int64_t to_bytes = 0;        // evict: until no more than this is visible
};

// What `shoal version` and `shoal --version` print.
inline constexpr char kVersionLine[] = "shoal " SHOAL_VERSION;

// Prints "shoal: message" and returns 1.
int report(const Error& error);

int run_serve(const Config& config);
int run_node(const NodeCommandOptions& options);
int run_config(const ConfigSources& sources);
int run_generate(const GenerateOptions& options);
int run_tokenize(const TokenizeOptions& options);
int run_codec(const CodecOptions& options);
int run_chat(const ChatCommandOptions& options, ConfigSources sources);
int run_explain(const ExplainOptions& options);
int run_sim(const SimOptions& options);
int run_sim_fleet(const SimOptions& options);
int run_kv(const KvOptions& options, const Config& config);
int run_plan(const PlanOptions& options);
int run_models(const std::string& directory);
int run_version();

}  // namespace shoal::tools
