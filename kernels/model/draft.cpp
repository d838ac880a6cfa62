// Draft rows see every committed row of the window and each other, both ways; their own rows never
// enter the rings.
#include "kernels/model/draft.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "schemas/check.h"

namespace shoal::kernels {

TokenId choose_likeliest(int, std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Drafter::Drafter(const Model& model, const Ops& ops, ExpertPort& experts)
    : model_(model),
      config_(model.config),
      ops_(ops),
      experts_(experts),
      hc_{config_.hc, config_.dim, config_.hc_iters, config_.hc_eps, config_.eps} {}

std::vector<WindowRing> Drafter::make_rings() const {
  return std::vector<WindowRing>(static_cast<std::size_t>(config_.stages),
                                 WindowRing(config_.window, window_row_bytes(config_.head_dim)));
}

std::vector<Bf16> Drafter::main_x(const Bf16* taps, std::int64_t n, Workspace& space) const {
  space.reset();
  const DraftWeights& w = model_.weights.draft;
  std::vector<Bf16> out(static_cast<std::size_t>(n * config_.dim));
  ops_.linear_quantized(
      w.main_proj, quantize_rows(ops_, space, taps, n, w.main_proj.cols), n, out.data());
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

void Drafter::commit(std::span<const DraftRows> rows, const Bf16* main_x, Workspace& space) const {
  const std::int64_t row_bytes = window_row_bytes(config_.head_dim);
  std::vector<Position> positions;
  for (const DraftRows& of : rows) {
    for (std::int64_t i = 0; i < of.count; ++i) {
      positions.push_back(of.first + i);
    }
  }
  const auto n = static_cast<std::int64_t>(positions.size());
  for (std::size_t stage = 0; stage < model_.weights.stages.size(); ++stage) {
    space.reset();
    auto* packed = space.take<std::byte>(n * row_bytes);
    window_rows(space, model_.weights.stages[stage], main_x, positions.data(), n, packed);
    for (const DraftRows& of : rows) {
      for (std::int64_t i = 0; i < of.count; ++i) {
        (*of.rings)[stage].put(of.first + i, packed);
        packed += row_bytes;
      }
    }
  }
}

void Drafter::begin(DraftStep& step) const {
  const std::int64_t block = config_.draft_block;
  const std::int64_t n = block * std::ssize(step.starts);
  step.h.resize(static_cast<std::size_t>(n * hc_.copies * hc_.dim));
  step.pre.resize(static_cast<std::size_t>(n * hc_.copies));
  step.image.assign(static_cast<std::size_t>(n), 0);
  step.positions.clear();
  step.stage = 0;
  step.waiting = false;
  for (const DraftStart& start : step.starts) {
    for (std::int64_t i = 0; i < block; ++i) {
      const std::int64_t row = std::ssize(step.positions);
      step.positions.push_back(start.last + 1 + i);
      embed_row(model_,
                hc_,
                i == 0 ? start.anchor : config_.noise,
                nullptr,
                step.h.data() + row * hc_.copies * hc_.dim,
                step.pre.data() + row * hc_.copies);
    }
  }
}

// Ring rows in slot order (position mod W), behind them the block's own rows (model spec 5.1). The
// lists of all sequences are of one length: holes are at the end of the shorter ones.
void Drafter::attention(DraftStep& step, const Bf16* x, Bf16* y) const {
  const auto stage = static_cast<std::size_t>(step.stage);
  const BlockWeights& w = model_.weights.stages[stage];
  Workspace& space = step.space;
  const std::int64_t block = config_.draft_block;
  const auto n = static_cast<std::int64_t>(step.positions.size());
  const std::int64_t d = config_.head_dim;
  const std::int64_t width = config_.heads * d;
  auto* qr = space.take<Bf16>(n * config_.q_lora);
  ops_.linear_quantized(w.wq_a, quantize_rows(ops_, space, x, n, config_.dim), n, qr);
  ops_.rms_norm(qr, w.q_norm.data(), n, config_.q_lora, config_.eps, qr);
  auto* q = space.take<Bf16>(n * width);
  ops_.linear_quantized(w.wq_b, quantize_rows(ops_, space, qr, n, config_.q_lora), n, q);
  ops_.rope(q, step.positions.data(), model_.window_freqs, n, config_.heads, d, false);
  auto* own = space.take<std::byte>(n * window_row_bytes(d));
  window_rows(space, w, x, step.positions.data(), n, own);

  auto* o = space.take<Bf16>(n * width);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  const std::int64_t length = config_.window + block;
  auto* lists = space.take<KvEntry>(n * length);
  for (std::size_t s = 0; s < step.starts.size(); ++s) {
    const auto row = static_cast<std::int64_t>(s) * block;
    KvEntry* list = lists + row * length;
    fill_list(step.starts[s], stage, own + row * window_row_bytes(d), list);
    for (std::int64_t i = 1; i < block; ++i) {
      std::copy_n(list, length, list + i * length);
    }
  }
  ops_.attention(q, lists, length, w.sink.data(), scale, n, config_.heads, d, o);
  ops_.rope(o, step.positions.data(), model_.window_freqs, n, config_.heads, d, true);
  project_output(ops_, config_, w, o, n, space, y);
}

void Drafter::fill_list(const DraftStart& start,
                        std::size_t stage,
                        const std::byte* own,
                        KvEntry* list) const {
  const WindowRing& ring = (*start.rings)[stage];
  std::vector<Position> order;
  for (Position p = std::max(start.first_row, start.last - config_.window + 1); p <= start.last;
       ++p) {
    order.push_back(p);
  }
  std::sort(order.begin(), order.end(), [&](Position a, Position b) {
    return a % config_.window < b % config_.window;
  });
  for (const Position p : order) {
    *list++ = KvEntry{ring.get(p), EntryFormat::kWindow};
  }
  for (std::int64_t i = 0; i < config_.draft_block; ++i) {
    *list++ = KvEntry{own + i * window_row_bytes(config_.head_dim), EntryFormat::kWindow};
  }
  std::fill_n(list, config_.window - std::ssize(order), KvEntry{});
}

BlockRows Drafter::rows_of(DraftStep& step) const {
  return {std::ssize(step.positions), step.h.data(), step.pre.data(), step.image.data()};
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
  head(step);
  return true;
}

void Drafter::head(DraftStep& step) const {
  const auto n = static_cast<std::int64_t>(step.positions.size());
  step.space.reset();
  step.hidden.resize(static_cast<std::size_t>(n * hc_.dim));
  ops_.hc_collapse(step.h.data(), step.pre.data(), hc_, n, step.hidden.data());
  auto* x = step.space.take<Bf16>(n * hc_.dim);
  ops_.rms_norm(step.hidden.data(), model_.weights.draft.norm.data(), n, hc_.dim, config_.eps, x);
  step.base_logits.resize(static_cast<std::size_t>(n * config_.vocab));
  ops_.linear_f32(model_.weights.head, x, n, step.base_logits.data());
}

DraftResult Drafter::finish(const DraftStep& step,
                            std::size_t start,
                            const ChooseDraft& choose) const {
  const DraftWeights& w = model_.weights.draft;
  const std::int64_t rank = config_.markov_rank;
  const std::int64_t block = config_.draft_block;
  const auto row = static_cast<std::int64_t>(start) * block;
  DraftResult result;
  const float* base = step.base_logits.data() + row * config_.vocab;
  const Bf16* hidden = step.hidden.data() + row * config_.dim;
  std::vector<float> bias(static_cast<std::size_t>(config_.vocab));
  std::vector<Bf16> joined(static_cast<std::size_t>(config_.dim + rank));
  TokenId previous = step.starts[start].anchor;
  for (std::int64_t i = 0; i < block && previous >= 0; ++i, base += config_.vocab) {
    Bf16* embedded = joined.data() + config_.dim;
    copy_bf16_row(w.markov_embed, previous, embedded);
    ops_.linear_f32(w.markov_head, embedded, 1, bias.data());
    std::transform(base, base + config_.vocab, bias.begin(), bias.begin(), std::plus<float>());
    std::copy_n(hidden + i * config_.dim, config_.dim, joined.data());
    float confidence = 0;
    ops_.linear_f32(w.confidence, joined.data(), 1, &confidence);
    previous = choose(static_cast<int>(i), bias);
    if (previous >= 0) {
      result.confidence.push_back(confidence);
      result.tokens.push_back(previous);
    }
  }
  return result;
}

}  // namespace shoal::kernels
