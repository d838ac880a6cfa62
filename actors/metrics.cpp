// The node's metrics in Prometheus text format: one table of name, kind, help and value.
#include "actors/metrics.h"

#include <string_view>

namespace shoal {
namespace {

struct Row {
  std::string_view name;
  std::string_view kind;
  std::string_view help;
  std::atomic<std::int64_t> NodeMetrics::*value;
};

// clang-format off
constexpr Row kRows[] = {
    {"shoal_attempts_total", "counter", "Attempts that reached the ledger.", &NodeMetrics::attempts},
    {"shoal_attempts_finished_total", "counter", "Attempts whose answer is complete.", &NodeMetrics::finished},
    {"shoal_attempts_cancelled_total", "counter", "Attempts ended by their client or a later attempt.", &NodeMetrics::cancelled},
    {"shoal_attempts_expired_total", "counter", "Attempts whose time passed.", &NodeMetrics::expired},
    {"shoal_ledger_open", "gauge", "Attempts in the ledger.", &NodeMetrics::ledger_open},
    {"shoal_gateway_open", "gauge", "Answers the gateway waits for.", &NodeMetrics::gateway_open},
    {"shoal_decode_queued", "gauge", "Answers waiting for a place in the decode batch.", &NodeMetrics::decode_queued},
    {"shoal_decode_live", "gauge", "Answers in the decode batch.", &NodeMetrics::decode_live},
    {"shoal_prefill_steps_total", "counter", "Prefill steps.", &NodeMetrics::prefill_steps},
    {"shoal_prefill_rows_total", "counter", "Tokens computed by prefill steps.", &NodeMetrics::prefill_rows},
    {"shoal_prefill_compute_ns_total", "counter", "Device time of prefill steps.", &NodeMetrics::prefill_compute_ns},
    {"shoal_decode_steps_total", "counter", "Decode steps.", &NodeMetrics::decode_steps},
    {"shoal_decode_rows_total", "counter", "Rows computed by decode steps, those of drafts included.", &NodeMetrics::decode_rows},
    {"shoal_drafts_fed_rows_total", "counter", "Rows of prompts and answers that the draft stages were shown.", &NodeMetrics::fed_rows},
    {"shoal_decode_tokens_total", "counter", "Tokens that decode steps drew for answers.", &NodeMetrics::decode_tokens},
    {"shoal_decode_yielded_total", "counter", "Running answers that left this node for another rank.", &NodeMetrics::decode_yielded},
    {"shoal_decode_compute_ns_total", "counter", "Device time of decode steps.", &NodeMetrics::decode_compute_ns},
    {"shoal_decode_idle_ns_total", "counter", "Time that devices had nothing to do between two steps of the same answers.", &NodeMetrics::decode_idle_ns},
    {"shoal_decode_turnaround_ns_total", "counter", "Time of decode steps from plan to answer.", &NodeMetrics::decode_turnaround_ns},
    {"shoal_kv_blocks", "gauge", "KV blocks of the device.", &NodeMetrics::kv_blocks},
    {"shoal_kv_blocks_free", "gauge", "KV blocks nobody holds.", &NodeMetrics::kv_blocks_free},
    {"shoal_kv_sequences", "gauge", "Sequence slots of the device.", &NodeMetrics::kv_sequences},
    {"shoal_kv_sequences_free", "gauge", "Sequence slots nobody holds.", &NodeMetrics::kv_sequences_free},
    {"shoal_kv_hit_tokens_total", "counter", "Tokens that attempts took from KV of earlier ones.", &NodeMetrics::kv_hit_tokens},
    {"shoal_kv_misses_total", "counter", "Attempts that found no KV of earlier ones.", &NodeMetrics::kv_misses},
    {"shoal_kv_loads_failed_total", "counter", "Loads that came to less than the hit that was found.", &NodeMetrics::kv_loads_failed},
    {"shoal_kv_corrupt_total", "counter", "Loads that met a damaged block.", &NodeMetrics::kv_corrupt},
    {"shoal_kv_loads_hedged_total", "counter", "Loads that were read a second time.", &NodeMetrics::kv_hedged},
    {"shoal_kv_leases", "gauge", "Attempts whose blocks are held in the KV store.", &NodeMetrics::kv_leases},
    {"shoal_kv_tails", "gauge", "Tails of answers that this node keeps.", &NodeMetrics::kv_tails},
    {"shoal_kv_tail_bytes", "gauge", "Their bytes.", &NodeMetrics::kv_tail_bytes},
    {"shoal_kv_blocks_stored_total", "counter", "Blocks that the KV store took.", &NodeMetrics::kv_stored},
    {"shoal_kv_blocks_dropped_total", "counter", "Blocks that it did not take.", &NodeMetrics::kv_dropped},
    {"shoal_kv_blocks_over_quota_total", "counter", "Blocks beyond what their tenant may add.", &NodeMetrics::kv_over_quota},
    {"shoal_link_waiting_bytes", "gauge", "Bytes that wait for nodes that do not keep up.", &NodeMetrics::link_waiting},
    {"shoal_parts_lost_total", "counter", "Actors that ended unexpectedly.", &NodeMetrics::parts_lost},
    {"shoal_pipelines_rebuilt_total", "counter", "Times all parts but the gateway were replaced.", &NodeMetrics::pipelines_rebuilt},
    {"shoal_links_lost_total", "counter", "Open links to other nodes that were lost.", &NodeMetrics::links_lost},
    {"shoal_envelopes_fenced_total", "counter", "Messages dropped because of their sender's epoch.", &NodeMetrics::envelopes_fenced},
    {"shoal_times_fenced_total", "counter", "Times this node was left out of the view and came back as another life.", &NodeMetrics::times_fenced},
};

// clang-format on

void append_head(std::string& out,
                 std::string_view name,
                 std::string_view kind,
                 std::string_view help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(kind).append("\n");
}

void append_value(std::string& out,
                  std::string_view name,
                  std::string_view labels,
                  std::int64_t value) {
  out.append(name).append(labels).append(" ").append(std::to_string(value)).append("\n");
}

}  // namespace

void CostMetrics::set(const CostFit& fit) {
  const CostCoefficients& k = fit.model().coefficients();
  error_ppm = fit.error_ppm();
  late_ppm = fit.late_ppm();
  steps = fit.steps();
  step_ns = k.step.count();
  row_ps = k.row_ps;
  near_fs = k.near_fs;
  pair_fs = k.pair_fs;
  deep_row_ps = k.deep_row_ps;
  deep_pair_fs = k.deep_pair_fs;
}

void DraftMetrics::set(const DraftFigures& figures) {
  const auto ppm = [](double value) { return static_cast<std::int64_t>(value * 1e6); };
  for (std::size_t place = 0; place < verified.size(); ++place) {
    verified[place] = figures.verified[place];
    accepted[place] = figures.accepted[place];
  }
  steps = figures.drafted;
  error_said_ppm = ppm(figures.error_as_said);
  error_tempered_ppm = ppm(figures.error_tempered);
  expected_gain_ppm = ppm(figures.expected_gain);
  true_gain_ppm = ppm(figures.true_gain);
}

int kv_age(std::int64_t milliseconds) {
  const std::int64_t seconds = milliseconds / 1000;
  return seconds < 60 ? 0 : seconds < 3600 ? 1 : seconds < 86400 ? 2 : 3;
}

std::string kv_store_text(const transport::BlockStore::Use& use) {
  struct Said {
    std::string_view name;
    std::string_view kind;
    std::string_view help;
    std::int64_t value;
  };

  std::string out;
  for (const Said& said : {
           Said{"shoal_kv_store_blocks", "gauge", "Blocks of the KV store.", use.blocks},
           Said{"shoal_kv_store_bytes", "gauge", "Bytes of their records.", use.bytes.value},
           Said{"shoal_kv_store_garbage_bytes",
                "gauge",
                "Bytes to be cleaned up.",
                use.garbage.value},
           Said{"shoal_kv_store_queued_bytes", "gauge", "Bytes not written yet.", use.queued.value},
           Said{"shoal_kv_store_loading_bytes", "gauge", "Bytes being read.", use.loading.value},
           Said{"shoal_kv_store_index_bytes", "gauge", "Memory of its index.", use.index.value},
           Said{"shoal_kv_store_held", "gauge", "Last blocks under leases.", use.held},
           Said{"shoal_kv_store_writable", "gauge", "0: it refuses writes.", use.writable ? 1 : 0},
           Said{"shoal_kv_store_opening",
                "gauge",
                "1: it still reads what is there.",
                use.opening ? 1 : 0},
           Said{"shoal_kv_store_puts_total", "counter", "Blocks to be written.", use.puts},
           Said{"shoal_kv_store_gets_total", "counter", "Blocks to be read.", use.gets},
           Said{
               "shoal_kv_store_misses_total", "counter", "Blocks that were not there.", use.misses},
           Said{"shoal_kv_store_corrupt_total", "counter", "Damaged records met.", use.corrupt},
           Said{"shoal_kv_store_broken_pages_total",
                "counter",
                "Index pages that do not read, and segments that were cut.",
                use.broken},
           Said{"shoal_kv_store_expired_total", "counter", "Blocks past their time.", use.expired},
           Said{"shoal_kv_store_evicted_total", "counter", "Blocks driven out.", use.evicted},
           Said{"shoal_kv_store_failed_total",
                "counter",
                "Calls that the medium refused, and spells without an answer.",
                use.failed},
       }) {
    append_head(out, said.name, said.kind, said.help);
    append_value(out, said.name, "", said.value);
  }
  return out;
}

using KvHits = decltype(NodeMetrics::kv_hits);

void append_hits(const KvHits& hits, std::string& out) {
  constexpr std::array<std::string_view, kKvTiers> kTiers = {"store", "tail"};
  constexpr std::array<std::string_view, kProvenances> kNames = {"exact", "bounded"};
  constexpr std::array<std::string_view, kKvAges> kAges = {"1m", "1h", "1d", "more"};
  append_head(out, "shoal_kv_hits_total", "counter", "Attempts that took KV of earlier ones.");
  for (std::size_t tier = 0; tier < kTiers.size(); ++tier) {
    for (std::size_t provenance = 0; provenance < kNames.size(); ++provenance) {
      for (std::size_t age = 0; age < kAges.size(); ++age) {
        std::string labels = "{tier=\"";
        labels.append(kTiers.at(tier)).append("\",provenance=\"").append(kNames.at(provenance));
        labels.append("\",age=\"").append(kAges.at(age)).append("\"}");
        append_value(out,
                     "shoal_kv_hits_total",
                     labels,
                     hits.at(tier).at(provenance).at(age).load(std::memory_order_relaxed));
      }
    }
  }
}

void append_costs(const CostMetrics& costs, const std::string& stage, std::string& out) {
  struct Said {
    std::string_view name;
    std::string_view help;
    const CostMetrics::Value& value;
  };

  const std::string prefix = "shoal_" + stage + "_";
  for (const Said& said : {
           Said{"cost_error_ppm",
                "How far off predicted step times were lately, millionths of the time.",
                costs.error_ppm},
           Said{"cost_late_ppm",
                "How much longer than predicted 95 % of steps took at most, millionths.",
                costs.late_ppm},
           Said{"cost_steps", "Steps that the predictions were learned from.", costs.steps},
           Said{"cost_step_ns", "Fixed time of a step.", costs.step_ns},
           Said{"cost_row_ps", "One row, of the encoder half where it is prefill.", costs.row_ps},
           Said{"cost_near_fs", "One row reading an entry close by.", costs.near_fs},
           Said{"cost_pair_fs", "One row looking at one earlier token.", costs.pair_fs},
           Said{"cost_deep_row_ps", "One row through the decoder half.", costs.deep_row_ps},
           Said{"cost_deep_pair_fs", "One such row looking at one token.", costs.deep_pair_fs},
       }) {
    const std::string name = prefix + std::string(said.name);
    append_head(out, name, "gauge", said.help);
    append_value(out, name, "", said.value.load(std::memory_order_relaxed));
  }
}

// One line a role.
void append_roles(std::string_view name,
                  std::string_view kind,
                  std::string_view help,
                  const std::array<std::int64_t, kScaledRoles>& values,
                  std::string& out) {
  append_head(out, name, kind, help);
  append_value(out, name, "{role=\"prefill\"}", values[kScaledPrefill]);
  append_value(out, name, "{role=\"decode\"}", values[kScaledDecode]);
}

void append_demand(const NodeMetrics& metrics, std::string& out) {
  const auto of_roles = [&metrics](std::atomic<std::int64_t> ScaleMetrics::*value) {
    std::array<std::int64_t, kScaledRoles> values{};
    for (std::size_t r = 0; r < values.size(); ++r) {
      values[r] = (metrics.autoscale[r].*value).load(std::memory_order_relaxed);
    }
    return values;
  };
  append_roles("shoal_demand_ns_total",
               "counter",
               "Device time that was asked for here.",
               {metrics.demand_ns[kScaledPrefill], metrics.demand_ns[kScaledDecode]},
               out);
  append_roles("shoal_autoscale_nodes",
               "gauge",
               "Nodes that are up, as the autoscaler counts (on its node).",
               of_roles(&ScaleMetrics::units),
               out);
  append_roles("shoal_autoscale_nodes_wanted",
               "gauge",
               "Nodes that there should be.",
               of_roles(&ScaleMetrics::wanted),
               out);
  append_roles("shoal_autoscale_demand_ns",
               "gauge",
               "Device time asked for in the whole cluster, a second.",
               of_roles(&ScaleMetrics::demand_ns),
               out);
  append_roles("shoal_autoscale_expected_ns",
               "gauge",
               "The same, as expected when a node asked for now is up.",
               of_roles(&ScaleMetrics::expected_ns),
               out);
}

void append_places(std::string_view name,
                   std::string_view help,
                   const std::array<DraftMetrics::Value, kMostDrafts>& values,
                   std::string& out) {
  append_head(out, name, "counter", help);
  for (std::size_t place = 0; place < values.size(); ++place) {
    append_value(out, name, "{place=\"" + std::to_string(place + 1) + "\"}", values[place]);
  }
}

void append_drafts(const DraftMetrics& drafts, std::string& out) {
  append_places("shoal_drafts_verified_total", "Drafts verified, by place.", drafts.verified, out);
  append_places("shoal_drafts_accepted_total", "Of those, accepted.", drafts.accepted, out);

  struct Said {
    std::string_view name;
    std::string_view kind;
    std::string_view help;
    const DraftMetrics::Value& value;
  };

  for (const Said& said :
       {Said{"shoal_drafts_steps_total", "counter", "Steps that made drafts.", drafts.steps},
        Said{"shoal_drafts_error_said_ppm",
             "gauge",
             "Calibration error of the confidence head.",
             drafts.error_said_ppm},
        Said{"shoal_drafts_error_tempered_ppm",
             "gauge",
             "The same by the temperatures in force.",
             drafts.error_tempered_ppm},
        Said{"shoal_drafts_expected_gain_ppm",
             "gauge",
             "Tokens a second with drafts over those without, by confidences.",
             drafts.expected_gain_ppm},
        Said{"shoal_drafts_gain_ppm",
             "gauge",
             "The same by what was accepted.",
             drafts.true_gain_ppm}}) {
    append_head(out, said.name, said.kind, said.help);
    append_value(out, said.name, "", said.value);
  }
}

std::string NodeMetrics::text() const {
  std::string out;
  for (const Row& row : kRows) {
    append_head(out, row.name, row.kind, row.help);
    append_value(out, row.name, "", (this->*row.value).load(std::memory_order_relaxed));
  }
  append_costs(prefill_cost, "prefill", out);
  append_costs(decode_cost, "decode", out);
  append_drafts(drafts, out);
  append_hits(kv_hits, out);
  append_demand(*this, out);
  append_head(out, "shoal_attempts_failed_total", "counter", "Attempts that failed, by reason.");
  for (int c = 0; c < kCodeCount; ++c) {
    const std::string label = "{code=\"" + std::string(to_string(static_cast<Code>(c))) + "\"}";
    append_value(out,
                 "shoal_attempts_failed_total",
                 label,
                 failed[static_cast<std::size_t>(c)].load(std::memory_order_relaxed));
  }
  append_head(out,
              "shoal_prefill_queued",
              "gauge",
              "Requests waiting for a prefill instance, by length class.");
  for (int k = 0; k < kPrefillClasses; ++k) {
    const std::string label = "{class=\"" + std::to_string(k) + "\"}";
    append_value(out,
                 "shoal_prefill_queued",
                 label,
                 prefill_queued[static_cast<std::size_t>(k)].load(std::memory_order_relaxed));
  }
  return out;
}

}  // namespace shoal
