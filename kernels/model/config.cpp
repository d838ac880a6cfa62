// Reads config.json and refuses a model this program cannot run, before any weight is touched.
#include "kernels/model/config.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "kernels/model/json.h"

namespace shoal::kernels {
namespace {

// Limits of sanity, far above any real model: no product of sizes formed from them overflows.
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxDim = 1 << 17;
constexpr std::int64_t kMaxCount = 1 << 12;  // layers, heads, groups, a head's size
constexpr std::int64_t kMaxExperts = 1 << 16;
constexpr std::int64_t kMaxPositions = 1 << 30;
constexpr std::int64_t kMaxTableRows = std::int64_t{1} << 40;
constexpr std::int64_t kScaleGroup = 32;  // every quantised axis is a multiple of it

// One JSON object read field by field. The first error stays and a field in error reads as the
// smallest allowed value, so the caller asks for error() once.
class Fields {
 public:
  Fields(simdjson::dom::object object, std::string where)
      : object_(object),
        where_(std::move(where)) {}

  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) {
    std::int64_t value = 0;
    if (object_[key].get(value) != simdjson::SUCCESS || value < low || value > high) {
      refuse(key, "must be an integer " + range(low, high));
      return low;
    }
    return value;
  }

  std::int64_t multiple_of_32(std::string_view key, std::int64_t high) {
    const std::int64_t value = integer(key, kScaleGroup, high);
    require(value % kScaleGroup == 0, key, "must be a multiple of 32");
    return value;
  }

  double real(std::string_view key, double low, double high) {
    double value = 0;
    if (object_[key].get(value) != simdjson::SUCCESS || !(value >= low && value <= high)) {
      refuse(key, "must be a number " + range(low, high));
      return low;
    }
    return value;
  }

  template <class T = int>
  std::vector<T> list(std::string_view key, std::int64_t low, std::int64_t high) {
    std::vector<T> values;
    simdjson::dom::array array;
    if (object_[key].get(array) == simdjson::SUCCESS && array.size() <= kMaxCount) {
      for (const auto element : array) {
        std::int64_t value = 0;
        if (element.get(value) != simdjson::SUCCESS || value < low || value > high) {
          break;
        }
        values.push_back(static_cast<T>(value));
      }
      if (values.size() == array.size()) {
        return values;
      }
    }
    refuse(key, "must be a list of integers " + range(low, high));
    return {};
  }

  // A field whose absence is fine, but which, if there, must say what the program does.
  void expect_text(std::string_view key, std::string_view only) {
    const auto element = object_[key];
    std::string_view value;
    if (!has(key) || (element.get(value) == simdjson::SUCCESS && value == only)) {
      return;
    }
    refuse(key, "must be \"" + std::string(only) + "\": no other kind is supported");
  }

  void expect_one(std::string_view key) {
    if (has(key)) {
      integer(key, 1, 1);
    }
  }

  void expect_flag(std::string_view key, bool only) {
    bool value = only;
    if (has(key) && (object_[key].get(value) != simdjson::SUCCESS || value != only)) {
      refuse(key,
             only ? "must be true: no other kind is supported"
                  : "must be false: no other kind is supported");
    }
  }

  // Absent and null are the same.
  bool has(std::string_view key) const {
    simdjson::dom::element element;
    return object_[key].get(element) == simdjson::SUCCESS && !element.is_null();
  }

  std::optional<Fields> object(std::string_view key) const {
    simdjson::dom::object inner;
    if (object_[key].get(inner) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    return Fields(inner, where_ + std::string(key) + ".");
  }

  void require(bool condition, std::string_view key, std::string_view what) {
    if (!condition) {
      refuse(key, what);
    }
  }

  // Takes over the error of an inner object.
  void join(const Fields& inner) {
    if (!error_) {
      error_ = inner.error_;
    }
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  static std::string range(auto low, auto high) {
    std::ostringstream text;
    text << "from " << low << " to " << high;
    return std::move(text).str();
  }

  void refuse(std::string_view key, std::string_view what) {
    if (!error_) {
      const std::string missing = has(key) ? " " : " is missing: it ";
      error_ = Error{Code::kMisconfigured, where_ + std::string(key) + missing + std::string(what)};
    }
  }

  simdjson::dom::object object_;
  std::string where_;  // "FILE: outer." in front of every key
  std::optional<Error> error_;
};

bool is_ascending(const std::vector<int>& values) {
  return std::ranges::adjacent_find(values, std::greater_equal<>()) == values.end();
}

bool contains(const std::vector<int>& values, int value) {
  return std::ranges::find(values, value) != values.end();
}

// Largest element <= layer; -1 if there is none.
int owner(const std::vector<int>& sources, int layer) {
  const auto after = std::ranges::upper_bound(sources, layer);
  return after == sources.begin() ? -1 : *std::prev(after);
}

void read_kind(Fields& f) {
  f.expect_text("hidden_act", "silu");
  f.expect_text("scoring_func", "sqrtsoftplus");
  f.expect_text("topk_method", "noaux_tc");
  f.expect_flag("norm_topk_prob", true);
  f.expect_flag("tie_word_embeddings", false);
  f.expect_one("num_key_value_heads");
  f.expect_one("n_shared_experts");
}

void read_sizes(Fields& f, ModelConfig& c) {
  c.vocab = f.integer("vocab_size", 1, kMaxVocab);
  c.dim = f.multiple_of_32("hidden_size", kMaxDim);
  c.layers = static_cast<int>(f.integer("num_hidden_layers", 1, kMaxCount));
  c.heads = f.integer("num_attention_heads", 1, kMaxCount);
  c.head_dim = f.multiple_of_32("head_dim", kMaxCount);
  c.rope_dim = f.integer("qk_rope_head_dim", 2, c.head_dim);
  f.require(c.rope_dim % 2 == 0, "qk_rope_head_dim", "must be even");
  c.q_lora = f.multiple_of_32("q_lora_rank", kMaxDim);
  c.o_groups = f.integer("o_groups", 1, kMaxCount);
  c.o_lora = f.multiple_of_32("o_lora_rank", kMaxDim);
  f.require(c.heads % c.o_groups == 0, "o_groups", "must divide num_attention_heads");
  c.window = f.integer("sliding_window", 1, kMaxPositions);
  c.max_positions = f.integer("max_position_embeddings", 1, kMaxPositions);
  c.inter = f.multiple_of_32("moe_intermediate_size", kMaxDim);
  c.experts = f.integer("n_routed_experts", 1, kMaxExperts);
  c.experts_per_token = static_cast<int>(f.integer("num_experts_per_tok", 1, c.experts));
  c.route_scale = static_cast<float>(f.real("routed_scaling_factor", 1e-6, 1e6));
  c.swiglu_limit = static_cast<float>(f.real("swiglu_limit", 1e-6, 1e6));
  c.eps = static_cast<float>(f.real("rms_norm_eps", 0, 1));
  c.hc = f.integer("hc_mult", 1, 16);
  c.hc_iters = static_cast<int>(f.integer("hc_sinkhorn_iters", 1, 1000));
  c.hc_eps = static_cast<float>(f.real("hc_eps", 0, 1));
}

void read_rope(Fields& f, ModelConfig& c) {
  c.rope_theta = f.real("rope_theta", 1, 1e12);
  c.compress_rope_theta = f.real("compress_rope_theta", 1, 1e12);
  auto rope = f.object("rope_scaling");
  if (!rope) {
    rope = f.object("rope_parameters");
  }
  f.require(rope.has_value(), "rope_scaling", "must be an object; rope_parameters will do as well");
  if (!rope) {
    return;
  }
  rope->expect_text("type", "yarn");
  rope->expect_text("rope_type", "yarn");
  c.yarn.factor = rope->real("factor", 1, 1e6);
  c.yarn.original = rope->integer("original_max_position_embeddings", 1, kMaxPositions);
  c.yarn.beta_fast = rope->real("beta_fast", 1e-3, 1e6);
  c.yarn.beta_slow = rope->real("beta_slow", 1e-3, 1e6);
  rope->require(c.yarn.beta_slow <= c.yarn.beta_fast, "beta_slow", "must not exceed beta_fast");
  f.join(*rope);
}

void read_indexer(Fields& f, ModelConfig& c) {
  c.index_heads = f.integer("index_n_heads", 1, kMaxCount);
  c.index_dim = f.multiple_of_32("index_head_dim", kMaxCount);
  f.require(c.index_dim >= c.rope_dim, "index_head_dim", "must hold qk_rope_head_dim");
  c.index_topk = f.integer("index_topk", 1, kMaxPositions);
  if (f.has("candidate_source_layer_id")) {
    c.candidate_source = static_cast<int>(f.integer("candidate_source_layer_id", -1, c.layers - 1));
  }
  if (c.candidate_source < 0) {
    return;
  }
  c.candidate_blocks = f.integer("candidate_topk_blocks", 1, kMaxPositions);
  c.candidate_block = f.integer("candidate_block_size", 1, kMaxCount);
  // Else a row could have fewer candidates than the top-k asks for (model spec 3.8).
  f.require((c.candidate_blocks - 1) * c.candidate_block + 1 >= c.index_topk,
            "candidate_topk_blocks",
            "is too small: (blocks - 1) * candidate_block_size + 1 must reach index_topk");
}

void read_sources(Fields& f, ModelConfig& c) {
  c.kv_sources = f.list("kv_source_layer_ids", 0, c.layers - 1);
  c.index_sources = f.list("index_source_layer_ids", 0, c.layers - 1);
  f.require(!c.kv_sources.empty() && is_ascending(c.kv_sources),
            "kv_source_layer_ids",
            "must name at least one layer, in ascending order");
  f.require(is_ascending(c.index_sources), "index_source_layer_ids", "must be in ascending order");
  f.require(std::ranges::includes(c.index_sources, c.kv_sources),
            "index_source_layer_ids",
            "must hold every layer of kv_source_layer_ids");
  const int candidate = c.candidate_source;
  f.require(candidate < 0 || c.kv_sources.empty() ||
                (c.is_index_source(candidate) && candidate >= c.kv_sources.back()),
            "candidate_source_layer_id",
            "must be an index source that reads the last KV source");
}

// A compressed layer reads a KV source of its own ratio; draft stages see their window only.
void read_ratios(Fields& f, ModelConfig& c) {
  c.ratios = f.list("compress_ratios", 0, 2);
  const auto wanted = static_cast<std::size_t>(c.layers + c.stages);
  if (c.ratios.size() != wanted) {
    f.require(false,
              "compress_ratios",
              "must have " + std::to_string(wanted) +
                  " entries: num_hidden_layers + num_nextn_predict_layers");
    return;
  }
  for (int layer = 0; layer < c.layers + c.stages; ++layer) {
    const int ratio = c.ratio(layer);
    const int source = c.kv_owner(layer);
    const bool fits = ratio == 0 ? !c.is_index_source(layer)
                                 : layer < c.layers && source >= 0 && c.ratio(source) == ratio;
    f.require(fits,
              "compress_ratios",
              "entry " + std::to_string(layer) + " does not fit that layer's KV and index sources");
  }
}

void read_engram(Fields& f, ModelConfig& c) {
  if (!f.has("engram_layer_ids")) {
    return;
  }
  c.engram_layers = f.list("engram_layer_ids", 0, c.layers - 1);
  if (c.engram_layers.empty()) {
    return;
  }
  f.require(is_ascending(c.engram_layers), "engram_layer_ids", "must be in ascending order");
  c.engram_rows = f.list<std::int64_t>("engram_num_embeddings", 1, kMaxTableRows);
  f.require(c.engram_rows.size() == c.engram_layers.size(),
            "engram_num_embeddings",
            "must have one entry per layer of engram_layer_ids");
  c.engram_base = f.integer("engram_vocab_size", 2, kMaxTableRows);
  c.engram_heads = f.integer("engram_n_heads", 1, 64);
  c.engram_dim = f.multiple_of_32("engram_head_dim", kMaxCount);
  c.engram_ngram = static_cast<int>(f.integer("engram_max_ngram_size", 2, 8));
  c.engram_pad = static_cast<TokenId>(f.integer("engram_pad_token_id", 0, c.vocab - 1));
  c.engram_vocab = f.integer("engram_compressed_vocab_size", 1, c.vocab);
}

void read_stages(Fields& f, ModelConfig& c) {
  if (f.has("num_nextn_predict_layers")) {
    c.stages = static_cast<int>(f.integer("num_nextn_predict_layers", 0, 64));
  }
  if (c.stages == 0) {
    return;
  }
  c.draft_block = static_cast<int>(f.integer("dspark_block_size", 1, 64));
  c.noise = static_cast<TokenId>(f.integer("dspark_noise_token_id", 0, c.vocab - 1));
  c.taps = f.list("dspark_target_layer_ids", 0, c.layers - 1);
  f.require(!c.taps.empty() && is_ascending(c.taps),
            "dspark_target_layer_ids",
            "must name at least one layer, in ascending order");
  if (!c.taps.empty() && !c.kv_sources.empty()) {
    f.require(c.taps.front() >= c.decoder_start(),
              "dspark_target_layer_ids",
              "must name layers of the decoder half, which begins with layer " +
                  std::to_string(c.decoder_start()));
  }
  c.markov_rank = f.integer("dspark_markov_rank", 1, kMaxDim);
  c.draft_experts = f.integer("dspark_n_routed_experts", 1, kMaxExperts);
  c.draft_experts_per_token =
      static_cast<int>(f.integer("dspark_num_experts_per_tok", 1, c.draft_experts));
}

void read_special_tokens(Fields& f, ModelConfig& c) {
  c.bos = static_cast<TokenId>(f.integer("bos_token_id", 0, c.vocab - 1));
  c.eos = static_cast<TokenId>(f.integer("eos_token_id", 0, c.vocab - 1));
  c.pad = static_cast<TokenId>(f.integer("pad_token_id", 0, c.vocab - 1));
  if (f.has("image_token_id")) {
    c.image_token = static_cast<TokenId>(f.integer("image_token_id", 0, c.vocab - 1));
  }
}

void read_format(Fields& f) {
  if (f.object("text_config")) {
    f.expect_text("model_type", "deepseek_v41");
  }
  auto quantization = f.object("quantization_config");
  if (!quantization) {
    return;
  }
  quantization->expect_text("quant_method", "fp8");
  quantization->expect_text("scale_fmt", "ue8m0");
  quantization->expect_text("expert_dtype", "fp4");
  if (quantization->has("weight_block_size")) {
    const auto block = quantization->list("weight_block_size", 1, kMaxDim);
    quantization->require(
        block == std::vector<int>{32, 32}, "weight_block_size", "must be [32, 32]");
  }
  f.join(*quantization);
}

}  // namespace

int ModelConfig::kv_owner(int layer) const {
  return owner(kv_sources, layer);
}

int ModelConfig::index_owner(int layer) const {
  return owner(index_sources, layer);
}

bool ModelConfig::is_kv_source(int layer) const {
  return contains(kv_sources, layer);
}

bool ModelConfig::is_index_source(int layer) const {
  return contains(index_sources, layer);
}

int ModelConfig::engram_index(int layer) const {
  const auto it = std::ranges::find(engram_layers, layer);
  return it == engram_layers.end() ? -1 : static_cast<int>(it - engram_layers.begin());
}

Result<ModelConfig> parse_config(std::string_view json, std::string_view name_for_errors) {
  TRY(const auto document, JsonDocument::parse(json, name_for_errors));
  const std::string where = std::string(name_for_errors) + ": ";
  simdjson::dom::object root;
  if (document.root().get(root) != simdjson::SUCCESS) {
    return fail(Code::kMisconfigured, where + "must be a JSON object");
  }
  Fields top(root, where);
  // The text model's fields lie in text_config, or flat beside the special tokens.
  auto text = top.object("text_config").value_or(top);
  ModelConfig config;
  read_kind(text);
  read_sizes(text, config);
  read_rope(text, config);
  read_indexer(text, config);
  read_sources(text, config);
  read_stages(text, config);
  read_ratios(text, config);
  read_engram(text, config);
  top.join(text);
  read_special_tokens(top, config);
  read_format(top);
  if (top.error()) {
    return tl::unexpected(*top.error());
  }
  return config;
}

Result<ModelConfig> read_config(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  TRY(const auto text, read_text(path));
  return parse_config(text, path.string());
}

}  // namespace shoal::kernels
