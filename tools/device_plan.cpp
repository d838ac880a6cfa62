// A device that runs a model is described by the model's directory; one that only draws tokens, by
// the tokenizer there.
#include "tools/device_plan.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "actors/codec/model_profile.h"
#include "actors/codec/tokenizer_utf8.h"
#include "actors/policy/draft_control.h"

namespace shoal::tools {

namespace {

// As long as any model.max_model_len: a device that computes nothing sets no other limit.
constexpr Position kSimPositions = 1048576;

int compute_threads(const Config& config) {
  const int asked = config.compute().threads();
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// Whole characters that a terminal prints: any row of them is valid text.
bool is_plain(std::string_view bytes) {
  const auto is_control = [](char byte) {
    return (static_cast<unsigned char>(byte) < ' ' && byte != '\n') || byte == '\x7F';
  };
  return !bytes.empty() && std::none_of(bytes.begin(), bytes.end(), is_control) &&
         replace_malformed_utf8(bytes) == bytes;
}

// Without those that control something, or stand for something else.
std::vector<TokenId> plain_tokens(const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!tokenizer.added_spelling(id) && is_plain(tokenizer.bytes(id))) {
      tokens.push_back(id);
    }
  }
  return tokens;
}

Result<kernels::SimModel> sim_model(const Config& config, const Tokenizer& tokenizer) {
  TRY(const ModelProfile profile, make_profile(detect_generation(tokenizer), tokenizer));
  kernels::SimModel model;
  model.vocab = tokenizer.vocabulary_size();
  model.max_positions = kSimPositions;
  model.eos_period = config.sim().eos_period();
  model.tokens = plain_tokens(tokenizer);
  if (model.tokens.empty()) {
    return fail(Code::kMisconfigured,
                "device " + config.compute().device() +
                    ": no token of the tokenizer is plain text; use another tokenizer.json");
  }
  model.bos = profile.bos.id;
  model.eos = profile.eos.id;
  model.greedy = true;
  model.drafts = config.sim().drafts();
  return model;
}

kernels::StepCost sim_cost(const Config& config) {
  const auto& sim = config.sim();
  return {Nanos{sim.step_ns()}, Nanos{sim.row_ns()}, Nanos{sim.copy_ns()}, Nanos{sim.draft_ns()}};
}

}  // namespace

Result<DevicePlan> plan_device(const Config& config) {
  DevicePlan plan;
  plan.name = config.compute().device();
  TRY(const kernels::DeviceKind kind, kernels::find_device(plan.name));
  kernels::DeviceConfig& device = plan.config;
  device.model = config.model().path().empty() ? SHOAL_BUILTIN_MODEL : config.model().path();
  device.instructions = config.compute().instructions();
  plan.ranks = config.compute().ranks();
  device.threads = std::max(1, compute_threads(config) / plan.ranks);
  device.sequences = std::max<std::int64_t>(1, config.kv().sequences() / plan.ranks);
  device.drafts = config.decode().drafts() != kNoDrafts;
  device.acceptance = config.decode().acceptance() == "rejection" ? kernels::Acceptance::kRejection
                                                                  : kernels::Acceptance::kCoupled;
  device.yields_experts = config.experts().shards() > 0;
  if (device.yields_experts && !kind.reads_model) {
    return fail(Code::kMisconfigured,
                "experts.shards: the device " + plan.name +
                    " has no experts; set it to 0, or compute.device to cpu");
  }
  if (!kind.reads_model) {
    TRY(plan.tokenizer, Tokenizer::load(device.model / "tokenizer.json"));
    TRY(device.sim.model, sim_model(config, *plan.tokenizer));
    device.sim.cost = sim_cost(config);
  }
  TRY(plan.shape, kernels::device_shape(plan.name, device));
  device.kv_blocks =
      std::max<std::int64_t>(1, kv_blocks(config, plan.shape.block_bytes) / plan.ranks);
  plan.model_name =
      kind.reads_model ? std::filesystem::canonical(device.model).filename().string() : plan.name;
  return plan;
}

}  // namespace shoal::tools
