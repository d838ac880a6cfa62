// Attention of one backbone layer: projections, window rows, the attention list of every row,
// output projection (model spec 3.6).
#include <algorithm>
#include <cmath>

#include "kernels/model/block_pass.h"
#include "kernels/model/graph.h"
#include "schemas/check.h"

namespace shoal::kernels {

namespace {

// Query rows whose lists are built at a time: bounds the lists' memory (10 KB a row at window 128 +
// top-k 512).
constexpr std::int64_t kListTile = 256;

}  // namespace

void Graph::attention(GraphStep& step, const Bf16* x, Bf16* y) const {
  const RowSet& rows = *step.rows;
  const BlockWeights& w = block(step.layer);
  const std::vector<float>& freqs = model_.freqs(step.layer);
  Workspace& space = step.layer_space;
  const std::int64_t n = rows.count;
  const std::int64_t width = config_.heads * config_.head_dim;

  const QuantRows qx = quantize(space, x, n, config_.dim);
  auto* qr = space.take<Bf16>(n * config_.q_lora);
  ops_.linear_quantized(w.wq_a, qx, n, qr);
  ops_.rms_norm(qr, w.q_norm.data(), n, config_.q_lora, config_.eps, qr);
  const QuantRows quantized_qr = quantize(space, qr, n, config_.q_lora);
  auto* q = space.take<Bf16>(n * width);
  ops_.linear_quantized(w.wq_b, quantized_qr, n, q);
  ops_.rope(q, rows.positions.data(), freqs, n, config_.heads, config_.head_dim, false);

  auto* kv = space.take<Bf16>(n * config_.head_dim);
  ops_.linear_quantized(w.wkv, qx, n, kv);
  ops_.rms_norm(kv, w.kv_norm.data(), n, config_.head_dim, config_.eps, kv);
  ops_.rope(kv, rows.positions.data(), freqs, n, 1, config_.head_dim, false);
  const std::int64_t row_bytes = window_row_bytes(config_.head_dim);
  auto* window_rows = space.take<std::byte>(n * row_bytes);
  auto** destinations = space.take<std::byte*>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    destinations[i] = window_rows + i * row_bytes;
  }
  ops_.pack_window(kv, n, config_.head_dim, destinations);

  if (config_.is_kv_source(step.layer)) {
    const bool decoder_half = step.layer == config_.decoder_start();
    append_global(
        step, step.layer, rows, x, decoder_half ? Writers::kFullStackOnly : Writers::kAllSpans);
  }
  if (config_.is_index_source(step.layer)) {
    select(step, x, quantized_qr);
  }
  auto* o = space.take<Bf16>(n * width);
  attend(step, q, window_rows, o);
  ops_.rope(o, rows.positions.data(), freqs, n, config_.heads, config_.head_dim, true);
  project_output(ops_, config_, w, o, n, space, y);
  store_window(step, window_rows);
}

void Graph::attend(GraphStep& step, const Bf16* q, const std::byte* window_rows, Bf16* o) const {
  const RowSet& rows = *step.rows;
  const bool compressed = config_.ratios[static_cast<std::size_t>(step.layer)] > 0;
  const std::int64_t length = config_.window + (compressed ? config_.index_topk : 0);
  const std::int64_t width = config_.heads * config_.head_dim;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  auto* lists = step.layer_space.take<KvEntry>(std::min(rows.count, kListTile) * length);
  std::vector<const RowSpan*> span_of(static_cast<std::size_t>(rows.count));
  for (const RowSpan& span : rows.spans) {
    std::fill_n(span_of.begin() + span.begin, span.count, &span);
  }
  for (std::int64_t tile = 0; tile < rows.count; tile += kListTile) {
    const std::int64_t n = std::min(kListTile, rows.count - tile);
    pool_.parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(tile + i);
        fill_list(step, *span_of[row], rows.positions[row], window_rows, lists + i * length);
      }
    });
    ops_.attention(q + tile * width,
                   lists,
                   length,
                   block(step.layer).sink.data(),
                   scale,
                   n,
                   config_.heads,
                   config_.head_dim,
                   o + tile * width);
  }
}

// The canonical list: window slots oldest first with holes at the front, then the picked entries
// ascending with holes at the end.
void Graph::fill_list(const GraphStep& step,
                      const RowSpan& span,
                      Position position,
                      const std::byte* window_rows,
                      KvEntry* list) const {
  const GraphRun& run = step.runs[static_cast<std::size_t>(span.run)];
  const bool encoder = step.layer < config_.decoder_start();
  const Position floor = encoder ? run.plan->encoder_floor : run.plan->decoder_floor;
  const Position low = std::max({floor, position - config_.window + 1, Position{0}});
  const std::int64_t holes = config_.window - (position + 1 - low);
  std::fill_n(list, holes, KvEntry{});
  const WindowRing& ring = run.state->rings[static_cast<std::size_t>(step.layer)];
  const std::int64_t row_bytes = window_row_bytes(config_.head_dim);
  for (Position p = low; p <= position; ++p) {
    const std::byte* row =
        p >= span.first ? window_rows + (span.begin + p - span.first) * row_bytes : ring.get(p);
    list[holes + p - low] = KvEntry{row, EntryFormat::kWindow};
  }
  if (config_.ratios[static_cast<std::size_t>(step.layer)] == 0) {
    return;
  }
  const SourceLayout& source = arena_.layout().of(config_.kv_owner(step.layer));
  const std::int64_t row = span.begin + position - span.first;
  const std::int32_t* picks = step.rows->picks.data() + row * config_.index_topk;
  KvEntry* entries = list + config_.window;
  for (std::int64_t i = 0; i < config_.index_topk; ++i) {
    if (picks[i] < 0) {
      std::fill(entries + i, entries + config_.index_topk, KvEntry{});
      break;
    }
    const std::byte* base =
        arena_.block(run.plan->blocks[static_cast<std::size_t>(picks[i] / source.entries)]);
    entries[i] =
        KvEntry{base + source.main_offset + picks[i] % source.entries * arena_.layout().main_row,
                EntryFormat::kMain};
  }
}

void Graph::store_window(GraphStep& step, const std::byte* window_rows) const {
  const std::int64_t row_bytes = window_row_bytes(config_.head_dim);
  for (const RowSpan& span : step.rows->spans) {
    WindowRing& ring = step.runs[static_cast<std::size_t>(span.run)]
                           .state->rings[static_cast<std::size_t>(step.layer)];
    for (std::int64_t i = std::max<std::int64_t>(0, span.count - config_.window - kRingSlack);
         i < span.count;
         ++i) {
      ring.put(span.first + i, window_rows + (span.begin + i) * row_bytes);
    }
  }
}

}  // namespace shoal::kernels
