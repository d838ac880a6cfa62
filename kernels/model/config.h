// The numbers of one model, read from the HF config.json (model spec 1.1). Sizes are elements
// unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "schemas/ids.h"
#include "schemas/result.h"

namespace shoal::kernels {

struct YarnConfig {
  double factor = 1;
  std::int64_t original = 0;  // positions the model was trained on before YaRN
  double beta_fast = 32;
  double beta_slow = 1;
};

struct ModelConfig {
  std::int64_t vocab = 0;
  std::int64_t dim = 0;
  int layers = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t q_lora = 0;
  std::int64_t o_groups = 0;
  std::int64_t o_lora = 0;
  std::int64_t window = 0;
  std::int64_t max_positions = 0;
  std::vector<int> ratios;  // one per backbone layer, then one per DSpark stage (0)
  std::vector<int> kv_sources;
  std::vector<int> index_sources;
  std::int64_t index_heads = 0;
  std::int64_t index_dim = 0;
  std::int64_t index_topk = 0;
  int candidate_source = -1;
  std::int64_t candidate_blocks = 0;
  std::int64_t candidate_block = 0;
  std::int64_t inter = 0;
  std::int64_t experts = 0;
  int experts_per_token = 0;
  float route_scale = 1;
  float swiglu_limit = 0;
  float eps = 1e-20F;
  double rope_theta = 0;
  double compress_rope_theta = 0;
  YarnConfig yarn;
  std::int64_t hc = 0;
  int hc_iters = 0;
  float hc_eps = 0;

  std::vector<int> engram_layers;
  std::vector<std::int64_t> engram_rows;  // rows per table, unpadded
  std::int64_t engram_base = 0;           // engram_vocab_size: primes start here
  std::int64_t engram_heads = 0;
  std::int64_t engram_dim = 0;
  int engram_ngram = 1;
  TokenId engram_pad = 2;
  std::int64_t engram_vocab = 0;  // compressed ids

  int stages = 0;  // DSpark
  int draft_block = 0;
  TokenId noise = 0;
  std::vector<int> taps;
  std::int64_t markov_rank = 0;
  std::int64_t draft_experts = 0;
  int draft_experts_per_token = 0;

  TokenId bos = 0;
  TokenId eos = 1;
  TokenId pad = 2;
  TokenId image_token = -1;

  int decoder_start() const {
    return kv_sources.back();
  }  // first decoder layer: the last KV source (model spec 2.1)

  int ratio(int layer) const { return ratios[static_cast<std::size_t>(layer)]; }

  int kv_owner(int layer) const;     // largest KV source <= layer; -1 if none
  int index_owner(int layer) const;  // largest index source <= layer; -1 if none
  bool is_kv_source(int layer) const;
  bool is_index_source(int layer) const;
  int engram_index(int layer) const;  // position in engram_layers, -1 if none
};

// Reads DIR/config.json. kMisconfigured names the file and the missing or impossible field.
Result<ModelConfig> read_config(const std::filesystem::path& directory);
Result<ModelConfig> parse_config(std::string_view json, std::string_view name_for_errors);

}  // namespace shoal::kernels
