// Loads a model directory; each part is checked against the config by its own loader.
#include "kernels/model/model.h"

#include <algorithm>
#include <string>

#include "kernels/rope_table.h"

namespace shoal::kernels {

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& directory,
                                                 const LoadProgress& progress) {
  TRY(const ModelConfig config, read_config(directory));
  const auto& layers = config.engram_layers;
  if (std::any_of(
          layers.begin(), layers.end(), [&](int l) { return l >= config.decoder_start(); })) {
    return fail(Code::kMisconfigured,
                (directory / "config.json").string() +
                    ": engram_layer_ids must lie before the last of kv_source_layer_ids");
  }
  TRY(auto checkpoint, Checkpoint::open(directory, progress));
  TRY(ModelWeights weights, load_weights(config, std::move(checkpoint)));
  TRY(Engram engram, load_engram(config, directory));
  return std::make_shared<const Model>(
      Model{config,
            std::move(weights),
            std::move(engram),
            rope_frequencies(config.rope_dim, config.rope_theta),
            rope_frequencies(config.rope_dim, config.compress_rope_theta, &config.yarn)});
}

}  // namespace shoal::kernels
