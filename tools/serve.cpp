// shoal serve: a node that is the whole cluster. shoal config: what serve would run with.
#include <chrono>
#include <cstdio>

#include "tools/commands.h"
#include "tools/local_server.h"
#include "tools/server_life.h"
#include "tools/server_plan.h"

namespace shoal::tools {

namespace {

void print_ready(const LocalServer& server, Nanos took, bool has_keys) {
  const std::string url = server.url();
  std::printf(
      "shoal serves %s at %s (ready in %lld ms)\n",
      server.model_name().c_str(),
      url.c_str(),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  if (!server.pages_url().empty()) {
    std::printf("pages for monitors at %s\n", server.pages_url().c_str());
  }
  std::printf("%s\n", server.kv_text().c_str());
  std::printf(
      "try: curl -s %s/v1/chat/completions %s-H 'Content-Type: application/json' -d '{\"model\": "
      "\"%s\", \"messages\": "
      "[{\"role\": \"user\", \"content\": \"What is shoal?\"}], \"thinking\": {\"type\": "
      "\"disabled\"}}'\n",
      url.c_str(),
      has_keys ? "-H 'Authorization: Bearer KEY' " : "",
      server.model_name().c_str());
  std::fflush(stdout);
}

}  // namespace

int run_serve(const Config& config) {
  return run_until_signal(
      {[&config] { return LocalServer::start(config); },
       [has_keys = config.http().api_key_size() > 0](const LocalServer& server, Nanos took) {
         print_ready(server, took, has_keys);
       },
       std::chrono::milliseconds(config.request().drain_ms())});
}

int run_config(const ConfigSources& sources) {
  if (const auto plan = plan_server(sources.config); !plan) {
    return report(plan.error());
  }
  std::fputs(describe_config(sources).c_str(), stdout);
  return 0;
}

}  // namespace shoal::tools
