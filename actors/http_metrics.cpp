// The Prometheus page of the HTTP side: shoal's names, and vLLM's where the meaning is the same.
#include "actors/http_metrics.h"

#include <charconv>
#include <chrono>
#include <utility>

namespace shoal {
namespace {

void append_number(std::string& out, double value) {
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, written.ptr);
}

void append_header(std::string& out,
                   std::string_view name,
                   std::string_view type,
                   std::string_view help) {
  out.append("# HELP ")
      .append(name)
      .append(" ")
      .append(help)
      .append("\n# TYPE ")
      .append(name)
      .append(" ")
      .append(type);
  out += '\n';
}

void append_sample(std::string& out,
                   std::string_view name,
                   std::string_view labels,
                   std::int64_t value) {
  out += name;
  if (!labels.empty())
    out.append("{").append(labels).append("}");
  out.append(" ").append(std::to_string(value)).append("\n");
}

struct Page {
  std::string out;
  std::string model_label;

  void single(std::string_view name,
              std::string_view type,
              std::string_view help,
              std::int64_t value) {
    append_header(out, name, type, help);
    append_sample(out, name, {}, value);
  }

  // The same number under our name and under the one vLLM's dashboards read.
  void aliased(std::string_view ours,
               std::string_view vllm,
               std::string_view type,
               std::string_view help,
               std::int64_t value) {
    single(ours, type, help, value);
    append_header(out, vllm, type, help);
    append_sample(out, vllm, model_label, value);
  }

  void histogram(std::string_view ours,
                 std::string_view vllm,
                 std::string_view help,
                 const LatencyHistogram& values) {
    append_header(out, ours, "histogram", help);
    values.append(out, ours, {});
    append_header(out, vllm, "histogram", help);
    values.append(out, vllm, model_label);
  }
};

void append_outcomes(Page& page, const HttpMetrics& metrics) {
  append_header(page.out, "shoal_http_replies_total", "counter", "Answers by class of status.");
  for (std::size_t status = 1; status < metrics.replies_by_class.size(); ++status) {
    append_sample(page.out,
                  "shoal_http_replies_total",
                  "class=\"" + std::to_string(status) + "xx\"",
                  metrics.replies_by_class[status]);
  }
  append_header(
      page.out, "shoal_choices_finished_total", "counter", "Answers made, by how they ended.");
  append_sample(page.out, "shoal_choices_finished_total", "reason=\"stop\"", metrics.finished_stop);
  append_sample(
      page.out, "shoal_choices_finished_total", "reason=\"length\"", metrics.finished_length);
  append_sample(
      page.out, "shoal_choices_finished_total", "reason=\"error\"", metrics.finished_error);
  append_header(page.out,
                "vllm:request_success_total",
                "counter",
                "Answers that ended well, by how they ended.");
  append_sample(page.out,
                "vllm:request_success_total",
                page.model_label + ",finished_reason=\"stop\"",
                metrics.finished_stop);
  append_sample(page.out,
                "vllm:request_success_total",
                page.model_label + ",finished_reason=\"length\"",
                metrics.finished_length);
  append_header(
      page.out, "shoal_clients_gone_total", "counter", "Answers cut before their end, by cause.");
  static constexpr std::string_view kCauses[] = {"closed", "stalled", "too_slow", "shutdown"};
  for (std::size_t cause = 0; cause < metrics.clients_gone.size(); ++cause) {
    append_sample(page.out,
                  "shoal_clients_gone_total",
                  "cause=\"" + std::string(kCauses[cause]) + "\"",
                  metrics.clients_gone[cause]);
  }
}

}  // namespace

void LatencyHistogram::observe(Nanos elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  std::size_t bucket = 0;
  while (bucket < kEdges.size() && seconds > kEdges[bucket])
    ++bucket;
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  total_ns_.fetch_add(elapsed.count(), std::memory_order_relaxed);
}

void LatencyHistogram::append(std::string& out,
                              std::string_view name,
                              std::string_view labels) const {
  const std::string separator = labels.empty() ? "" : std::string(labels) + ",";
  std::int64_t below = 0;
  for (std::size_t bucket = 0; bucket <= kEdges.size(); ++bucket) {
    below += counts_[bucket];
    out.append(name).append("_bucket{").append(separator).append("le=\"");
    if (bucket < kEdges.size()) {
      append_number(out, kEdges[bucket]);
    } else {
      out += "+Inf";
    }
    out.append("\"} ").append(std::to_string(below)).append("\n");
  }
  const std::string set = labels.empty() ? " " : "{" + std::string(labels) + "} ";
  out.append(name).append("_sum").append(set);
  append_number(out, std::chrono::duration<double>(Nanos(total_ns_.load())).count());
  out.append("\n")
      .append(name)
      .append("_count")
      .append(set)
      .append(std::to_string(below))
      .append("\n");
}

std::string HttpMetrics::text(std::string_view model) const {
  Page page;
  page.model_label = "model_name=\"" + std::string(model) + "\"";
  page.single("shoal_http_connections", "gauge", "Open connections.", connections);
  page.single("shoal_http_busy_connections",
              "gauge",
              "Connections with an answer to make or bytes to send.",
              busy_connections);
  page.single("shoal_http_body_bytes",
              "gauge",
              "Bytes of bodies being read or waiting to be parsed.",
              body_bytes);
  page.aliased("shoal_choices_running",
               "vllm:num_requests_running",
               "gauge",
               "Answers whose tokens arrive.",
               choices_running);
  page.aliased("shoal_choices_waiting",
               "vllm:num_requests_waiting",
               "gauge",
               "Answers without a token yet.",
               choices_waiting);
  append_outcomes(page, *this);
  page.aliased("shoal_prompt_tokens_total",
               "vllm:prompt_tokens_total",
               "counter",
               "Prompt tokens of started answers.",
               prompt_tokens);
  page.single(
      "shoal_cached_prompt_tokens_total",
      "counter",
      "Prompt tokens whose KV came from the store or a tail; windows behind them may run again.",
      cached_tokens);
  page.aliased("shoal_generation_tokens_total",
               "vllm:generation_tokens_total",
               "counter",
               "Tokens sent.",
               generation_tokens);
  page.single("shoal_stream_retries_total", "counter", "Attempts after the first one.", retries);
  page.single("shoal_http_socket_writes_total", "counter", "Writes to sockets.", socket_writes);
  page.single("shoal_http_bytes_sent_total", "counter", "Bytes written to sockets.", bytes_sent);
  page.single(
      "shoal_http_bytes_received_total", "counter", "Bytes read from sockets.", bytes_received);
  page.histogram("shoal_time_to_first_token_seconds",
                 "vllm:time_to_first_token_seconds",
                 "Request to first token.",
                 first_token);
  page.histogram("shoal_time_between_tokens_seconds",
                 "vllm:inter_token_latency_seconds",
                 "Between batches of tokens of an answer.",
                 between_tokens);
  page.histogram("shoal_request_seconds",
                 "vllm:e2e_request_latency_seconds",
                 "Request to end of its answer.",
                 whole_request);
  return std::move(page.out);
}

}  // namespace shoal
