// The indexer of an index source: queries, scores against its KV source's keys, candidates, top-k
// list of every row (model spec 3.8).
#include <algorithm>
#include <cmath>

#include "kernels/model/graph.h"
#include "kernels/top_k.h"

namespace shoal::kernels {

void Graph::select(GraphStep& step, const Bf16* x, QuantRows qr) const {
  RowSet& rows = *step.rows;
  Workspace& space = step.layer_space;
  const IndexerWeights& w = block(step.layer).indexer;
  const std::int64_t n = rows.count;
  const std::int64_t width = config_.index_heads * config_.index_dim;
  auto* queries = space.take<Bf16>(n * width);
  ops_.linear_quantized(w.wq_b, qr, n, queries);
  ops_.rope(queries,
            rows.positions.data(),
            model_.compressed_freqs,
            n,
            config_.index_heads,
            config_.index_dim,
            false);
  ops_.qdq_index(queries, n * config_.index_heads, config_.index_dim);
  auto* weights = space.take<Bf16>(n * config_.index_heads);
  ops_.linear_bf16(w.weights_proj, x, config_.dim, n, weights, config_.index_heads);
  // One factor, computed in double and rounded once: exact whenever index_dim * heads is a power
  // of 4.
  const double factor = 1.0 / std::sqrt(static_cast<double>(config_.index_dim)) /
                        std::sqrt(static_cast<double>(config_.index_heads));
  ops_.scale_rows(weights, n * config_.index_heads, static_cast<float>(factor));

  rows.picks.assign(static_cast<std::size_t>(n * config_.index_topk), -1);
  if (step.layer == config_.candidate_source) {
    rows.candidates.assign(static_cast<std::size_t>(n), {});
  }
  const SourceLayout& source = arena_.layout().of(config_.kv_owner(step.layer));
  for (const RowSpan& span : rows.spans) {
    std::vector<const std::byte*> blocks;
    for (const BlockId id : step.runs[static_cast<std::size_t>(span.run)].plan->blocks) {
      blocks.push_back(arena_.block(id) + source.index_offset);
    }
    const IndexKeys keys{blocks, source.entries, config_.index_dim};
    pool_.parallel_for(span.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = span.begin + begin; row < span.begin + end; ++row) {
        select_row(rows,
                   step.layer,
                   row,
                   queries + row * width,
                   weights + row * config_.index_heads,
                   keys);
      }
    });
  }
}

void Graph::select_row(RowSet& rows,
                       int layer,
                       std::int64_t row,
                       const Bf16* iq,
                       const Bf16* w,
                       const IndexKeys& keys) const {
  const auto r = static_cast<std::size_t>(row);
  const int ratio = config_.ratios[static_cast<std::size_t>(layer)];
  const std::int64_t visible = (rows.positions[r] + 1) / ratio;
  const bool publishes = layer == config_.candidate_source;
  const bool restricted = config_.candidate_source >= 0 && layer > config_.candidate_source;
  std::int32_t* picks = rows.picks.data() + row * config_.index_topk;
  // Everything fits: no score can change the list. Candidates exclude nothing while all blocks are
  // kept.
  const bool all_candidates = visible <= config_.candidate_blocks * config_.candidate_block;
  if (visible <= config_.index_topk && ((!publishes && !restricted) || all_candidates)) {
    for (std::int64_t j = 0; j < visible; ++j) {
      picks[j] = static_cast<std::int32_t>(j);
    }
    if (publishes) {
      for (std::int64_t b = 0; b * config_.candidate_block < visible; ++b) {
        rows.candidates[r].push_back(b);
      }
    }
    return;
  }
  std::vector<EntryRange> ranges{EntryRange{0, visible}};
  if (restricted) {
    ranges = candidate_ranges(rows.candidates[r], visible, config_.candidate_block);
  }
  std::int64_t count = 0;
  for (const EntryRange& range : ranges) {
    count += range.count;
  }
  thread_local std::vector<float> scores;
  scores.resize(static_cast<std::size_t>(count));
  ops_.index_scores(iq, w, config_.index_heads, keys, ranges, scores.data());
  if (publishes) {
    rows.candidates[r] =
        candidate_blocks(scores, visible, config_.candidate_blocks, config_.candidate_block);
  }
  const std::vector<std::int64_t> top = select_top(scores, ranges, config_.index_topk);
  std::transform(
      top.begin(), top.end(), picks, [](std::int64_t j) { return static_cast<std::int32_t>(j); });
}

}  // namespace shoal::kernels
