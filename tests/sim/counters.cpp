// One row a counter: the event's name and words that its line has.
#include "tests/sim/counters.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/sim/event_line.h"

namespace shoal::sim {
namespace {

struct Row {
  std::string_view counter;
  std::string_view event;
  std::array<std::string_view, 3> words{};
};

// clang-format off
constexpr Row kRows[] = {
    {"finished", "request.finished", {"event=answer_done"}},
    {"stopped_by_string", "request.finished", {"event=stopped"}},
    {"superseded", "request.cancelled", {"event=superseded"}},
    {"client_left", "request.cancelled", {"event=client_left"}},
    {"handed_over_again", "request.queued_decode", {"event=decode_lost"}},
    {"answer_moved", "request.queued_decode", {"event=decode_yielded"}},
    {"drafts_verified", "decode.drafts", {}},
    {"move_given_up", "decode.not_moved", {}},
    {"second_attempt", "request.received", {"attempt=2"}},
    {"third_attempt", "request.received", {"attempt=3"}},
    {"expired_received", "request.expired", {"deadline passed while it was received"}},
    {"expired_queued", "request.expired", {"deadline passed while it was queued\""}},
    {"expired_prefilling", "request.expired", {"deadline passed while it was prefilling"}},
    {"expired_queued_decode", "request.expired", {"deadline passed while it was queued_decode"}},
    {"expired_handing_over", "request.expired", {"deadline passed while it was handing_over"}},
    {"expired_decoding", "request.expired", {"deadline passed while it was decoding"}},
    {"state_too_long", "request.expired", {"for too long"}},
    {"refused_for_capacity", "request.failed", {"code=no_capacity"}},
    {"event_ignored", "request.ignored", {}},
    {"event_after_later_one", "request.ignored", {"came already"}},
    {"node_killed", "world.kill", {}},
    {"node_started_again", "world.restart", {}},
    {"node_stopped", "world.pause", {}},
    {"node_drained", "world.drain", {}},
    {"node_fenced", "node.fenced", {}},
    {"node_joined_again", "node.joined", {}},
    {"view_published", "membership.view", {}},
    {"view_not_published", "membership.not_published", {}},
    {"store_failed", "membership.store_failed", {}},
    {"owner_was_away", "membership.was_away", {}},
    {"node_left", "peer.left", {}},
    {"link_lost_open", "peer.down", {"open=1"}},
    {"link_silent", "peer.down", {"silent for too long"}},
    {"link_left_view", "peer.down", {"left the view"}},
    {"link_refused", "peer.down", {"refused:"}},
    {"second_link_refused", "peer.down", {"another link of this node is alive"}},
    {"dial_failed", "peer.dial_failed", {}},
    {"envelope_fenced", "peer.fenced", {}},
    {"gateway_lost", "part.lost", {"part=gateway"}},
    {"router_lost", "part.lost", {"part=router"}},
    {"prefill_balancer_lost", "part.lost", {"part=prefill_balancer"}},
    {"decode_balancer_lost", "part.lost", {"part=decode_balancer"}},
    {"prefill_group_lost", "part.lost", {"part=prefill_group"}},
    {"decode_group_lost", "part.lost", {"part=decode_group"}},
    {"prefill_worker_lost", "part.lost", {"part=prefill_worker"}},
    {"decode_worker_lost", "part.lost", {"part=decode_worker"}},
    {"peer_lost", "part.lost", {"part=peer"}},
    {"expert_shard_lost", "part.lost", {"part=expert_shard"}},
    {"step_lost_with_shard", "request.failed", {"the expert shard ended with the rows"}},
    {"step_lost_with_node", "request.failed", {"is gone with its expert shards"}},
    {"steps_waited_for_shards", "experts.away", {}},
    {"expert_source_lost", "part.lost", {"part=expert_source"}},
    {"ep_balancer_lost", "part.lost", {"part=ep_balancer"}},
    {"experts_planned", "experts.planned", {"moves pay"}},
    {"experts_moved", "experts.placed", {"slots="}},
    {"experts_not_placed", "experts.not_placed", {}},
    {"node_killed_while_loading", "world.kill_while_loading", {}},
    {"kv_client_lost", "part.lost", {"part=kv_client"}},
    {"membership_lost", "part.lost", {"part=membership"}},
    {"autoscaler_lost", "part.lost", {"part=autoscaler"}},
    {"pipeline_rebuilt", "pipeline.rebuilt", {}},
    {"worker_replaced", "worker.replaced", {}},
    {"kv_hit", "blocks.loaded", {}},
    {"kv_hit_bounded", "blocks.loaded", {"exact=0"}},
    {"kv_hit_after_power_loss", "blocks.loaded", {"survived=1"}},
    {"kv_load_failed", "kv.load_failed", {}},
    {"kv_block_gone", "blocks.not_loaded", {"code=not_found"}},
    {"kv_block_damaged", "blocks.not_loaded", {"code=corrupt"}},
    {"kv_load_refused", "blocks.not_loaded", {"code=unavailable"}},
    {"kv_load_too_late", "blocks.not_loaded", {"code=deadline"}},
    {"kv_not_stored", "blocks.not_stored", {}},
    {"kv_full", "blocks.not_stored", {"code=no_capacity"}},
    {"kv_back", "blocks.back", {}},
    {"kv_expired", "blocks.expired", {}},
    {"kv_evicted", "blocks.evicted", {}},
    {"basis_changed", "request.basis_changed", {}},
};

// clang-format on

bool matches(const Row& row, std::string_view line) {
  return std::all_of(row.words.begin(), row.words.end(), [line](std::string_view word) {
    return word.empty() || line.find(word) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> counter_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    names.emplace_back(row.counter);
  }
  return names;
}

void count_events(const std::vector<std::string>& events,
                  std::map<std::string, std::int64_t>& counters) {
  for (const std::string& line : events) {
    const std::string_view name = event_name(line);
    for (const Row& row : kRows) {
      if (row.event == name && matches(row, line)) {
        ++counters[std::string(row.counter)];
      }
    }
  }
}

}  // namespace shoal::sim
