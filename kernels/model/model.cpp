// Loads a model directory and proves that its parts belong together: config, weights, tokenizer, Engram tables.
#include "kernels/model/model.h"

#include <algorithm>

#include "kernels/rope_table.h"

namespace shoal::kernels {

namespace {

Result<void> check_engram(const ModelConfig& config, const TokenMap& map, const EngramHash& hash, const std::filesystem::path& directory) {
  if (map.compressed != config.engram_vocab) {
    return fail(Code::kMisconfigured, (directory / "tokenizer.json").string() + ": gives " + std::to_string(map.compressed) +
                                          " canonical tokens, config.json says engram_compressed_vocab_size " +
                                          std::to_string(config.engram_vocab) + "; use the tokenizer the model was trained with");
  }
  if (hash.table_rows() != config.engram_rows) {
    return fail(Code::kMisconfigured, (directory / "config.json").string() +
                                          ": engram_num_embeddings disagrees with engram_vocab_size and engram_n_heads; restore the "
                                          "published config.json");
  }
  if (std::any_of(config.engram_layers.begin(), config.engram_layers.end(), [&](int l) { return l >= config.decoder_start(); })) {
    return fail(Code::kMisconfigured, (directory / "config.json").string() +
                                          ": engram_layer_ids must lie before the last of kv_source_layer_ids");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& directory, const LoadProgress& progress) {
  TRY(const ModelConfig config, read_config(directory));
  TRY(auto checkpoint, Checkpoint::open(directory, progress));
  TRY(ModelWeights weights, load_weights(config, std::move(checkpoint)));
  TokenMap map;
  EngramHash hash(config.engram_layers, config.engram_base, config.engram_heads, config.engram_ngram,
                  std::max<std::int64_t>(1, config.engram_vocab));
  if (!config.engram_layers.empty()) {
    TRY(map, read_token_map(directory));
    TRY_VOID(check_engram(config, map, hash, directory));
  }
  return std::make_shared<const Model>(Model{config,
                                             std::move(weights),
                                             std::move(map),
                                             std::move(hash),
                                             rope_frequencies(config.rope_dim, config.rope_theta),
                                             rope_frequencies(config.rope_dim, config.compress_rope_theta, &config.yarn)});
}

}  // namespace shoal::kernels
