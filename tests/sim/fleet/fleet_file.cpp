// What a fleet file and its load must say.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "actors/policy/autoscale.h"
#include "actors/policy/expert_plan.h"
#include "actors/policy/expert_split.h"
#include "actors/policy/prefill_policies.h"
#include "actors/policy/rows.h"
#include "actors/policy/verify_plan.h"
#include "actors/policy/vision_balancer.h"
#include "actors/text_format.h"
#include "tests/sim/fleet/fleet.h"

namespace shoal::sim {

namespace {

constexpr std::int64_t kPatchesAToken = 9;

FleetRequest request_of(const TraceRequest& recorded, Nanos first) {
  FleetRequest request;
  request.prefill.arrival = std::chrono::milliseconds(recorded.arrival_ms) - first;
  request.answer_tokens = std::max<std::int64_t>(1, recorded.output_tokens);
  request.prompt_tokens = recorded.input_tokens;
  request.ttl = recorded.kind.ends_with("agent") ? TtlClass::kAgent : TtlClass::kChat;
  for (const std::int64_t tokens : recorded.image_tokens) {
    request.patches.push_back(tokens * kPatchesAToken);
  }
  return request;
}

}  // namespace

FleetTrace fleet_trace(std::span<const TraceRequest> trace, Nanos from, Nanos to) {
  const auto at = [](const TraceRequest& request) {
    return Nanos(std::chrono::milliseconds(request.arrival_ms));
  };
  const auto begin = std::find_if(
      trace.begin(), trace.end(), [&](const TraceRequest& r) { return at(r) >= from; });
  const auto end =
      std::find_if(begin, trace.end(), [&](const TraceRequest& r) { return at(r) >= to; });
  FleetTrace made;
  if (begin == end) {
    return made;
  }
  const auto known = trace.first(static_cast<std::size_t>(end - trace.begin()));
  made.prompts = PromptRuns(known);
  const auto prefills = prefill_requests(known, Nanos::min(), Nanos::max());
  for (std::size_t i = 0; i < known.size(); ++i) {
    FleetRequest& request = made.requests.emplace_back(request_of(known[i], at(*begin)));
    const Nanos arrival = request.prefill.arrival;
    request.prefill = prefills[i];
    request.prefill.arrival = arrival;
    request.last_run = made.prompts.last_of()[i];
  }
  return made;
}

namespace {

struct EvictionRow {
  std::string_view name;
};

constexpr std::array kEvictions{EvictionRow{"ours"}, EvictionRow{"lru"}};

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
  if (d.step_us() < 1 || d.request_ns() < 0 || d.token_fs() < 0 || d.token_fs() > 1'000'000 ||
      d.tokens_per_step() < 0.001 || d.moe_lb() < 1 || d.max_batch() < 1 || d.kv_tokens() < 1) {
    return refuse("decode: expected step_us, max_batch and kv_tokens >= 1, moe_lb >= 1");
  }
  const auto& s = fleet.store();
  if (s.token_bytes() < 0 || s.node_bytes_per_s() < 1 || s.p50_us() < 1 ||
      s.p99_us() < s.p50_us() || s.bytes_per_s() < 1) {
    return refuse("store: expected both bytes_per_s and p50_us >= 1, p99_us >= p50_us");
  }
  if (s.bytes() < 0 || s.agent_ttl_s() < 0 || s.chat_ttl_s() < 0 || s.patience_ms() < 0) {
    return refuse("store: expected no negative bytes or time");
  }
  const auto& c = fleet.control();
  if (c.stale_ms() < 0 || c.message_us() < 0 || c.detect_ms() < 0 || c.prediction_error() < 0 ||
      c.prediction_error() > 10) {
    return refuse("control: expected no negative time, prediction_error 0 to 10");
  }
  return {};
}

// Those that may be empty choose nothing.
Result<void> check_rows(const fleet::Fleet& fleet) {
  TRY_VOID(known_row(prefill_policies(), fleet.prefill().policy(), "prefill.policy"));
  TRY_VOID(known_row(
      std::span<const EvictionRow>(kEvictions), fleet.store().eviction(), "store.eviction"));
  TRY_VOID(known_row(vision_policies(), fleet.vision().policy(), "vision.policy"));
  TRY_VOID(known_row(expert_splits(), fleet.experts().split(), "experts.split"));
  if (!fleet.verify().policy().empty()) {
    TRY_VOID(known_row(verify_policies(), fleet.verify().policy(), "verify.policy"));
  }
  if (!fleet.experts().policy().empty()) {
    TRY_VOID(known_row(expert_planners(), fleet.experts().policy(), "experts.policy"));
  }
  if (!fleet.scale().policy().empty()) {
    TRY_VOID(known_row(autoscale_policies(), fleet.scale().policy(), "scale.policy"));
  }
  return {};
}

Result<void> check_parts(const fleet::Fleet& fleet) {
  const auto refuse = [](const std::string& what) { return fail(Code::kMisconfigured, what); };
  const auto& i = fleet.vision();
  if (i.encoders() < 0 || i.encoders() > 4'096 || i.patch_ns() < 1 || i.pair_fs() < 0 ||
      i.pair_fs() > 1'000'000 || i.cache_items() < 0 || i.cache_bytes() < 0) {
    return refuse("vision: expected 0 to 4096 encoders, patch_ns >= 1, pair_fs 0 to 1e6");
  }
  if (!(i.repeated() >= 0 && i.repeated() < 1 && i.share() >= 0 && i.share() <= 1 &&
        i.images() >= 1 && i.images() <= 100 && i.p50_patches() >= 1 && i.sigma_patches() >= 0 &&
        i.sigma_patches() <= 5)) {
    return refuse("vision: expected repeated and share 0 to 1, images 1 to 100, sigma 0 to 5");
  }
  const auto& v = fleet.verify();
  if (!(v.row_ns() >= 1 && v.rank_share() >= 0 && v.rank_share() <= 1 && v.concentration() > 0 &&
        v.concentration() <= 1e6 && v.confidence() > 0 && v.confidence() <= 100 &&
        v.every() >= 1)) {
    return refuse("verify: expected row_ns and every >= 1, rank_share 0 to 1, concentration > 0");
  }
  const auto& e = fleet.experts();
  if (e.slots() < 0 || e.slots() > 64 || e.layers() < 1 || e.layers() > 40 ||
      e.window_steps() < 10 || e.window_steps() > 100'000 || e.looks() < 1 ||
      e.looks() > e.window_steps() || fleet.decode().ranks() > 384) {
    return refuse(
        "experts: expected 0 to 64 slots, 1 to 40 layers, at least 10 window_steps, "
        "looks among them, decode.ranks of at most 384");
  }
  const auto& a = fleet.scale();
  if (a.provision_s() < 0 || a.hold_s() < 0 || a.prefill_permille() < 1 ||
      a.prefill_permille() > 1'000 || a.decode_permille() < 1 || a.decode_permille() > 1'000 ||
      a.least() < 1) {
    return refuse("scale: expected permille 1 to 1000, least >= 1, no negative time");
  }
  return {};
}

Result<void> check_faults(const fleet::Fleet& fleet) {
  const auto& f = fleet.faults();
  const auto& c = fleet.control();
  const bool fails = f.gpu_mtbf_hours() > 0;
  if (f.gpu_mtbf_hours() < 0 || (fails && f.gpu_mtbf_hours() < 0.01)) {
    return fail(Code::kMisconfigured, "faults: expected gpu_mtbf_hours of at least 0.01, or 0");
  }
  if (fails && f.repair_s() * 1'000 < c.detect_ms()) {
    return fail(Code::kMisconfigured,
                "faults: expected repair_s of no less than control.detect_ms: nobody hears of a "
                "fault that is over");
  }
  return {};
}

// Beyond, times and bytes do not fit.
constexpr double kMostNumber = 1e15;

// The first number of the message that is none or too large, by name; empty: there is none.
std::string odd_number(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  std::vector<const FieldDescriptor*> given;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &given);
  for (const FieldDescriptor* field : given) {
    if (field->is_repeated()) {
      continue;
    }
    std::string inner;
    double value = 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      inner = odd_number(reflection.GetMessage(message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      value = reflection.GetDouble(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      value = static_cast<double>(reflection.GetInt64(message, field));
    }
    if (!inner.empty() || !(std::abs(value) <= kMostNumber)) {
      return field->name() + (inner.empty() ? "" : "." + inner);
    }
  }
  return {};
}

Result<void> check_all(const fleet::Fleet& fleet) {
  if (const std::string name = odd_number(fleet); !name.empty()) {
    return fail(Code::kMisconfigured, name + ": expected a number up to 1e15");
  }
  TRY_VOID(check_faults(fleet));
  TRY_VOID(check_fleet(fleet));
  TRY_VOID(check_parts(fleet));
  return check_rows(fleet);
}

}  // namespace

Result<fleet::Fleet> read_fleet(const std::filesystem::path& file) {
  fleet::Fleet fleet;
  TRY_VOID(read_text_format(
      file, {"fleet file", "see tests/sim/fleet/fleets and schemas/fleet.proto"}, fleet));
  if (const auto sound = check_all(fleet); !sound) {
    return fail(Code::kMisconfigured, file.string() + ": " + sound.error().message);
  }
  return fleet;
}

namespace {

Result<void> set_row(fleet::Fleet& fleet, const std::string& choice) {
  const std::size_t colon = choice.find(':');
  const std::string role = colon == std::string::npos ? "prefill" : choice.substr(0, colon);
  const std::string row = choice.substr(colon == std::string::npos ? 0 : colon + 1);
  if (role == "prefill") {
    fleet.mutable_prefill()->set_policy(row);
  } else if (role == "store") {
    fleet.mutable_store()->set_eviction(row);
  } else if (role == "vision") {
    fleet.mutable_vision()->set_policy(row);
  } else if (role == "verify") {
    fleet.mutable_verify()->set_policy(row);
  } else if (role == "experts") {
    fleet.mutable_experts()->set_policy(row);
  } else if (role == "split") {
    fleet.mutable_experts()->set_split(row);
  } else if (role == "scale") {
    fleet.mutable_scale()->set_policy(row);
  } else {
    return fail(
        Code::kMisconfigured,
        "'" + role + "' is no role; there are prefill store vision verify experts split scale");
  }
  return {};
}

}  // namespace

Result<fleet::Fleet> with_rows(fleet::Fleet fleet, const std::string& choice) {
  std::istringstream rows(choice);
  for (std::string row; std::getline(rows, row, '+');) {
    TRY_VOID(set_row(fleet, row));
  }
  TRY_VOID(check_rows(fleet));
  return fleet;
}

}  // namespace shoal::sim
