// What a fleet file and its load must say.
#include <string>

#include "actors/policy/prefill_policies.h"
#include "actors/text_format.h"
#include "tests/sim/fleet/fleet.h"

namespace shoal::sim {

std::vector<FleetRequest> fleet_requests(std::span<const TraceRequest> trace,
                                         Nanos from,
                                         Nanos to) {
  std::vector<FleetRequest> requests;
  const auto prefills = prefill_requests(trace, from, to);
  std::size_t next = 0;
  for (const TraceRequest& request : trace) {
    const Nanos at = std::chrono::milliseconds(request.arrival_ms);
    if (at >= from && at < to) {
      requests.push_back({prefills[next++], std::max<std::int64_t>(1, request.output_tokens)});
    }
  }
  return requests;
}

namespace {

Result<void> check_fleet(const fleet::Fleet& fleet) {
  const auto refuse = [](const std::string& what) { return fail(Code::kMisconfigured, what); };
  const auto& p = fleet.prefill();
  const auto& d = fleet.decode();
  if (p.instances() < 1 || p.instances() > 4'096 || p.ranks() < 1 || p.ranks() > 64) {
    return refuse("prefill: expected 1 to 4096 instances of 1 to 64 ranks");
  }
  if (d.groups() < 1 || d.groups() > 1'024 || d.ranks() < 1 || d.ranks() > 1'024) {
    return refuse("decode: expected 1 to 1024 groups of 1 to 1024 ranks");
  }
  if (p.step_us() < 1 || p.row_ns() < 1 || p.pair_fs() < 0 || p.pair_fs() > 1'000'000 ||
      p.quota_us() < 100 || p.least_quota_us() < 0) {
    return refuse("prefill: expected step_us and row_ns >= 1, pair_fs 0 to 1e6, quota_us >= 100");
  }
  if (find_prefill_policy(p.policy()) == nullptr) {
    return refuse("prefill.policy: there is no '" + p.policy() + "'");
  }
  if (d.step_us() < 1 || d.request_ns() < 0 || d.token_fs() < 0 || d.token_fs() > 1'000'000 ||
      d.tokens_per_step() < 0.001 || d.moe_lb() < 1 || d.max_batch() < 1 || d.kv_tokens() < 1) {
    return refuse("decode: expected step_us, max_batch and kv_tokens >= 1, moe_lb >= 1");
  }
  const auto& s = fleet.store();
  if (s.token_bytes() < 0 || s.node_bytes_per_s() < 1 || s.p50_us() < 1 ||
      s.p99_us() < s.p50_us()) {
    return refuse("store: expected node_bytes_per_s and p50_us >= 1, p99_us >= p50_us");
  }
  const auto& c = fleet.control();
  if (c.stale_ms() < 0 || c.message_us() < 0 || c.detect_ms() < 0 || c.prediction_error() < 0 ||
      c.prediction_error() > 10) {
    return refuse("control: expected no negative time, prediction_error 0 to 10");
  }
  return {};
}

}  // namespace

Result<fleet::Fleet> read_fleet(const std::filesystem::path& file) {
  fleet::Fleet fleet;
  TRY_VOID(read_text_format(
      file, {"fleet file", "see tests/sim/fleet/fleets and schemas/fleet.proto"}, fleet));
  if (const auto sound = check_fleet(fleet); !sound) {
    return fail(Code::kMisconfigured, file.string() + ": " + sound.error().message);
  }
  return fleet;
}

}  // namespace shoal::sim
