// Counts of rows are of the gate's choices; a layer's imbalance is that of its experts, before
// replicas even it out.
#include "actors/expert_metrics.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace shoal {
namespace {

void head(std::string& out, std::string_view name, std::string_view kind, std::string_view help) {
  out += "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " + std::string(name) +
         " " + std::string(kind) + "\n";
}

void line(std::string& out, std::string_view name, std::string_view label, std::string value) {
  out += std::string(name) + std::string(label) + " " + std::move(value) + "\n";
}

std::string labelled(std::string_view label, std::size_t value) {
  return "{" + std::string(label) + "=\"" + std::to_string(value) + "\"}";
}

void add_exchange(std::string& out, const transport::ExpertExchange::Use& use) {
  struct Said {
    std::string_view name;
    std::string_view kind;
    std::string_view help;
    std::int64_t value;
  };

  for (const Said& said :
       {Said{"shoal_expert_exchanges_total", "counter", "Layers combined.", use.combined},
        Said{"shoal_expert_exchanges_failed_total", "counter", "Layers lost.", use.failed},
        Said{"shoal_expert_hops_total", "counter", "Batches sent to shards.", use.hops},
        Said{"shoal_expert_sent_bytes_total", "counter", "Bytes of them.", use.sent.value},
        Said{"shoal_expert_received_bytes_total",
             "counter",
             "Bytes of their outputs.",
             use.received.value},
        Said{"shoal_expert_runs_total", "counter", "Runs of shards.", use.runs},
        Said{"shoal_expert_in_flight_bytes",
             "gauge",
             "Bytes of batches on the way and of the outputs they wait for.",
             use.in_flight.value}}) {
    head(out, said.name, said.kind, said.help);
    line(out, said.name, "", std::to_string(said.value));
  }
}

template <class Shards>
void add_shards(std::string& out, const Shards& shards) {
  constexpr std::string_view kName = "shoal_expert_weights_bytes";
  head(out, kName, "gauge", "Bytes of the experts that a shard holds; 0: it is away.");
  for (std::uint32_t shard = 0; shard < shards.count(); ++shard) {
    line(out, kName, labelled("shard", shard), std::to_string(shards.use(shard).weights.value));
  }
}

void add_layers(std::string& out, const std::vector<std::vector<std::int64_t>>& routed) {
  constexpr std::string_view kRows = "shoal_expert_rows_total";
  head(out, kRows, "counter", "Rows given to the experts of a layer, each once for each expert.");
  for (std::size_t layer = 0; layer < routed.size(); ++layer) {
    const auto rows = std::accumulate(routed[layer].begin(), routed[layer].end(), std::int64_t{0});
    line(out, kRows, labelled("layer", layer), std::to_string(rows));
  }
  constexpr std::string_view kBusiest = "shoal_expert_busiest_rows_total";
  head(out, kBusiest, "counter", "Of those, rows of the expert that got most.");
  for (std::size_t layer = 0; layer < routed.size(); ++layer) {
    line(out,
         kBusiest,
         labelled("layer", layer),
         std::to_string(*std::ranges::max_element(routed[layer])));
  }
}

}  // namespace

std::string expert_text(const ExpertShards& shards) {
  std::string out;
  add_exchange(out, shards.exchange_use());
  add_shards(out, shards);
  add_layers(out, shards.routed());
  return out;
}

std::string expert_text(const transport::ExpertExchange::Use& use) {
  std::string out;
  add_exchange(out, use);
  return out;
}

std::string expert_text(const ExpertHost& host) {
  std::string out;
  add_shards(out, host);
  constexpr std::string_view kEpoch = "shoal_expert_served_epoch";
  head(out, kEpoch, "gauge", "The placement that a shard serves; 0: none.");
  for (std::uint32_t shard = 0; shard < host.count(); ++shard) {
    line(out, kEpoch, labelled("shard", shard), std::to_string(host.served(shard).value));
  }
  const ExpertHostMoves moves = host.moves();
  const auto add = [&out](std::string_view name, std::string_view help, std::int64_t value) {
    head(out, name, "counter", help);
    line(out, name, "", std::to_string(value));
  };
  add("shoal_expert_loaded_total", "Experts brought to shards of this node.", moves.experts);
  add("shoal_expert_loaded_bytes_total", "Bytes of them.", moves.bytes.value);
  add("shoal_expert_load_ns_total", "Time of loading, beside the runs.", moves.time.count());
  add("shoal_expert_loads_given_up_total",
      "Placements that a shard could not load, or was to load no more.",
      moves.failed);
  return out;
}

std::string expert_text(const ExpertSource& source) {
  std::string out;
  add_exchange(out, source.exchange_use());
  add_layers(out, source.routed());
  return out;
}

}  // namespace shoal
