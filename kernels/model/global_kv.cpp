// Global KV of a KV source: compressor, index keys and main entries of the groups that a step's
// rows complete (model spec 3.7, 3.8).
#include <algorithm>

#include "kernels/model/graph.h"
#include "schemas/check.h"

namespace shoal::kernels {

namespace {

// A row that writes global KV.
struct Writer {
  const RowSpan* span = nullptr;
  std::int64_t row = 0;
  Position position = 0;
};

}  // namespace

void Graph::append_global(
    GraphStep& step, int layer, const RowSet& rows, const Bf16* x, Writers writers) const {
  std::vector<Writer> list;
  for (const RowSpan& span : rows.spans) {
    const RowRun& plan = *step.runs[static_cast<std::size_t>(span.run)].plan;
    const bool full = plan.stack == Stack::kAll;
    if ((writers == Writers::kEncoderOnly && full) ||
        (writers == Writers::kFullStackOnly && !full)) {
      continue;
    }
    for (std::int64_t i = std::max<Position>(0, plan.writes_from - span.first); i < span.count;
         ++i) {
      list.push_back(Writer{&span, span.begin + i, span.first + i});
    }
  }
  if (list.empty()) {
    return;
  }
  Workspace& space = step.layer_space;
  const CompressorWeights& w = block(layer).compressor;
  const auto n = static_cast<std::int64_t>(list.size());
  const std::int64_t d = config_.head_dim;
  const Bf16* input = x;
  if (n != rows.count) {
    auto* gathered = space.take<Bf16>(n * config_.dim);
    for (std::int64_t i = 0; i < n; ++i) {
      std::copy_n(x + list[static_cast<std::size_t>(i)].row * config_.dim,
                  config_.dim,
                  gathered + i * config_.dim);
    }
    input = gathered;
  }
  std::vector<std::pair<int, Position>>
      entries;  // (run, first position of the group), in the order of the latents
  if (config_.ratios[static_cast<std::size_t>(layer)] == 1) {
    auto* latent = space.take<Bf16>(n * d);
    ops_.linear_bf16(w.wkv, input, config_.dim, n, latent, d);
    for (const Writer& writer : list) {
      entries.emplace_back(writer.span->run, writer.position);
    }
    append_entries(step, layer, latent, entries);
    return;
  }

  auto* kv = space.take<float>(n * d);
  auto* score = space.take<float>(n * d);
  ops_.linear_f32(w.wkv, input, n, kv);
  ops_.linear_f32(w.wgate, input, n, score);
  auto* pair_kv = space.take<float>(n * 2 * d);
  auto* pair_score = space.take<float>(n * 2 * d);
  const auto source = static_cast<std::size_t>(
      std::find(config_.kv_sources.begin(), config_.kv_sources.end(), layer) -
      config_.kv_sources.begin());
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Writer& writer = list[static_cast<std::size_t>(i)];
    const OpenPair& open =
        step.runs[static_cast<std::size_t>(writer.span->run)].state->open[source];
    if (writer.position % 2 == 0) {
      continue;
    }
    const bool in_batch = i > 0 && list[static_cast<std::size_t>(i - 1)].span == writer.span;
    std::copy_n(
        in_batch ? kv + (i - 1) * d : open.kv(writer.position - 1), d, pair_kv + pairs * 2 * d);
    std::copy_n(in_batch ? score + (i - 1) * d : open.score(writer.position - 1),
                d,
                pair_score + pairs * 2 * d);
    std::copy_n(kv + i * d, d, pair_kv + (pairs * 2 + 1) * d);
    std::copy_n(score + i * d, d, pair_score + (pairs * 2 + 1) * d);
    entries.emplace_back(writer.span->run, writer.position - 1);
    ++pairs;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const Writer& writer = list[static_cast<std::size_t>(i)];
    if (writer.span->first + writer.span->count - writer.position <= kRecent) {
      step.runs[static_cast<std::size_t>(writer.span->run)].state->open[source].put(
          writer.position, kv + i * d, score + i * d);
    }
  }
  if (pairs > 0) {
    auto* latent = space.take<Bf16>(pairs * d);
    ops_.pool_pairs(pair_kv, pair_score, pairs, d, latent);
    append_entries(step, layer, latent, entries);
  }
}

void Graph::append_entries(GraphStep& step,
                           int layer,
                           Bf16* latent,
                           const std::vector<std::pair<int, Position>>& entries) const {
  Workspace& space = step.layer_space;
  const CompressorWeights& w = block(layer).compressor;
  const SourceLayout& source = arena_.layout().of(layer);
  const auto m = static_cast<std::int64_t>(entries.size());
  const std::int64_t d = config_.head_dim;
  ops_.rms_norm(latent, w.norm.data(), m, d, config_.eps, latent);

  auto* positions = space.take<std::int64_t>(m);
  auto** main_rows = space.take<std::byte*>(m);
  auto** key_rows = space.take<std::byte*>(m);
  for (std::int64_t i = 0; i < m; ++i) {
    const auto [run, position] = entries[static_cast<std::size_t>(i)];
    const std::int64_t entry = position / source.ratio;
    std::byte* base =
        arena_.block(step.runs[static_cast<std::size_t>(run)]
                         .plan->blocks[static_cast<std::size_t>(entry / source.entries)]);
    positions[i] = position;
    main_rows[i] = base + source.main_offset + entry % source.entries * arena_.layout().main_row;
    key_rows[i] = base + source.index_offset + entry % source.entries * arena_.layout().index_row;
  }
  // The index key reads the latent before it is rotated.
  auto* keys = space.take<Bf16>(m * config_.index_dim);
  ops_.linear_bf16(w.index_wk, latent, d, m, keys, config_.index_dim);
  ops_.rms_norm(keys, w.index_norm.data(), m, config_.index_dim, config_.eps, keys);
  ops_.rope(keys, positions, model_.compressed_freqs, m, 1, config_.index_dim, false);
  ops_.pack_index(keys, m, config_.index_dim, key_rows);
  ops_.rope(latent, positions, model_.compressed_freqs, m, 1, d, false);
  ops_.pack_main(latent, m, d, main_rows);
}

}  // namespace shoal::kernels
