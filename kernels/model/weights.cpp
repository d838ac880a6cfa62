// Finds every tensor the config asks for, holds its dtype and shape to it, and hands out views.
#include "kernels/model/weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/formats.h"

namespace shoal::kernels {
namespace {

using Dtypes = std::span<const Dtype>;
using Shape = std::vector<std::int64_t>;

constexpr Dtype kFloats[] = {Dtype::kBf16, Dtype::kF32};
constexpr Dtype kBf16Only[] = {Dtype::kBf16};
constexpr Dtype kFp8Only[] = {Dtype::kF8E4m3};
constexpr Dtype kPackedFp4[] = {Dtype::kI8, Dtype::kU8};  // two elements per byte
constexpr Dtype kScales[] = {Dtype::kF8E8m0, Dtype::kU8};

std::string describe(Dtypes dtypes, const Shape& shape) {
  std::string text;
  for (const Dtype dtype : dtypes) {
    text += (text.empty() ? "" : " or ") + std::string(to_string(dtype));
  }
  std::string sizes;
  for (const std::int64_t size : shape) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  return text + " [" + sizes + "]";
}

const std::uint8_t* bytes_of(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(tensor.bytes.data());
}

// Reads tensors one by one. The first error stays and what is in error reads as empty, so the
// caller asks for error() once.
class Reader {
 public:
  explicit Reader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // FP8 with one scale per 32 x 32: NAME.weight and NAME.scale.
  Weight fp8(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const Tensor* values = take(name + ".weight", kFp8Only, {rows, cols});
    const Shape tiles{(rows + kGroup - 1) / kGroup, cols / kGroup};
    const Tensor* scales = take(name + ".scale", kScales, tiles);
    return quantized({WeightFormat::kFp8, rows, cols}, values, scales);
  }

  // FP4 with one scale per row and 32 columns.
  Weight fp4(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const Tensor* values = take(name + ".weight", kPackedFp4, {rows, cols / 2});
    const Tensor* scales = take(name + ".scale", kScales, {rows, cols / kGroup});
    return quantized({WeightFormat::kFp4, rows, cols}, values, scales);
  }

  Weight plain(const std::string& name,
               std::int64_t rows,
               std::int64_t cols,
               Dtypes dtypes = kFloats) {
    const Tensor* values = take(name, dtypes, {rows, cols});
    if (values == nullptr || !is_aligned(name, *values)) {
      return {};
    }
    const bool wide = values->dtype == Dtype::kF32;
    return {wide ? WeightFormat::kF32 : WeightFormat::kBf16, rows, cols, values->bytes.data()};
  }

  // Copied, so unaligned data is fine.
  Vector vector(const std::string& name, const Shape& shape) {
    const Tensor* tensor = take(name, kFloats, shape);
    if (tensor == nullptr) {
      return {};
    }
    Vector wide(static_cast<std::size_t>(tensor->elements()));
    if (tensor->dtype == Dtype::kF32) {
      std::memcpy(wide.data(), tensor->bytes.data(), tensor->bytes.size());
      return wide;
    }
    std::vector<Bf16> narrow(wide.size());
    std::memcpy(narrow.data(), tensor->bytes.data(), tensor->bytes.size());
    std::ranges::transform(narrow, wide.begin(), to_float);
    return wide;
  }

  EngramTable table(const std::string& name, std::int64_t rows, std::int64_t dim) {
    const Tensor* codes = take(name + ".weight", kFp8Only, {rows, dim});
    const Tensor* scales = take(name + ".scale", kScales, {rows, dim / kGroup});
    if (codes == nullptr || scales == nullptr) {
      return {};
    }
    return {bytes_of(*codes), bytes_of(*scales), rows, dim};
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  const Tensor* take(const std::string& name, Dtypes dtypes, const Shape& shape) {
    const auto [tensor, file] = checkpoint_.find(name);
    if (tensor == nullptr) {
      refuse(checkpoint_.directory(), name, "is missing, " + describe(dtypes, shape) + " expected");
      return nullptr;
    }
    if (tensor->shape != shape || std::ranges::find(dtypes, tensor->dtype) == dtypes.end()) {
      refuse(*file,
             name,
             "is " + describe({&tensor->dtype, 1}, tensor->shape) + ", " + describe(dtypes, shape) +
                 " expected");
      return nullptr;
    }
    return tensor;
  }

  static Weight quantized(Weight weight, const Tensor* values, const Tensor* scales) {
    if (values == nullptr || scales == nullptr) {
      return {};
    }
    weight.values = values->bytes.data();
    weight.scales = bytes_of(*scales);
    return weight;
  }

  // Operators read wide elements in place. Files in the usual order of dtypes are always aligned.
  bool is_aligned(const std::string& name, const Tensor& tensor) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
    if (address % static_cast<std::uintptr_t>(dtype_bytes(tensor.dtype)) == 0) {
      return true;
    }
    refuse(*checkpoint_.find(name).file, name, "is not aligned to its dtype; write the file again");
    return false;
  }

  void refuse(const std::filesystem::path& file, const std::string& name, const std::string& what) {
    if (!error_) {
      error_ = Error{Code::kMisconfigured,
                     file.string() + ": tensor " + name + " " + what +
                         ": use a checkpoint that fits its config.json"};
    }
  }

  const Checkpoint& checkpoint_;
  std::optional<Error> error_;
};

// What differs between a backbone layer and a draft stage.
struct BlockPlace {
  std::string prefix;
  std::int64_t experts = 0;
  int layer = -1;  // -1: a draft stage, which sees its window only
};

ExpertWeights read_expert(Reader& read, const ModelConfig& c, const std::string& name) {
  return {read.fp4(name + ".w1", c.inter, c.dim),
          read.fp4(name + ".w2", c.dim, c.inter),
          read.fp4(name + ".w3", c.inter, c.dim)};
}

HyperConnection read_hyper_connection(Reader& read, const ModelConfig& c, const std::string& name) {
  const std::int64_t mixes = (2 + c.hc) * c.hc;
  return {read.vector(name + "_fn", {mixes, c.hc * c.dim}),
          read.vector(name + "_base", {mixes}),
          read.vector(name + "_scale", {3})};
}

CompressorWeights read_compressor(Reader& read,
                                  const ModelConfig& c,
                                  const std::string& attn,
                                  int ratio) {
  CompressorWeights w;
  w.wkv = read.plain(attn + "compressor.wkv.weight", c.head_dim, c.dim);
  if (ratio > 1) {
    w.wgate = read.plain(attn + "compressor.wgate.weight", c.head_dim, c.dim);
  }
  w.norm = read.vector(attn + "compressor.norm.weight", {c.head_dim});
  w.index_wk = read.plain(attn + "indexer.wk.weight", c.index_dim, c.head_dim);
  w.index_norm = read.vector(attn + "indexer.k_norm.weight", {c.index_dim});
  return w;
}

EngramWeights read_engram(Reader& read,
                          const ModelConfig& c,
                          const std::string& name,
                          std::int64_t rows) {
  EngramWeights w;
  const std::int64_t columns = (c.engram_ngram - 1) * c.engram_heads;
  w.table = read.table(name + "embed", rows, c.engram_dim);
  w.wkv = read.fp8(name + "wkv", (c.hc + 1) * c.dim, columns * c.engram_dim);
  w.weight = read.vector(name + "q_weight", {c.hc, c.dim});
  const Vector keys = read.vector(name + "k_weight", {c.hc, c.dim});
  if (keys.size() == w.weight.size()) {
    std::ranges::transform(w.weight, keys, w.weight.begin(), std::multiplies<>());
  }
  return w;
}

void read_attention(Reader& read, const ModelConfig& c, const std::string& attn, BlockWeights& b) {
  const std::int64_t width = c.heads * c.head_dim;
  b.wq_a = read.fp8(attn + "wq_a", c.q_lora, c.dim);
  b.wq_b = read.fp8(attn + "wq_b", width, c.q_lora);
  b.wkv = read.fp8(attn + "wkv", c.head_dim, c.dim);
  b.wo_a = read.fp8(attn + "wo_a", c.o_groups * c.o_lora, width / c.o_groups);
  b.wo_b = read.fp8(attn + "wo_b", c.dim, c.o_groups * c.o_lora);
  b.q_norm = read.vector(attn + "q_norm.weight", {c.q_lora});
  b.kv_norm = read.vector(attn + "kv_norm.weight", {c.head_dim});
  b.sink = read.vector(attn + "attn_sink", {c.heads});
}

void read_experts(Reader& read, const ModelConfig& c, const BlockPlace& place, BlockWeights& b) {
  const std::string ffn = place.prefix + "ffn.";
  b.gate = read.plain(ffn + "gate.weight", place.experts, c.dim);
  b.gate_bias = read.vector(ffn + "gate.bias", {place.experts});
  b.gate_bias_vl = read.vector(ffn + "gate.bias_vl", {place.experts});
  const std::string shared = ffn + "shared_experts.";
  b.shared = {read.fp8(shared + "w1", c.inter, c.dim),
              read.fp8(shared + "w2", c.dim, c.inter),
              read.fp8(shared + "w3", c.inter, c.dim)};
  b.experts.reserve(static_cast<std::size_t>(place.experts));
  for (std::int64_t e = 0; e < place.experts && !read.error(); ++e) {
    b.experts.push_back(read_expert(read, c, ffn + "experts." + std::to_string(e)));
  }
}

BlockWeights read_block(Reader& read, const ModelConfig& c, const BlockPlace& place) {
  const std::string& prefix = place.prefix;
  const std::string attn = prefix + "attn.";
  BlockWeights b;
  read_attention(read, c, attn, b);
  b.attn_norm = read.vector(prefix + "attn_norm.weight", {c.dim});
  b.ffn_norm = read.vector(prefix + "ffn_norm.weight", {c.dim});
  b.hc_attn = read_hyper_connection(read, c, prefix + "hc_attn");
  b.hc_ffn = read_hyper_connection(read, c, prefix + "hc_ffn");
  read_experts(read, c, place, b);
  if (c.is_kv_source(place.layer)) {
    b.compressor = read_compressor(read, c, attn, c.ratio(place.layer));
  }
  if (c.is_index_source(place.layer)) {
    b.indexer.wq_b = read.fp8(attn + "indexer.wq_b", c.index_heads * c.index_dim, c.q_lora);
    b.indexer.weights_proj = read.plain(attn + "indexer.weights_proj.weight", c.index_heads, c.dim);
  }
  if (const int engram = c.engram_index(place.layer); engram >= 0) {
    b.engram =
        read_engram(read, c, prefix + "engram.", c.engram_rows[static_cast<std::size_t>(engram)]);
  }
  return b;
}

DraftWeights read_draft(Reader& read, const ModelConfig& c) {
  const std::string last = "mtp." + std::to_string(c.stages - 1) + ".";
  const auto taps = static_cast<std::int64_t>(c.taps.size());
  DraftWeights d;
  d.main_proj = read.fp8("mtp.0.main_proj", c.dim, taps * c.dim);
  d.main_norm = read.vector("mtp.0.main_norm.weight", {c.dim});
  d.norm = read.vector(last + "norm.weight", {c.dim});
  d.markov_embed = read.plain(last + "markov_head.embed.weight", c.vocab, c.markov_rank, kBf16Only);
  d.markov_head = read.plain(last + "markov_head.head.weight", c.vocab, c.markov_rank);
  d.confidence = read.plain(last + "confidence_head.proj.weight", 1, c.dim + c.markov_rank);
  return d;
}

}  // namespace

Result<ModelWeights> load_weights(const ModelConfig& c,
                                  std::shared_ptr<const Checkpoint> checkpoint) {
  Reader read(*checkpoint);
  ModelWeights w;
  w.embed = read.plain("embed.weight", c.vocab, c.dim, kBf16Only);
  w.head = read.plain("head.weight", c.vocab, c.dim);
  w.norm = read.vector("norm.weight", {c.dim});
  for (int layer = 0; layer < c.layers && !read.error(); ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    w.blocks.push_back(read_block(read, c, {prefix, c.experts, layer}));
  }
  for (int stage = 0; stage < c.stages && !read.error(); ++stage) {
    const std::string prefix = "mtp." + std::to_string(stage) + ".";
    w.stages.push_back(read_block(read, c, {prefix, c.draft_experts, -1}));
  }
  if (c.stages > 0) {
    w.draft = read_draft(read, c);
  }
  if (read.error()) {
    return tl::unexpected(*read.error());
  }
  w.checkpoint = std::move(checkpoint);
  return w;
}

Result<ExpertWeights> load_expert(const ModelConfig& c,
                                  const Checkpoint& checkpoint,
                                  int layer,
                                  std::int64_t expert) {
  const bool stage = layer >= c.layers;
  if (layer < 0 || layer >= c.layers + c.stages || expert < 0 ||
      expert >= (stage ? c.draft_experts : c.experts)) {
    return fail(
        Code::kInvalid,
        "the model has no expert " + std::to_string(expert) + " of layer " + std::to_string(layer));
  }
  const std::string block =
      stage ? "mtp." + std::to_string(layer - c.layers) : "layers." + std::to_string(layer);
  Reader read(checkpoint);
  const ExpertWeights weights =
      read_expert(read, c, block + ".ffn.experts." + std::to_string(expert));
  if (read.error()) {
    return tl::unexpected(*read.error());
  }
  return weights;
}

std::int64_t expert_bytes(const ExpertWeights& expert) {
  std::int64_t bytes = 0;
  for (const Weight& w : {expert.w1, expert.w2, expert.w3}) {
    bytes += w.rows * w.cols / 2 + w.rows * w.cols / kGroup;
  }
  return bytes;
}

}  // namespace shoal::kernels
