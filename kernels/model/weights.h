// Every weight of the model under the name its operator uses, checked against the config at load
// (model spec 4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/model/checkpoint.h"
#include "kernels/model/config.h"
#include "kernels/ops.h"
#include "kernels/weight.h"
#include "schemas/result.h"

namespace shoal::kernels {

// Small vectors (norms, sinks, biases) are stored as BF16 or F32; they are widened to fp32 once.
using Vector = std::vector<float>;

struct ExpertWeights {
  Weight w1;  // gate projection [inter][dim]
  Weight w2;  // down projection [dim][inter]
  Weight w3;  // up projection [inter][dim]
};

struct HyperConnection {
  Vector fn;
  Vector base;
  Vector scale;

  HcWeights view() const { return {fn.data(), base.data(), scale.data()}; }
};

struct CompressorWeights {  // KV sources only
  Weight wkv;
  Weight wgate;  // empty at ratio 1
  Vector norm;
  Weight index_wk;
  Vector index_norm;
};

struct IndexerWeights {  // index sources only
  Weight wq_b;
  Weight weights_proj;
};

struct EngramWeights {  // Engram layers only
  EngramTable table;
  Weight wkv;
  Vector weight;  // q_weight * k_weight, [C][D]
};

struct BlockWeights {
  Weight wq_a, wq_b, wkv, wo_a, wo_b;
  Vector q_norm, kv_norm, sink, attn_norm, ffn_norm;
  HyperConnection hc_attn, hc_ffn;
  Weight gate;
  Vector gate_bias, gate_bias_vl;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  CompressorWeights compressor;
  IndexerWeights indexer;
  EngramWeights engram;
};

struct DraftWeights {
  Weight main_proj;
  Vector main_norm;
  Vector norm;
  Weight markov_embed;  // [vocab][rank] bf16
  Weight markov_head;   // [vocab][rank]
  Weight confidence;    // [1][dim + rank]
};

struct ModelWeights {
  std::shared_ptr<const Checkpoint> checkpoint;  // keeps the mapping alive
  Weight embed;                                  // [vocab][dim] bf16
  Weight head;                                   // [vocab][dim]
  Vector norm;
  std::vector<BlockWeights> blocks;  // backbone
  std::vector<BlockWeights> stages;  // DSpark
  DraftWeights draft;
};

// Names the tensor, the file and the shape or dtype expected on any mismatch (kMisconfigured).
Result<ModelWeights> load_weights(const ModelConfig& config,
                                  std::shared_ptr<const Checkpoint> checkpoint);

// One routed expert alone: a node that owns some of them reads no more. `layer` counts the DSpark
// stages behind the backbone's layers. Valid while the checkpoint lives. kInvalid: no such expert.
Result<ExpertWeights> load_expert(const ModelConfig& config,
                                  const Checkpoint& checkpoint,
                                  int layer,
                                  std::int64_t expert);
// Bytes that its weights take as stored.
std::int64_t expert_bytes(const ExpertWeights& expert);

}  // namespace shoal::kernels
