// Weights against their config: both stored models, every kind of misfit, and sizes of real models.
#include "kernels/model/weights.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <string>

#include "kernels/formats.h"
#include "tests/kernels/sparse_checkpoint.h"
#include "tests/kernels/temp_directory.h"

using namespace shoal;
using namespace shoal::kernels;
using shoal::test::TempDirectory;
using shoal::test::TensorSpec;

namespace {

ModelConfig parse(const std::string& json) {
  auto config = parse_config(json, "config.json");
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return *config;
}

Result<ModelWeights> load(const ModelConfig& config, const std::filesystem::path& directory) {
  auto checkpoint = Checkpoint::open(directory);
  REQUIRE_MESSAGE(checkpoint.has_value(), checkpoint.error().message);
  return load_weights(config, *checkpoint);
}

Result<ModelWeights> load_model(const std::filesystem::path& directory) {
  const auto config = read_config(directory);
  REQUIRE(config.has_value());
  return load(*config, directory);
}

const std::string kFull = R"({
    "num_nextn_predict_layers": 2, "compress_ratios": [1, 0, 0], "dspark_block_size": 3,
    "dspark_noise_token_id": 3, "dspark_target_layer_ids": [0], "dspark_markov_rank": 32,
    "dspark_n_routed_experts": 2, "dspark_num_experts_per_tok": 1,
    "engram_layer_ids": [0], "engram_num_embeddings": [64], "engram_max_ngram_size": 2,
    "engram_n_heads": 1, "engram_head_dim": 32, "engram_vocab_size": 16,
    "engram_compressed_vocab_size": 16, "engram_pad_token_id": 2})";

// The published configuration, in fields.
const std::string kReal = R"({
    "vocab_size": 129280, "hidden_size": 5120, "num_hidden_layers": 40,
    "moe_intermediate_size": 2304, "num_attention_heads": 64, "head_dim": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8,
    "max_position_embeddings": 1048576, "n_routed_experts": 384, "num_experts_per_tok": 6,
    "sliding_window": 128,
    "compress_ratios": [0,0, 2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,
                        1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 0,0,0],
    "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512,
    "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4,
    "engram_n_heads": 8, "engram_head_dim": 256, "engram_vocab_size": 16000000,
    "engram_pad_token_id": 2, "engram_compressed_vocab_size": 99092,
    "num_nextn_predict_layers": 3, "dspark_block_size": 5, "dspark_markov_rank": 256,
    "dspark_noise_token_id": 128799, "dspark_target_layer_ids": [37, 38, 39],
    "dspark_n_routed_experts": 128, "dspark_num_experts_per_tok": 3})";

float bf16_at(const Weight& weight, std::int64_t index) {
  Bf16 value;
  std::memcpy(&value, weight.values + 2 * index, sizeof value);
  return to_float(value);
}

}  // namespace

TEST_CASE("the built-in model loads whole") {
  const auto loaded = load_model(SHOAL_MODELS_DIR "/guppy");
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  const ModelWeights& w = *loaded;
  CHECK(w.blocks.size() == 6);
  CHECK(w.stages.size() == 3);
  CHECK(w.blocks[0].experts.size() == 16);
  CHECK(w.stages[2].experts.size() == 8);
  CHECK(w.embed.format == WeightFormat::kBf16);
  // The head holds the embedding / 16.
  CHECK(bf16_at(w.head, 777) == bf16_at(w.embed, 777) / 16);
  CHECK(w.blocks[2].wo_a.rows == 128);
  CHECK(w.blocks[2].wo_a.cols == 192);
  CHECK(w.blocks[2].experts[3].w2.format == WeightFormat::kFp4);
  CHECK(w.blocks[2].experts[3].w2.rows == 160);
  CHECK(w.blocks[2].experts[3].w2.cols == 64);
  CHECK(w.draft.main_proj.cols == 3 * 160);
}

TEST_CASE("only sources carry source weights, and only ratio 2 has a gate") {
  const auto loaded = load_model(SHOAL_GOLDEN_DIR "/model/tiny-random");
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  const auto& blocks = loaded->blocks;
  REQUIRE(blocks.size() == 10);
  CHECK(blocks[4].compressor.wkv);
  CHECK(blocks[4].compressor.wgate);
  CHECK(blocks[6].compressor.wkv);
  CHECK_FALSE(blocks[6].compressor.wgate);
  CHECK_FALSE(blocks[8].compressor.wkv);
  CHECK(blocks[8].indexer.wq_b);
  CHECK_FALSE(blocks[7].indexer.wq_b);
  CHECK(blocks[1].engram.table.rows == 660);
  CHECK(blocks[4].engram.table.rows == 864);
  CHECK(blocks[1].engram.weight.size() == 4 * 128);
  CHECK(blocks[0].engram.table.codes == nullptr);
}

TEST_CASE("a model without drafts and Engram loads, vision tensors are left alone") {
  const TempDirectory directory;
  const auto config = parse(test::small_config());
  auto tensors = test::official_tensors(config);
  tensors.push_back({"vision.norm", "BF16", {7}});
  test::write_sparse(directory.path() / "model.safetensors", tensors);
  const auto loaded = load(config, directory.path());
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  CHECK(loaded->stages.empty());
  CHECK_FALSE(loaded->draft.main_proj);
}

TEST_CASE("norms, gates and compressors may be stored as F32, packed experts as U8") {
  const TempDirectory directory;
  const auto config = parse(test::small_config());
  auto tensors = test::official_tensors(config);
  for (TensorSpec& tensor : tensors) {
    if (tensor.dtype == "BF16" && tensor.name != "embed.weight") {
      tensor.dtype = "F32";
    }
    if (tensor.dtype == "I8") {
      tensor.dtype = "U8";
    }
  }
  const auto path = directory.path() / "model.safetensors";
  const auto offsets = test::write_sparse(path, tensors);
  const float value = 0.7F;
  test::poke(
      path, offsets.at("norm.weight") + 4, {reinterpret_cast<const char*>(&value), sizeof value});
  const auto loaded = load(config, directory.path());
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  CHECK(loaded->blocks[0].gate.format == WeightFormat::kF32);
  CHECK(loaded->blocks[0].compressor.wkv.format == WeightFormat::kF32);
  CHECK(loaded->norm[1] == 0.7F);
}

TEST_CASE("every tensor is required, by name and with the shape it should have") {
  const TempDirectory directory;
  const auto config = parse(test::small_config(kFull));
  const auto tensors = test::official_tensors(config);
  const auto path = directory.path() / "model.safetensors";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto without = tensors;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    test::write_sparse(path, without);
    const auto loaded = load(config, directory.path());
    CAPTURE(tensors[i].name);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == Code::kMisconfigured);
    CHECK(loaded.error().message.starts_with(directory.path().string() + ": tensor " +
                                             tensors[i].name + " is missing"));
    CHECK(loaded.error().message.find(tensors[i].dtype) != std::string::npos);
  }
}

TEST_CASE("every tensor of another shape or dtype is refused with both forms") {
  const TempDirectory directory;
  const auto config = parse(test::small_config(kFull));
  const auto tensors = test::official_tensors(config);
  const auto path = directory.path() / "model.safetensors";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const bool is_shape : {true, false}) {
      auto changed = tensors;
      (is_shape ? void(++changed[i].shape.back()) : void(changed[i].dtype = "I32"));
      test::write_sparse(path, changed);
      const auto loaded = load(config, directory.path());
      CAPTURE(tensors[i].name);
      REQUIRE_FALSE(loaded.has_value());
      CHECK(loaded.error().message.starts_with(path.string() + ": tensor " + tensors[i].name +
                                               " is " + changed[i].dtype));
      CHECK(loaded.error().message.find("expected") != std::string::npos);
    }
  }
}

TEST_CASE("a matrix that is not aligned to its dtype is refused, a vector is copied") {
  const TempDirectory directory;
  const auto config = parse(test::small_config());
  const auto shifted = [&](const std::string& name) {
    auto tensors = test::official_tensors(config);
    const auto found = std::ranges::find(tensors, name, &TensorSpec::name);
    std::rotate(tensors.begin(), found, found + 1);
    test::write_sparse(directory.path() / "model.safetensors", tensors, 1);
    return load(config, directory.path());
  };
  CHECK(shifted("norm.weight").has_value());
  const auto loaded = shifted("head.weight");
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().message.find("tensor head.weight is not aligned") != std::string::npos);
}

TEST_CASE("384 experts load, each at its own place") {
  const TempDirectory directory;
  const auto config =
      parse(test::small_config(R"({"n_routed_experts": 384, "num_experts_per_tok": 6})"));
  const auto path = directory.path() / "model.safetensors";
  const auto offsets = test::write_sparse(path, test::official_tensors(config));
  test::poke(path, offsets.at("layers.0.ffn.experts.383.w3.weight"), "\x5A");
  const auto checkpoint = Checkpoint::open(directory.path());
  REQUIRE(checkpoint.has_value());
  // 30 of every layer, 6 per expert, 4 of a ratio-1 KV source, 3 of an index source, 3 at the top.
  CHECK((*checkpoint)->tensor_count() == 30 + 384 * 6 + 4 + 3 + 3);
  const auto loaded = load_weights(config, *checkpoint);
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  REQUIRE(loaded->blocks[0].experts.size() == 384);
  CHECK(loaded->blocks[0].experts[383].w3.values[0] == std::byte{0x5A});
  CHECK(loaded->blocks[0].experts[382].w3.values[0] == std::byte{0});
}

TEST_CASE("an Engram table beyond 2^31 bytes is addressed to its last row") {
  const TempDirectory directory;
  constexpr std::int64_t kRows = 70'000'000;
  const auto config = parse(test::small_config(R"({
      "engram_layer_ids": [0], "engram_num_embeddings": [70000000], "engram_max_ngram_size": 2,
      "engram_n_heads": 1, "engram_head_dim": 32, "engram_vocab_size": 16,
      "engram_compressed_vocab_size": 16, "engram_pad_token_id": 2})"));
  const auto path = directory.path() / "model.safetensors";
  const auto offsets = test::write_sparse(path, test::official_tensors(config));
  const std::int64_t table = offsets.at("layers.0.engram.embed.weight");
  REQUIRE(offsets.at("norm.weight") - table > (std::int64_t{1} << 31));
  test::poke(path, table + kRows * 32 - 1, "\x7B");
  test::poke(path, offsets.at("layers.0.engram.embed.scale") + kRows - 1, "\x7C");
  test::poke(path, offsets.at("norm.weight"), std::string_view("\x40\x40", 2));
  const auto loaded = load(config, directory.path());
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  const EngramTable& last = loaded->blocks[0].engram.table;
  CHECK(last.rows == kRows);
  CHECK(last.codes[(last.rows - 1) * last.dim + 31] == 0x7B);
  CHECK(last.scales[last.rows - 1] == 0x7C);
  CHECK(loaded->norm[0] == 3.0F);  // stored behind the table
}

TEST_CASE("the published model's 95,819 text tensors load at full size") {
  const TempDirectory directory;
  const auto config = parse(test::small_config(kReal));
  const auto tensors = test::official_tensors(config);
  CHECK(tensors.size() == 96'085 - 266);  // all but vision
  const auto path = directory.path() / "model.safetensors";
  const auto offsets = test::write_sparse(path, tensors);
  test::poke(path, offsets.at("norm.weight"), std::string_view("\x40\x40", 2));
  const auto checkpoint = Checkpoint::open(directory.path());
  REQUIRE_MESSAGE(checkpoint.has_value(), checkpoint.error().message);
  CHECK((*checkpoint)->bytes() > 509'000'000'000);
  CHECK((*checkpoint)->bytes() < 511'000'000'000);
  const auto loaded = load_weights(config, *checkpoint);
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  CHECK(loaded->blocks[14].engram.table.rows == 384'016'682);
  CHECK(loaded->norm[0] == 3.0F);
}
