// Draft rows see every committed row of the window and each other, both ways; their own rows never
// enter the rings.
#include "kernels/model/draft.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schemas/check.h"

namespace shoal::kernels {

Drafter::Drafter(const Model& model, const Ops& ops, ExpertPort& experts)
    : model_(model),
      config_(model.config),
      ops_(ops),
      experts_(experts),
      hc_{config_.hc, config_.dim, config_.hc_iters, config_.hc_eps, config_.eps},
      no_image_(static_cast<std::size_t>(config_.draft_block), 0) {
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

void Drafter::window_rows(Workspace& space,
                          const BlockWeights& w,
                          const Bf16* x,
                          const std::int64_t* positions,
                          std::int64_t n,
                          std::byte* out) const {
  const std::int64_t d = config_.head_dim;
  auto* kv = space.take<Bf16>(n * d);
  ops_.linear_quantized(w.wkv, quantize_rows(ops_, space, x, n, config_.dim), n, kv);
  ops_.rms_norm(kv, w.kv_norm.data(), n, d, config_.eps, kv);
  ops_.rope(kv, positions, model_.window_freqs, n, 1, d, false);
  auto** rows = space.take<std::byte*>(n);
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
    window_rows(space_, model_.weights.stages[stage], main_x, positions, n, rows);
    for (std::int64_t i = 0; i < n; ++i) {
      rings[stage].put(first + i, rows + i * row_bytes);
    }
  }
}

void Drafter::attention(DraftStep& step, const Bf16* x, Bf16* y) const {
  const auto stage = static_cast<std::size_t>(step.stage);
  const BlockWeights& w = model_.weights.stages[stage];
  const WindowRing& ring = (*step.rings)[stage];
  const Position last = step.last;
  Workspace& space = step.space;
  const std::int64_t n = config_.draft_block;
  const std::int64_t d = config_.head_dim;
  const std::int64_t width = config_.heads * d;
  auto* positions = space.take<std::int64_t>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    positions[i] = last + 1 + i;
  }
  auto* qr = space.take<Bf16>(n * config_.q_lora);
  ops_.linear_quantized(w.wq_a, quantize_rows(ops_, space, x, n, config_.dim), n, qr);
  ops_.rms_norm(qr, w.q_norm.data(), n, config_.q_lora, config_.eps, qr);
  auto* q = space.take<Bf16>(n * width);
  ops_.linear_quantized(w.wq_b, quantize_rows(ops_, space, qr, n, config_.q_lora), n, q);
  ops_.rope(q, positions, model_.window_freqs, n, config_.heads, d, false);
  auto* own = space.take<std::byte>(n * window_row_bytes(d));
  window_rows(space, w, x, positions, n, own);

  // Ring rows in slot order (position mod W), then the block's own rows (model spec 5.1).
  std::vector<Position> order;
  for (Position p = std::max(step.first_row, last - config_.window + 1); p <= last; ++p) {
    order.push_back(p);
  }
  std::sort(order.begin(), order.end(), [&](Position a, Position b) {
    return a % config_.window < b % config_.window;
  });
  const auto length = static_cast<std::int64_t>(order.size()) + n;
  auto* lists = space.take<KvEntry>(n * length);
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
  auto* o = space.take<Bf16>(n * width);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  ops_.attention(q, lists, length, w.sink.data(), scale, n, config_.heads, d, o);
  ops_.rope(o, positions, model_.window_freqs, n, config_.heads, d, true);
  project_output(ops_, config_, w, o, n, space, y);
}

DraftStep Drafter::begin(const std::vector<WindowRing>& rings,
                         Position first_row,
                         Position last,
                         TokenId anchor) const {
  const std::int64_t n = config_.draft_block;
  DraftStep step;
  step.rings = &rings;
  step.first_row = first_row;
  step.last = last;
  step.anchor = anchor;
  step.h.resize(static_cast<std::size_t>(n * hc_.copies * hc_.dim));
  step.pre.resize(static_cast<std::size_t>(n * hc_.copies));
  for (std::int64_t i = 0; i < n; ++i) {
    embed_row(model_,
              hc_,
              i == 0 ? anchor : config_.noise,
              nullptr,
              step.h.data() + i * hc_.copies * hc_.dim,
              step.pre.data() + i * hc_.copies);
  }
  return step;
}

BlockRows Drafter::rows_of(DraftStep& step) const {
  return {config_.draft_block, step.h.data(), step.pre.data(), no_image_.data()};
}

bool Drafter::advance(DraftStep& step) const {
  for (; step.stage < config_.stages; ++step.stage) {
    const BlockWeights& w = model_.weights.stages[static_cast<std::size_t>(step.stage)];
    const BlockRows rows = rows_of(step);
    if (!std::exchange(step.waiting, false)) {
      step.space.reset();
      step.pending = pass_to_experts(ops_,
                                     config_,
                                     hc_,
                                     config_.layers + step.stage,
                                     w,
                                     rows,
                                     step.space,
                                     [&](const Bf16* x, Bf16* y) { attention(step, x, y); });
      if (!experts_.start(step.pending.exchange)) {
        step.waiting = true;
        return false;
      }
    }
    pass_from_experts(ops_, config_, hc_, w, rows, step.pending, step.space);
  }
  return true;
}

DraftResult Drafter::finish(DraftStep& step, const ChooseDraft& choose) {
  CHECK(step.stage == config_.stages);
  const std::int64_t n = config_.draft_block;
  DraftResult result;
  result.hidden.resize(static_cast<std::size_t>(n * hc_.dim));
  ops_.hc_collapse(step.h.data(), step.pre.data(), hc_, n, result.hidden.data());
  space_.reset();
  auto* x = space_.take<Bf16>(n * hc_.dim);
  ops_.rms_norm(result.hidden.data(), model_.weights.draft.norm.data(), n, hc_.dim, config_.eps, x);
  result.base_logits.resize(static_cast<std::size_t>(n * config_.vocab));
  ops_.linear_f32(model_.weights.head, x, n, result.base_logits.data());
  markov(result, step.anchor, choose);
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
