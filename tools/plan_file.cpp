// Fields one by one; ranges are checked where the whole plan is.
#include "tools/plan_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "actors/config.h"
#include "actors/text_format.h"
#include "schemas/plan.pb.h"

namespace shoal::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kEnding[] = ".txtpb";

// Names of the files of a folder, sorted.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == kEnding) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<fs::path> find_file(const std::string& name_or_file, const fs::path& folder) {
  const fs::path file(name_or_file);
  if (file.has_parent_path() || file.has_extension()) {
    return file;
  }
  const fs::path known = folder / (name_or_file + kEnding);
  if (fs::exists(known)) {
    return known;
  }
  const auto names = names_in(folder);
  const auto nearest = nearest_name(name_or_file, names);
  std::string all;
  for (const std::string& name : names) {
    all += " " + name;
  }
  return fail(
      Code::kMisconfigured,
      "no '" + name_or_file + "' in " + folder.string() + ", " +
          (nearest ? "did you mean '" + *nearest + "'?" : "there are" + all + "; or give a file"));
}

}  // namespace

Result<PlanMachine> read_machine(const std::string& name_or_file) {
  TRY(const fs::path file, find_file(name_or_file, SHOAL_MACHINES));
  plan::Machine read;
  TRY_VOID(read_text_format(
      file, {"description of a machine", "See schemas/plan.proto and deploy/machines."}, read));
  PlanMachine machine;
  machine.fp8_flops = read.fp8_flops();
  machine.bf16_flops = read.bf16_flops();
  machine.compute_share = read.compute_share();
  machine.memory_bytes = read.memory_bytes();
  machine.memory_rate = read.memory_rate();
  machine.memory_share = read.memory_share();
  machine.held_back_share = read.held_back_share();
  machine.domain_gpus = read.domain_gpus();
  machine.domain_rate = read.domain_rate();
  machine.link_rate = read.link_rate();
  machine.link_share = read.link_share();
  machine.node_gpus = read.node_gpus();
  machine.node_read_rate = read.node_read_rate();
  machine.node_host_bytes = read.node_host_bytes();
  machine.layer_time = Nanos{read.layer_ns()};
  machine.gpu_hour_usd = read.gpu_hour_usd();
  machine.failure_hours = read.failure_hours();
  return machine;
}

Result<PlannedLoad> read_workload(const std::string& name_or_file) {
  TRY(const fs::path file, find_file(name_or_file, SHOAL_WORKLOADS));
  plan::Workload read;
  TRY_VOID(read_text_format(
      file, {"description of a load", "See schemas/plan.proto and deploy/workloads."}, read));
  if (read.survival_size() > kMostDrafts) {
    return fail(Code::kMisconfigured,
                file.string() + ": survival: " + std::to_string(read.survival_size()) +
                    " values, at most " + std::to_string(kMostDrafts) + " drafts are verified");
  }
  PlannedLoad load;
  PlanWorkload& workload = load.workload;
  workload.input_tokens = read.input_tokens();
  workload.output_tokens = read.output_tokens();
  workload.hit_share = read.hit_share();
  workload.prompt_tokens = read.prompt_tokens();
  workload.longest_tokens = read.longest_tokens();
  workload.new_tokens_cv2 = read.new_tokens_cv2();
  workload.peak_over_mean = read.peak_over_mean();
  std::copy(read.survival().begin(), read.survival().end(), workload.survival.begin());
  workload.drift = read.drift();
  workload.images = read.images();
  workload.image_patches = read.image_patches();
  const std::int64_t first_token_ms =
      std::clamp<std::int64_t>(read.slo().first_token_ms(), 0, 1'000'000'000);
  load.slo.first_token = std::chrono::milliseconds(first_token_ms);
  load.slo.user_rate = read.slo().user_rate();
  load.slo.prefill_busy = read.slo().prefill_busy();
  load.slo.decode_busy = read.slo().decode_busy();
  load.slo.group_hours = read.slo().group_hours();
  load.slo.fewest_groups = read.slo().fewest_groups();
  load.prices = {read.prices().hit(), read.prices().miss(), read.prices().output()};
  if (!(load.prices.hit >= 0 && load.prices.miss >= 0 && load.prices.output >= 0)) {
    return fail(Code::kMisconfigured, file.string() + ": prices: at least 0 each");
  }
  return load;
}

}  // namespace shoal::tools
