// What config.json must say before a model is loaded.
#include "kernels/model/config.h"

#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/kernels/temp_directory.h"

using namespace shoal;
using namespace shoal::kernels;

namespace {

const std::filesystem::path kTiny = SHOAL_GOLDEN_DIR "/model/tiny-random";
const std::filesystem::path kGuppy = SHOAL_MODELS_DIR "/guppy";

nlohmann::json tiny_json() {
  return nlohmann::json::parse(std::ifstream(kTiny / "config.json"));
}

// tiny-random's config with some fields of its text model replaced; null removes one.
Result<ModelConfig> parse_with(const char* patch) {
  auto json = tiny_json();
  json["text_config"].merge_patch(nlohmann::json::parse(patch));
  return parse_config(json.dump(), "config.json");
}

}  // namespace

TEST_CASE("the built-in model's config is read field by field") {
  const auto config = read_config(kGuppy);
  REQUIRE(config.has_value());
  const ModelConfig& c = *config;
  CHECK(c.vocab == 2496);
  CHECK(c.dim == 160);
  CHECK(c.layers == 6);
  CHECK(c.heads == 4);
  CHECK(c.head_dim == 96);
  CHECK(c.rope_dim == 32);
  CHECK(c.q_lora == 64);
  CHECK(c.o_groups == 2);
  CHECK(c.o_lora == 64);
  CHECK(c.window == 128);
  CHECK(c.max_positions == 65536);
  CHECK(c.ratios == std::vector<int>{0, 2, 2, 1, 1, 1, 0, 0, 0});
  CHECK(c.index_heads == 2);
  CHECK(c.index_dim == 64);
  CHECK(c.index_topk == 128);
  CHECK(c.candidate_source == 3);
  CHECK(c.candidate_blocks == 32);
  CHECK(c.candidate_block == 8);
  CHECK(c.inter == 64);
  CHECK(c.experts == 16);
  CHECK(c.experts_per_token == 2);
  CHECK(c.route_scale == 1.5F);
  CHECK(c.swiglu_limit == 10.0F);
  CHECK(c.eps == 1e-20F);
  CHECK(c.rope_theta == 10000.0);
  CHECK(c.compress_rope_theta == 160000.0);
  CHECK(c.yarn.factor == 16.0);
  CHECK(c.yarn.original == 4096);
  CHECK(c.yarn.beta_fast == 32.0);
  CHECK(c.yarn.beta_slow == 1.0);
  CHECK(c.hc == 4);
  CHECK(c.hc_iters == 20);
  CHECK(c.hc_eps == 1e-6F);
  CHECK(c.engram_layers == std::vector<int>{0, 1});
  CHECK(c.engram_rows == std::vector<std::int64_t>{4328, 4554});
  CHECK(c.engram_base == 700);
  CHECK(c.engram_heads == 2);
  CHECK(c.engram_dim == 32);
  CHECK(c.engram_ngram == 4);
  CHECK(c.engram_vocab == 2110);
  CHECK(c.stages == 3);
  CHECK(c.draft_block == 5);
  CHECK(c.noise == 2432);
  CHECK(c.taps == std::vector<int>{3, 4, 5});
  CHECK(c.markov_rank == 32);
  CHECK(c.draft_experts == 8);
  CHECK(c.draft_experts_per_token == 2);
  CHECK(c.eos == 1);
  CHECK(c.image_token == 2450);
}

TEST_CASE("owners of compressed KV and top-k lists are the nearest source at or below a layer") {
  const auto config = read_config(kTiny);
  REQUIRE(config.has_value());
  CHECK(config->decoder_start() == 6);
  CHECK(config->kv_owner(1) == -1);
  CHECK(config->kv_owner(2) == 2);
  CHECK(config->kv_owner(5) == 4);
  CHECK(config->kv_owner(9) == 6);
  CHECK(config->index_owner(9) == 8);
  CHECK(config->is_kv_source(4));
  CHECK_FALSE(config->is_kv_source(8));
  CHECK(config->is_index_source(8));
  CHECK(config->engram_index(4) == 1);
  CHECK(config->engram_index(3) == -1);
}

TEST_CASE("text fields may lie flat and rope_scaling may be called rope_parameters") {
  auto json = tiny_json();
  const auto text = json["text_config"];
  json.erase("text_config");
  json.update(text);
  json["rope_parameters"] = json["rope_scaling"];
  json.erase("rope_scaling");
  const auto config = parse_config(json.dump(), "config.json");
  REQUIRE(config.has_value());
  CHECK(config->vocab == 512);
  CHECK(config->yarn.original == 32);
}

TEST_CASE("a model without drafts, Engram or candidates is fine") {
  const auto config = parse_with(R"({"num_nextn_predict_layers": null, "engram_layer_ids": null,
      "candidate_source_layer_id": null, "compress_ratios": [0,0,2,2,2,2,1,1,1,1]})");
  REQUIRE(config.has_value());
  CHECK(config->stages == 0);
  CHECK(config->engram_layers.empty());
  CHECK(config->candidate_source == -1);
}

TEST_CASE("every required field is missed by name") {
  const auto json = tiny_json();
  int required = 0;
  for (const auto& [key, value] : json["text_config"].items()) {
    auto without = json;
    without["text_config"].erase(key);
    const auto config = parse_config(without.dump(), "DIR/config.json");
    // Without draft stages, their entries of compress_ratios are too many: reported as that.
    if (!config && key != "num_nextn_predict_layers") {
      ++required;
      CAPTURE(key);
      CHECK(config.error().code == Code::kMisconfigured);
      CHECK(config.error().message.starts_with("DIR/config.json: "));
      CHECK(config.error().message.find(key) != std::string::npos);
      CHECK(config.error().message.find("is missing") != std::string::npos);
    }
  }
  CHECK(required >= 40);
}

TEST_CASE("every field of the wrong type is refused by name") {
  const auto json = tiny_json();
  for (const auto& [key, value] : json["text_config"].items()) {
    if (key == "model_type" || key == "use_cache") {
      continue;  // not used
    }
    auto broken = json;
    broken["text_config"][key] = nlohmann::json::object({{"wrong", "type"}});
    const auto config = parse_config(broken.dump(), "config.json");
    CAPTURE(key);
    REQUIRE_FALSE(config.has_value());
    const std::string named = key == "rope_scaling" ? "rope_scaling.factor" : key;
    CHECK(config.error().message.find(named) != std::string::npos);
  }
}

TEST_CASE("impossible values are refused by name") {
  struct Case {
    const char* patch;
    const char* field;
  };

  const Case cases[] = {
      {R"({"head_dim": 48})", "head_dim"},
      {R"({"hidden_size": 100})", "hidden_size"},
      {R"({"hidden_size": 9223372036854775807})", "hidden_size"},
      {R"({"vocab_size": 1e99})", "vocab_size"},
      {R"({"vocab_size": -512})", "vocab_size"},
      {R"({"qk_rope_head_dim": 96})", "qk_rope_head_dim"},
      {R"({"qk_rope_head_dim": 31})", "qk_rope_head_dim"},
      {R"({"index_head_dim": 32, "qk_rope_head_dim": 64})", "index_head_dim"},
      {R"({"o_groups": 3})", "o_groups"},
      {R"({"sliding_window": 0})", "sliding_window"},
      {R"({"num_experts_per_tok": 9})", "num_experts_per_tok"},
      {R"({"num_key_value_heads": 2})", "num_key_value_heads"},
      {R"({"hidden_act": "gelu"})", "hidden_act"},
      {R"({"scoring_func": "softmax"})", "scoring_func"},
      {R"({"rope_scaling": {"type": "linear"}})", "rope_scaling.type"},
      {R"({"rope_scaling": {"factor": 0}})", "rope_scaling.factor"},
      {R"({"rope_scaling": {"original_max_position_embeddings": 0}})", "original_max_position"},
      {R"({"compress_ratios": [0, 0, 2]})", "compress_ratios"},
      {R"({"compress_ratios": [0,0,2,2,2,2,1,1,1,1,0,0,1]})", "compress_ratios"},
      {R"({"compress_ratios": [0,0,2,2,2,2,1,2,1,1,0,0,0]})", "compress_ratios"},
      {R"({"compress_ratios": [0,0,0,2,2,2,1,1,1,1,0,0,0]})", "compress_ratios"},
      {R"({"compress_ratios": [1,0,2,2,2,2,1,1,1,1,0,0,0]})", "compress_ratios"},
      {R"({"kv_source_layer_ids": []})", "kv_source_layer_ids"},
      {R"({"kv_source_layer_ids": [2, 2, 6]})", "kv_source_layer_ids"},
      {R"({"kv_source_layer_ids": [4, 2, 6]})", "kv_source_layer_ids"},
      {R"({"kv_source_layer_ids": [2, 4, 10]})", "kv_source_layer_ids"},
      {R"({"index_source_layer_ids": [2, 6, 8]})", "index_source_layer_ids"},
      {R"({"candidate_source_layer_id": 7})", "candidate_source_layer_id"},
      {R"({"candidate_source_layer_id": 4})", "candidate_source_layer_id"},
      {R"({"candidate_topk_blocks": 2})", "candidate_topk_blocks"},
      {R"({"engram_layer_ids": [4, 1]})", "engram_layer_ids"},
      {R"({"engram_num_embeddings": [660]})", "engram_num_embeddings"},
      {R"({"engram_max_ngram_size": 1})", "engram_max_ngram_size"},
      {R"({"engram_pad_token_id": 512})", "engram_pad_token_id"},
      {R"({"engram_compressed_vocab_size": 0})", "engram_compressed_vocab_size"},
      {R"({"dspark_target_layer_ids": [7, 8, 10]})", "dspark_target_layer_ids"},
      {R"({"dspark_num_experts_per_tok": 5})", "dspark_num_experts_per_tok"},
      {R"({"dspark_noise_token_id": 512})", "dspark_noise_token_id"},
  };
  for (const Case& bad : cases) {
    const auto config = parse_with(bad.patch);
    CAPTURE(bad.patch);
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().code == Code::kMisconfigured);
    CHECK(config.error().message.find(bad.field) != std::string::npos);
  }
}

TEST_CASE("a config that is no JSON object, or of another model, is refused") {
  const auto refused = [](const std::string& json, std::string_view what) {
    const auto config = parse_config(json, "DIR/config.json");
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().message.starts_with("DIR/config.json: "));
    CHECK(config.error().message.find(what) != std::string::npos);
  };
  refused("", "not valid JSON");
  refused("{", "not valid JSON");
  refused("[]", "must be a JSON object");
  refused(std::string(100'000, '[') + std::string(100'000, ']'), "not valid JSON");
  auto json = tiny_json();
  json["model_type"] = "llama";
  refused(json.dump(), "model_type");
  json = tiny_json();
  json["quantization_config"]["weight_block_size"] = {128, 128};
  refused(json.dump(), "quantization_config.weight_block_size");
  json = tiny_json();
  json["eos_token_id"] = 512;
  refused(json.dump(), "eos_token_id");
}

TEST_CASE("a directory without config.json is named") {
  const test::TempDirectory directory;
  const auto config = read_config(directory.path());
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().message.find((directory.path() / "config.json").string()) == 0);
}
