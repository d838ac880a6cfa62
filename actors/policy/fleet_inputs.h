// What a fleet is planned from: a model, a machine, a load and what is promised of it. Plain
// numbers; where one came from stands beside it: [makers] descriptions of their serving report of
// 2026-10; [open-infra] deepseek-ai/open-infra-index, day 6 (2025-02);
// [gb200] lmsys.org/blog/2025-09-25-gb200-part-2; [card] the model's config and weights.
#pragma once

#include <array>
#include <string_view>

#include "schemas/units.h"

namespace shoal {

inline constexpr int kMostDrafts = 5;
inline constexpr int kPrefillSlots = 4;  // redundant experts of a layer and GPU [makers]
inline constexpr int kDecodeSlots = 1;

// Per row: per position that runs through the layers. FLOP are 2 x the parameters that a row
// touches; pairs are rows times earlier positions that they look at.
struct PlanModel {
  std::string_view name;
  int layers = 0;          // with routed experts
  int prefill_layers = 0;  // that a prompt token runs through
  int experts = 0;
  int top_k = 0;
  double hidden = 0;
  double expert_bytes = 0;  // one, of one layer
  double expert_flops = 0;  // one, of one layer and row
  double dense_bytes = 0;   // everything else that a step reads, but for the head
  double head_bytes = 0;
  double embed_bytes = 0;       // held, not read
  double host_table_bytes = 0;  // look-up tables in host memory of every node
  double decode_flops = 0;      // without attention
  double prefill_flops = 0;
  double decode_attention_flops = 0;  // at any length
  double prefill_attention_flops = 0;
  double decode_pair_flops = 0;
  double prefill_pair_flops = 0;
  double candidates = 0;  // most positions that `candidate_*` look at
  double candidate_pair_flops = 0;
  double candidate_bytes = 0;     // of a stream and step, per such position
  double scan_bytes = 0;          // of a stream and step, per position
  double stream_read_bytes = 0;   // of a stream and step, at any length
  double row_read_bytes = 0;      // KV that a row gathers, over all layers
  double kv_bytes = 0;            // of a token, kept
  double stream_bytes = 0;        // of a stream: its rings
  double draft_flops = 0;         // of a stream and step
  double draft_bytes = 0;         // read and held by every GPU
  double draft_expert_bytes = 0;  // over all GPUs of a group
  double dispatch_bytes = 0;      // of a row to a GPU and layer
  double combine_bytes = 0;       // back, of a row and expert
  double window_rows = 0;         // last rows of a prompt that run through all layers
};

// DeepSeek-V4.1-Flash [card]: hidden 5,120, 40 layers of 384 experts of which 6, FP4; 7.9 B
// parameters of a prompt token in 20 layers, 16.1 B of an answer's; attention to 512 + 128 entries
// of 512 values by 64 heads in all layers but two; index scans of 32 heads x 128 at one key in two
// tokens in three layers and at every token in one, then at 16,384 candidates in four more.
constexpr PlanModel v41_flash() {
  PlanModel m;
  m.name = "v41-flash";
  m.layers = 40;
  m.prefill_layers = 20;
  m.experts = 384;
  m.top_k = 6;
  m.hidden = 5'120;
  m.expert_bytes = 18'800'640;
  m.expert_flops = 2.0 * 35'389'440;
  // Attention, shared expert, gate and residual mixing of each layer; KV and index sources; the
  // projections of the look-up tables.
  m.dense_bytes =
      40 * (126.74e6 + 35.42e6 + 3.93e6 + 3.93e6) + 3 * 10.6e6 + 5.4e6 + 8 * 5.6e6 + 2 * 157.4e6;
  m.head_bytes = 1.324e9;
  m.embed_bytes = 1.324e9;
  m.host_table_bytes = 2 * 101.38e9;
  m.decode_flops = 2 * 16.1e9;
  m.prefill_flops = 2 * 7.9e9;
  m.decode_attention_flops = 38 * 84e6 + 2 * 17e6;
  m.prefill_attention_flops = 18 * 84e6 + 2 * 17e6;
  m.decode_pair_flops = 2.5 * 8'192;
  m.prefill_pair_flops = 2.5 * 8'192;
  m.candidates = 16'384;
  m.candidate_pair_flops = 4 * 8'192;
  m.candidate_bytes = 4 * 68;
  m.scan_bytes = 2.5 * 68;
  m.stream_read_bytes = 40 * 128 * 528;
  m.row_read_bytes = 38.0 * 512 * 288;
  m.kv_bytes = 890;
  m.stream_bytes = 43 * 134 * 528;
  m.draft_flops = 2 * (5 * (0.81e9 + 0.66e9) + 0.079e9);
  m.draft_bytes = 3 * (2.57e9 - 128 * 18.8e6) + 78.7e6 + 132e6;
  m.draft_expert_bytes = 3 * 128 * 18.8e6;
  m.dispatch_bytes = 5'280;
  m.combine_bytes = 10'240;
  m.window_rows = 128;
  return m;
}

// DeepSeek-V3/R1, FP8 with BF16 KV, for the published day of 2025: 671 B parameters of which 37 B,
// 58 of 61 layers with 256 experts of which 8, latent attention over 576 values by 128 heads.
constexpr PlanModel v3_r1() {
  PlanModel m;
  m.name = "v3-r1";
  m.layers = 58;
  m.prefill_layers = 58;
  m.experts = 256;
  m.top_k = 8;
  m.hidden = 7'168;
  m.expert_bytes = 3 * 7'168 * 2'048;
  m.expert_flops = 2.0 * 3 * 7'168 * 2'048;
  m.head_bytes = 1.85e9;
  m.embed_bytes = 1.85e9;
  m.dense_bytes = 671e9 - 58.0 * 256 * 3 * 7'168 * 2'048 - 2 * 0.927e9;
  m.decode_flops = 2 * 37e9;
  m.prefill_flops = 2 * 37e9;
  m.decode_pair_flops = 61.0 * 128 * (576 + 512) * 2;
  m.prefill_pair_flops = 61.0 * 128 * (192 + 128) * 2;
  m.scan_bytes = 61 * 576 * 2;
  m.kv_bytes = 61 * 576 * 2;
  m.dispatch_bytes = 7'168;
  m.combine_bytes = 14'336;
  return m;
}

// Of one GPU unless it says otherwise. What kernels reach of a peak is a share of its own.
struct PlanMachine {
  double fp8_flops = 0;  // dense peak, per second
  double bf16_flops = 0;
  // 18,471 prompt tokens/s of R1 at 79 GFLOP on a GB200 of 5 PFLOP/s [gb200]; latent attention of
  // 580 TFLOP/s on an H800 of 1,979 (deepseek-ai/FlashMLA).
  double compute_share = 0.30;
  double memory_bytes = 0;
  double memory_rate = 0;        // bytes/s
  double memory_share = 0.80;    // of the rate; latent attention reads 3 of 3.35 TB/s
  double held_back_share = 0.1;  // of the memory: activations, buffers, fragments
  int domain_gpus = 8;           // that reach each other at domain_rate
  double domain_rate = 0;        // bytes/s out of a GPU
  double link_rate = 0;          // bytes/s out of a GPU to other domains
  double link_share = 0.75;      // 643 to 740 of 900 GB/s (deepseek-ai/DeepEP, SM100)
  int node_gpus = 8;
  double node_read_rate = 50e9;  // bytes/s from the KV store into a node: 400 Gb/s
  double node_host_bytes = 2e12;
  // What no batch hides in a layer: launches, two exchanges, synchronisation. 128 answers at 20 to
  // 22 tokens/s are steps of 47 ms [open-infra, deepseek-ai/profile-data]; work at the shares
  // above is 34 ms of them; the rest is over 61 layers. So that day is no independent check of it.
  Nanos layer_time{200'000};
  double gpu_hour_usd = 0;
  double failure_hours = 50'000;  // GPU hours between two interruptions (Llama 3 training)
};

struct PlanWorkload {
  double input_tokens = 0;  // a day
  double output_tokens = 0;
  double hit_share = 0;       // of the input: its KV is loaded
  double prompt_tokens = 0;   // mean, of a request
  double longest_tokens = 0;  // prompt and answer
  // Squared coefficient of variation of the tokens that a request computes: how much requests
  // wait for each other. 29 on recorded coding agents.
  double new_tokens_cv2 = 1;
  double peak_over_mean = 1;  // of the load that the fleet must carry
  // Probability that draft k and all before it are accepted; zeros: no drafts. Means of V4-Pro
  // with thinking on (InferenceX golden_al_distribution).
  std::array<double, kMostDrafts> survival{};
  // How far the popularity of an expert moves between the plan of its replicas and a step.
  double drift = 0.15;
  double images = 0;         // a day
  double image_patches = 0;  // mean
};

struct PlanSlo {
  Nanos first_token{0};        // mean
  double user_rate = 0;        // tokens/s of an answer, at least
  double prefill_busy = 0.75;  // share of its time that a GPU may work: the rest absorbs bursts
  double decode_busy = 0.85;
  double group_hours = 168;  // between two interruptions of one group, at least
  int fewest_groups = 2;     // of a stage: one may fail
  int most_gpus = 1 << 20;   // of the fleet
};

}  // namespace shoal
