// Draft rows see every committed row of the window and each other, both ways; their own rows never
// enter the rings.
#include "kernels/model/draft.h"

#include <algorithm>
#include <cmath>

#include "kernels/model/block_pass.h"
#include "schemas/check.h"

namespace shoal::kernels {

Drafter::Drafter(const Model& model, const Ops& ops, ExpertPort& experts)
    : model_(model),
      config_(model.config),
      ops_(ops),
      experts_(experts),
      hc_{config_.hc, config_.dim, config_.hc_iters, config_.hc_eps, config_.eps} {
  CHECK(config_.stages > 0);
}

std::vector<WindowRing> Drafter::make_rings() const {
  return std::vector<WindowRing>(static_cast<std::size_t>(config_.stages),
                                 WindowRing(config_.window, window_row_bytes(config_.head_dim)));
}

std::vector<Bf16> Drafter::main_x(const Bf16* taps, std::int64_t n) {
  space_.reset();
  const DraftWeights& w = model_.weights.draft;
  std::vector<Bf16> out(static_cast<std::size_t>(n * config_.dim));
  ops_.linear_quantized(
      w.main_proj, quantize_rows(ops_, space_, taps, n, w.main_proj.cols), n, out.data());
  ops_.rms_norm(out.data(), w.main_norm.data(), n, config_.dim, config_.eps, out.data());
  return out;
}

void Drafter::window_rows(const BlockWeights& w,
                          const Bf16* x,
                          const std::int64_t* positions,
                          std::int64_t n,
                          std::byte* out) {
  const std::int64_t d = config_.head_dim;
  auto* kv = space_.take<Bf16>(n * d);
  ops_.linear_quantized(w.wkv, quantize_rows(ops_, space_, x, n, config_.dim), n, kv);
  ops_.rms_norm(kv, w.kv_norm.data(), n, d, config_.eps, kv);
  ops_.rope(kv, positions, model_.window_freqs, n, 1, d, false);
  auto** rows = space_.take<std::byte*>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    rows[i] = out + i * window_row_bytes(d);
  }
  ops_.pack_window(kv, n, d, rows);
}

void Drafter::commit(std::vector<WindowRing>& rings,
                     const Bf16* main_x,
                     Position first,
                     std::int64_t n) {
  const std::int64_t row_bytes = window_row_bytes(config_.head_dim);
  for (std::size_t stage = 0; stage < rings.size(); ++stage) {
    space_.reset();
    auto* rows = space_.take<std::byte>(n * row_bytes);
    auto* positions = space_.take<std::int64_t>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      positions[i] = first + i;
    }
    window_rows(model_.weights.stages[stage], main_x, positions, n, rows);
    for (std::int64_t i = 0; i < n; ++i) {
      rings[stage].put(first + i, rows + i * row_bytes);
    }
  }
}

void Drafter::attention(
    int stage, const WindowRing& ring, Position first_row, Position last, const Bf16* x, Bf16* y) {
  const BlockWeights& w = model_.weights.stages[static_cast<std::size_t>(stage)];
  const std::int64_t n = config_.draft_block;
  const std::int64_t d = config_.head_dim;
  const std::int64_t width = config_.heads * d;
  auto* positions = space_.take<std::int64_t>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    positions[i] = last + 1 + i;
  }
  auto* qr = space_.take<Bf16>(n * config_.q_lora);
  ops_.linear_quantized(w.wq_a, quantize_rows(ops_, space_, x, n, config_.dim), n, qr);
  ops_.rms_norm(qr, w.q_norm.data(), n, config_.q_lora, config_.eps, qr);
  auto* q = space_.take<Bf16>(n * width);
  ops_.linear_quantized(w.wq_b, quantize_rows(ops_, space_, qr, n, config_.q_lora), n, q);
  ops_.rope(q, positions, model_.window_freqs, n, config_.heads, d, false);
  auto* own = space_.take<std::byte>(n * window_row_bytes(d));
  window_rows(w, x, positions, n, own);

  // Ring rows in slot order (position mod W), then the block's own rows (model spec 5.1).
  std::vector<Position> order;
  for (Position p = std::max(first_row, last - config_.window + 1); p <= last; ++p) {
    order.push_back(p);
  }
  std::sort(order.begin(), order.end(), [&](Position a, Position b) {
    return a % config_.window < b % config_.window;
  });
  const auto length = static_cast<std::int64_t>(order.size()) + n;
  auto* lists = space_.take<KvEntry>(n * length);
  for (std::int64_t row = 0; row < n; ++row) {
    KvEntry* list = lists + row * length;
    for (std::size_t i = 0; i < order.size(); ++i) {
      list[i] = KvEntry{ring.get(order[i]), EntryFormat::kWindow};
    }
    for (std::int64_t i = 0; i < n; ++i) {
      list[static_cast<std::int64_t>(order.size()) + i] =
          KvEntry{own + i * window_row_bytes(d), EntryFormat::kWindow};
    }
  }
  auto* o = space_.take<Bf16>(n * width);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  ops_.attention(q, lists, length, w.sink.data(), scale, n, config_.heads, d, o);
  ops_.rope(o, positions, model_.window_freqs, n, config_.heads, d, true);
  project_output(ops_, config_, w, o, n, space_, y);
}

DraftResult Drafter::draft(const std::vector<WindowRing>& rings,
                           Position first_row,
                           Position last,
                           TokenId anchor,
                           const ChooseDraft& choose) {
  const std::int64_t n = config_.draft_block;
  std::vector<Bf16> h(static_cast<std::size_t>(n * hc_.copies * hc_.dim));
  std::vector<float> pre(static_cast<std::size_t>(n * hc_.copies));
  const std::vector<std::uint8_t> no_image(static_cast<std::size_t>(n), 0);
  for (std::int64_t i = 0; i < n; ++i) {
    embed_row(model_,
              hc_,
              i == 0 ? anchor : config_.noise,
              nullptr,
              h.data() + i * hc_.copies * hc_.dim,
              pre.data() + i * hc_.copies);
  }
  const BlockRows rows{n, h.data(), pre.data(), no_image.data()};
  for (int stage = 0; stage < config_.stages; ++stage) {
    space_.reset();
    const BlockWeights& w = model_.weights.stages[static_cast<std::size_t>(stage)];
    PendingExperts pending = pass_to_experts(
        ops_, config_, hc_, config_.layers + stage, w, rows, space_, [&](const Bf16* x, Bf16* y) {
          attention(stage, rings[static_cast<std::size_t>(stage)], first_row, last, x, y);
        });
    CHECK(experts_.start(pending.exchange));
    pass_from_experts(ops_, config_, hc_, w, rows, pending, space_);
  }
  DraftResult result;
  result.hidden.resize(static_cast<std::size_t>(n * hc_.dim));
  ops_.hc_collapse(h.data(), pre.data(), hc_, n, result.hidden.data());
  space_.reset();
  auto* x = space_.take<Bf16>(n * hc_.dim);
  ops_.rms_norm(result.hidden.data(), model_.weights.draft.norm.data(), n, hc_.dim, config_.eps, x);
  result.base_logits.resize(static_cast<std::size_t>(n * config_.vocab));
  ops_.linear_f32(model_.weights.head, x, n, result.base_logits.data());
  markov(result, anchor, choose);
  return result;
}

void Drafter::markov(DraftResult& result, TokenId anchor, const ChooseDraft& choose) {
  const DraftWeights& w = model_.weights.draft;
  const std::int64_t rank = config_.markov_rank;
  result.logits.resize(result.base_logits.size());
  std::vector<float> bias(static_cast<std::size_t>(config_.vocab));
  std::vector<Bf16> joined(static_cast<std::size_t>(config_.dim + rank));
  TokenId previous = anchor;
  for (std::int64_t i = 0; i < config_.draft_block; ++i) {
    Bf16* row = joined.data() + config_.dim;
    copy_bf16_row(w.markov_embed, previous, row);
    ops_.linear_f32(w.markov_head, row, 1, bias.data());
    const float* base = result.base_logits.data() + i * config_.vocab;
    float* logits = result.logits.data() + i * config_.vocab;
    std::transform(
        base, base + config_.vocab, bias.data(), logits, [](float a, float b) { return a + b; });
    std::copy_n(result.hidden.data() + i * config_.dim, config_.dim, joined.data());
    float confidence = 0;
    ops_.linear_f32(w.confidence, joined.data(), 1, &confidence);
    result.confidence.push_back(confidence);
    const std::span<const float> view(logits, static_cast<std::size_t>(config_.vocab));
    previous =
        choose ? choose(static_cast<int>(i), view)
               : static_cast<TokenId>(std::max_element(view.begin(), view.end()) - view.begin());
    result.tokens.push_back(previous);
  }
}

}  // namespace shoal::kernels
