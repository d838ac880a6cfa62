// The official tensor list and files that hold it without data.
#include "tests/kernels/sparse_checkpoint.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace shoal::test {
namespace {

using Specs = std::vector<TensorSpec>;
using Size = std::int64_t;

void add_fp8(Specs& out, const std::string& name, Size rows, Size cols) {
  out.push_back({name + ".weight", "F8_E4M3", {rows, cols}});
  out.push_back({name + ".scale", "F8_E8M0", {(rows + 31) / 32, cols / 32}});
}

void add_fp4(Specs& out, const std::string& name, Size rows, Size cols) {
  out.push_back({name + ".weight", "I8", {rows, cols / 2}});
  out.push_back({name + ".scale", "F8_E8M0", {rows, cols / 32}});
}

// The 30 tensors every block has, and its routed experts.
void add_block(Specs& out, const kernels::ModelConfig& c, const std::string& p, Size experts) {
  const Size width = c.heads * c.head_dim;
  const Size mixes = (2 + c.hc) * c.hc;
  add_fp8(out, p + "attn.wq_a", c.q_lora, c.dim);
  add_fp8(out, p + "attn.wq_b", width, c.q_lora);
  add_fp8(out, p + "attn.wkv", c.head_dim, c.dim);
  add_fp8(out, p + "attn.wo_a", c.o_groups * c.o_lora, width / c.o_groups);
  add_fp8(out, p + "attn.wo_b", c.dim, c.o_groups * c.o_lora);
  out.push_back({p + "attn.q_norm.weight", "BF16", {c.q_lora}});
  out.push_back({p + "attn.kv_norm.weight", "BF16", {c.head_dim}});
  out.push_back({p + "attn.attn_sink", "F32", {c.heads}});
  out.push_back({p + "attn_norm.weight", "BF16", {c.dim}});
  out.push_back({p + "ffn_norm.weight", "BF16", {c.dim}});
  for (const std::string part : {"hc_attn", "hc_ffn"}) {
    out.push_back({p + part + "_fn", "F32", {mixes, c.hc * c.dim}});
    out.push_back({p + part + "_base", "F32", {mixes}});
    out.push_back({p + part + "_scale", "F32", {3}});
  }
  out.push_back({p + "ffn.gate.weight", "BF16", {experts, c.dim}});
  out.push_back({p + "ffn.gate.bias", "F32", {experts}});
  out.push_back({p + "ffn.gate.bias_vl", "F32", {experts}});
  add_fp8(out, p + "ffn.shared_experts.w1", c.inter, c.dim);
  add_fp8(out, p + "ffn.shared_experts.w2", c.dim, c.inter);
  add_fp8(out, p + "ffn.shared_experts.w3", c.inter, c.dim);
  for (Size e = 0; e < experts; ++e) {
    const std::string expert = p + "ffn.experts." + std::to_string(e);
    add_fp4(out, expert + ".w1", c.inter, c.dim);
    add_fp4(out, expert + ".w2", c.dim, c.inter);
    add_fp4(out, expert + ".w3", c.inter, c.dim);
  }
}

void add_sources(Specs& out, const kernels::ModelConfig& c, const std::string& p, int layer) {
  if (c.is_kv_source(layer)) {
    out.push_back({p + "attn.compressor.wkv.weight", "BF16", {c.head_dim, c.dim}});
    if (c.ratio(layer) == 2) {
      out.push_back({p + "attn.compressor.wgate.weight", "BF16", {c.head_dim, c.dim}});
    }
    out.push_back({p + "attn.compressor.norm.weight", "BF16", {c.head_dim}});
    out.push_back({p + "attn.indexer.wk.weight", "BF16", {c.index_dim, c.head_dim}});
    out.push_back({p + "attn.indexer.k_norm.weight", "BF16", {c.index_dim}});
  }
  if (c.is_index_source(layer)) {
    add_fp8(out, p + "attn.indexer.wq_b", c.index_heads * c.index_dim, c.q_lora);
    out.push_back({p + "attn.indexer.weights_proj.weight", "BF16", {c.index_heads, c.dim}});
  }
}

void add_engram(Specs& out, const kernels::ModelConfig& c, const std::string& p, Size rows) {
  out.push_back({p + "engram.embed.weight", "F8_E4M3", {rows, c.engram_dim}});
  out.push_back({p + "engram.embed.scale", "F8_E8M0", {rows, c.engram_dim / 32}});
  add_fp8(out,
          p + "engram.wkv",
          (c.hc + 1) * c.dim,
          (c.engram_ngram - 1) * c.engram_heads * c.engram_dim);
  out.push_back({p + "engram.q_weight", "BF16", {c.hc, c.dim}});
  out.push_back({p + "engram.k_weight", "BF16", {c.hc, c.dim}});
}

void add_draft(Specs& out, const kernels::ModelConfig& c) {
  const std::string last = "mtp." + std::to_string(c.stages - 1) + ".";
  add_fp8(out, "mtp.0.main_proj", c.dim, static_cast<Size>(c.taps.size()) * c.dim);
  out.push_back({"mtp.0.main_norm.weight", "BF16", {c.dim}});
  out.push_back({last + "norm.weight", "BF16", {c.dim}});
  out.push_back({last + "markov_head.embed.weight", "BF16", {c.vocab, c.markov_rank}});
  out.push_back({last + "markov_head.head.weight", "BF16", {c.vocab, c.markov_rank}});
  out.push_back({last + "confidence_head.proj.weight", "BF16", {1, c.dim + c.markov_rank}});
}

Size bytes_of(const TensorSpec& tensor) {
  const bool is_wide = tensor.dtype == "F32" || tensor.dtype == "I32";
  Size bytes = is_wide ? 4 : tensor.dtype == "BF16" ? 2 : 1;
  for (const Size size : tensor.shape) {
    bytes *= size;
  }
  return bytes;
}

}  // namespace

std::vector<TensorSpec> official_tensors(const kernels::ModelConfig& c) {
  Specs out;
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string p = "layers." + std::to_string(layer) + ".";
    if (const int engram = c.engram_index(layer); engram >= 0) {
      add_engram(out, c, p, c.engram_rows[static_cast<std::size_t>(engram)]);
    }
    add_block(out, c, p, c.experts);
    add_sources(out, c, p, layer);
  }
  for (int stage = 0; stage < c.stages; ++stage) {
    add_block(out, c, "mtp." + std::to_string(stage) + ".", c.draft_experts);
  }
  if (c.stages > 0) {
    add_draft(out, c);
  }
  out.push_back({"embed.weight", "BF16", {c.vocab, c.dim}});
  out.push_back({"head.weight", "BF16", {c.vocab, c.dim}});
  out.push_back({"norm.weight", "BF16", {c.dim}});
  return out;
}

std::map<std::string, std::int64_t> write_sparse(const std::filesystem::path& path,
                                                 const std::vector<TensorSpec>& tensors,
                                                 std::int64_t shift) {
  nlohmann::json header = nlohmann::json::object();
  std::map<std::string, Size> offsets;
  Size end = 0;
  for (const TensorSpec& tensor : tensors) {
    const Size begin = offsets.empty() ? shift : (end + 7) / 8 * 8;
    end = begin + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    offsets[tensor.name] = begin;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length) << text;
  out.close();
  const Size data = 8 + static_cast<Size>(length);
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(data + end));
  for (auto& [name, offset] : offsets) {
    offset += data;
  }
  return offsets;
}

void poke(const std::filesystem::path& path, std::int64_t offset, std::string_view bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string small_config(std::string_view extra_fields) {
  auto config = nlohmann::json::parse(R"({
    "model_type": "deepseek_v41_text", "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
    "vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 1, "moe_intermediate_size": 32,
    "num_attention_heads": 2, "head_dim": 32, "qk_rope_head_dim": 16, "q_lora_rank": 32,
    "o_lora_rank": 32, "o_groups": 1, "swiglu_limit": 10, "rms_norm_eps": 1e-20,
    "max_position_embeddings": 64, "rope_theta": 10000, "compress_rope_theta": 160000,
    "rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 16},
    "n_routed_experts": 2, "num_experts_per_tok": 1, "routed_scaling_factor": 1.5,
    "sliding_window": 8, "compress_ratios": [1], "kv_source_layer_ids": [0],
    "index_source_layer_ids": [0], "index_n_heads": 1, "index_head_dim": 32, "index_topk": 4,
    "hc_mult": 2, "hc_sinkhorn_iters": 3, "hc_eps": 1e-6})");
  if (!extra_fields.empty()) {
    config.update(nlohmann::json::parse(extra_fields));
  }
  return config.dump();
}

}  // namespace shoal::test
