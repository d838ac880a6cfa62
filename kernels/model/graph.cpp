// The layer loop: residual streams, the two sublayers around the experts, the cross to the decoder
// half, logits.
#include "kernels/model/graph.h"

#include <algorithm>

#include "kernels/model/block_pass.h"
#include "schemas/check.h"

namespace shoal::kernels {

namespace {

HcShape hc_shape(const ModelConfig& c) {
  return HcShape{c.hc, c.dim, c.hc_iters, c.hc_eps, c.eps};
}

// Copies rows of a residual stream and its pre-mix.
void copy_rows(const Bf16* h,
               const float* pre,
               std::int64_t rows,
               const HcShape& hc,
               Bf16* h_out,
               float* pre_out) {
  std::copy_n(h, rows * hc.copies * hc.dim, h_out);
  std::copy_n(pre, rows * hc.copies, pre_out);
}

}  // namespace

Graph::Graph(
    const Model& model, const Ops& ops, ComputePool& pool, KvArena& arena, ExpertPort& experts)
    : model_(model),
      config_(model.config),
      ops_(ops),
      pool_(pool),
      arena_(arena),
      experts_(experts),
      hc_(hc_shape(model.config)) {}

QuantRows Graph::quantize(Workspace& space, const Bf16* x, std::int64_t n, std::int64_t k) const {
  return quantize_rows(ops_, space, x, n, k);
}

void Graph::start(GraphStep& step) const {
  RowSet& rows = step.encoder;
  step.step_space.reset();
  for (std::size_t r = 0; r < step.runs.size(); ++r) {
    const GraphRun& run = step.runs[r];
    const auto count = static_cast<std::int64_t>(run.tokens.size());
    rows.spans.push_back(RowSpan{static_cast<int>(r), rows.count, count, run.plan->first, false});
    for (std::int64_t i = 0; i < count; ++i) {
      rows.positions.push_back(run.plan->first + i);
      rows.image.push_back(run.plan->image.empty() ? 0
                                                   : run.plan->image[static_cast<std::size_t>(i)]);
    }
    rows.count += count;
  }
  rows.h = step.step_space.take<Bf16>(rows.count * hc_.copies * hc_.dim);
  rows.pre = step.step_space.take<float>(rows.count * hc_.copies);
  for (const RowSpan& span : rows.spans) {
    const GraphRun& run = step.runs[static_cast<std::size_t>(span.run)];
    const Bf16* feature = run.plan->features.data();
    for (std::int64_t i = 0; i < span.count; ++i) {
      const std::int64_t row = span.begin + i;
      const bool image = rows.image[static_cast<std::size_t>(row)] != 0;
      embed_row(model_,
                hc_,
                run.tokens[static_cast<std::size_t>(i)],
                image ? feature : nullptr,
                rows.h + row * hc_.copies * hc_.dim,
                rows.pre + row * hc_.copies);
      feature += image ? hc_.dim : 0;
    }
  }
  hash_engram(step);
  step.rows = &step.encoder;
  step.layer = 0;
}

bool Graph::advance(GraphStep& step) const {
  if (step.waiting) {
    step.waiting = false;
    after_experts(step);
    ++step.layer;
  }
  for (; step.layer < config_.layers; ++step.layer) {
    if (step.layer == config_.decoder_start()) {
      cross_to_decoder(step);
    }
    if (step.rows->count == 0) {
      break;
    }
    before_experts(step);
    if (!experts_.start(step.pending.exchange)) {
      step.waiting = true;
      return false;
    }
    after_experts(step);
  }
  finish(step);
  return true;
}

void Graph::before_experts(GraphStep& step) const {
  RowSet& rows = *step.rows;
  step.layer_space.reset();
  if (const int index = config_.engram_index(step.layer); index >= 0) {
    update_engram(step, index);
  }
  tap(step);
  const BlockWeights& w = block(step.layer);
  const BlockRows in{rows.count, rows.h, rows.pre, rows.image.data()};
  step.pending = pass_to_experts(
      ops_, config_, hc_, step.layer, w, in, step.layer_space, [&](const Bf16* x, Bf16* y) {
        attention(step, x, y);
      });
}

// The streams as they enter the layer, behind its Engram. A draft sees a window of rows.
void Graph::tap(GraphStep& step) const {
  const auto place = std::find(config_.taps.begin(), config_.taps.end(), step.layer);
  if (!step.taps_wanted || place == config_.taps.end()) {
    return;
  }
  const auto taps = static_cast<std::int64_t>(config_.taps.size());
  std::int64_t begin = 0;
  auto* means = step.layer_space.take<Bf16>(step.rows->count * hc_.dim);
  step.tapped.clear();
  for (const RowSpan& span : step.rows->spans) {
    if (!step.runs[static_cast<std::size_t>(span.run)].plan->feeds_drafts) {
      continue;
    }
    const std::int64_t count = std::min(span.count, config_.window + kRingSlack);
    const std::int64_t row = span.begin + span.count - count;
    ops_.hc_mean(step.rows->h + row * hc_.copies * hc_.dim, hc_, count, means + begin * hc_.dim);
    step.tapped.push_back({span.run, begin, count, span.first + span.count - count, span.tail});
    begin += count;
  }
  step.taps.resize(static_cast<std::size_t>(begin * taps * hc_.dim));
  Bf16* out = step.taps.data() + (place - config_.taps.begin()) * hc_.dim;
  for (std::int64_t i = 0; i < begin; ++i) {
    std::copy_n(means + i * hc_.dim, hc_.dim, out + i * taps * hc_.dim);
  }
}

void Graph::after_experts(GraphStep& step) const {
  RowSet& rows = *step.rows;
  pass_from_experts(ops_,
                    config_,
                    hc_,
                    block(step.layer),
                    BlockRows{rows.count, rows.h, rows.pre, rows.image.data()},
                    step.pending,
                    step.layer_space);
}

void Graph::cross_to_decoder(GraphStep& step) const {
  RowSet& rows = step.encoder;
  const int layer = config_.decoder_start();
  const bool all_full = std::all_of(rows.spans.begin(), rows.spans.end(), [&](const RowSpan& span) {
    return step.runs[static_cast<std::size_t>(span.run)].plan->stack == Stack::kAll;
  });
  if (all_full) {
    return;
  }
  step.layer_space.reset();
  Bf16* x = step.layer_space.take<Bf16>(rows.count * hc_.dim);
  ops_.hc_collapse(rows.h, rows.pre, hc_, rows.count, x);
  ops_.rms_norm(x, block(layer).attn_norm.data(), rows.count, hc_.dim, config_.eps, x);
  append_global(step, layer, rows, x, Writers::kEncoderOnly);

  std::int64_t count = 0;
  for (const RowSpan& span : rows.spans) {
    const RowRun& plan = *step.runs[static_cast<std::size_t>(span.run)].plan;
    if (plan.stack == Stack::kEncoder) {
      keep_rows(step, span);
    }
    count += plan.stack == Stack::kAll ? span.count
             : plan.finishes_prompt
                 ? step.runs[static_cast<std::size_t>(span.run)].state->kept_count
                 : 0;
  }
  step.rows = &step.decoder;
  Bf16* h = step.step_space.take<Bf16>(count * hc_.copies * hc_.dim);
  float* pre = step.step_space.take<float>(count * hc_.copies);
  step.decoder.h = h;
  step.decoder.pre = pre;
  for (const RowSpan& span : rows.spans) {
    add_decoder_span(step, span, h, pre);
  }
}

void Graph::keep_rows(GraphStep& step, const RowSpan& span) const {
  const GraphRun& run = step.runs[static_cast<std::size_t>(span.run)];
  SequenceState& state = *run.state;
  const Position from = std::max(span.first, run.plan->decoder_floor);
  const Position end = span.first + span.count;
  if (from >= end) {
    return;
  }
  if (state.kept_count == 0) {
    state.kept_first = from;
  }
  CHECK(state.kept_first + state.kept_count == from);
  const std::int64_t row = span.begin + (from - span.first);
  const std::int64_t rows = end - from;
  state.kept_h.insert(state.kept_h.end(),
                      step.encoder.h + row * hc_.copies * hc_.dim,
                      step.encoder.h + (row + rows) * hc_.copies * hc_.dim);
  state.kept_pre.insert(state.kept_pre.end(),
                        step.encoder.pre + row * hc_.copies,
                        step.encoder.pre + (row + rows) * hc_.copies);
  state.kept_image.insert(state.kept_image.end(),
                          step.encoder.image.begin() + row,
                          step.encoder.image.begin() + row + rows);
  state.kept_count += rows;
}

void Graph::add_decoder_span(GraphStep& step, const RowSpan& span, Bf16* h, float* pre) const {
  const GraphRun& run = step.runs[static_cast<std::size_t>(span.run)];
  RowSet& rows = step.decoder;
  const bool tail = run.plan->stack == Stack::kEncoder;
  if (tail && !run.plan->finishes_prompt) {
    return;
  }
  const std::int64_t count = tail ? run.state->kept_count : span.count;
  const Position first = tail ? run.state->kept_first : span.first;
  CHECK(first + count == span.first + span.count);
  const Bf16* from_h =
      tail ? run.state->kept_h.data() : step.encoder.h + span.begin * hc_.copies * hc_.dim;
  const float* from_pre =
      tail ? run.state->kept_pre.data() : step.encoder.pre + span.begin * hc_.copies;
  copy_rows(from_h,
            from_pre,
            count,
            hc_,
            h + rows.count * hc_.copies * hc_.dim,
            pre + rows.count * hc_.copies);
  rows.spans.push_back(RowSpan{span.run, rows.count, count, first, tail});
  const std::uint8_t* image =
      tail ? run.state->kept_image.data() : step.encoder.image.data() + span.begin;
  rows.image.insert(rows.image.end(), image, image + count);
  for (std::int64_t i = 0; i < count; ++i) {
    rows.positions.push_back(first + i);
  }
  rows.count += count;
}

void Graph::remember_tokens(GraphStep& step) const {
  for (GraphRun& run : step.runs) {
    const auto rows = static_cast<std::int64_t>(run.tokens.size());
    for (std::int64_t i = std::max<std::int64_t>(0, rows - kRecentTokens); i < rows; ++i) {
      const bool dead =
          !run.plan->image.empty() && run.plan->image[static_cast<std::size_t>(i)] != 0;
      run.state->recent.put(run.plan->first + i, run.tokens[static_cast<std::size_t>(i)], dead);
    }
    if (run.plan->finishes_prompt) {
      run.state->drop_kept();
    }
  }
}

void Graph::finish(GraphStep& step) const {
  remember_tokens(step);
  LogitRows& out = step.logits;
  out.first_row.assign(step.runs.size(), -1);
  out.rows.assign(step.runs.size(), 0);
  out.positions.assign(step.runs.size(), 0);
  const RowSet& rows = *step.rows;
  std::vector<std::int64_t> wanted;
  for (const RowSpan& span : rows.spans) {
    const GraphRun& of = step.runs[static_cast<std::size_t>(span.run)];
    const std::int64_t asked = of.plan->logits == WantLogits::kAll    ? span.count
                               : of.plan->logits == WantLogits::kLast ? 1
                                                                      : 0;
    const std::int64_t take = std::max(asked, of.samples);
    const auto run = static_cast<std::size_t>(span.run);
    out.first_row[run] = static_cast<std::int64_t>(wanted.size());
    out.rows[run] = take;
    out.positions[run] = span.first + span.count - take;
    for (std::int64_t i = span.count - take; i < span.count; ++i) {
      wanted.push_back(span.begin + i);
    }
  }
  const auto n = static_cast<std::int64_t>(wanted.size());
  if (n == 0) {
    return;
  }
  step.layer_space.reset();
  Bf16* h = step.layer_space.take<Bf16>(n * hc_.copies * hc_.dim);
  float* pre = step.layer_space.take<float>(n * hc_.copies);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = wanted[static_cast<std::size_t>(i)];
    copy_rows(rows.h + row * hc_.copies * hc_.dim,
              rows.pre + row * hc_.copies,
              1,
              hc_,
              h + i * hc_.copies * hc_.dim,
              pre + i * hc_.copies);
  }
  Bf16* x = step.layer_space.take<Bf16>(n * hc_.dim);
  ops_.hc_collapse(h, pre, hc_, n, x);
  ops_.rms_norm(x, model_.weights.norm.data(), n, hc_.dim, config_.eps, x);
  out.values.resize(static_cast<std::size_t>(n * config_.vocab));
  ops_.linear_f32(model_.weights.head, x, n, out.values.data());
}

void Graph::hash_engram(GraphStep& step) const {
  const auto layers = config_.engram_layers.size();
  if (layers == 0) {
    return;
  }
  const EngramHash& hash = model_.engram.hash;
  const int ngram = hash.ngram();
  const std::int64_t columns = hash.columns();
  step.engram_rows.assign(
      layers, std::vector<std::int64_t>(static_cast<std::size_t>(step.encoder.count * columns)));
  std::vector<std::int64_t> history(static_cast<std::size_t>(ngram));
  std::vector<std::uint8_t> dead(static_cast<std::size_t>(ngram));
  std::vector<std::int64_t> slots(static_cast<std::size_t>(ngram));
  for (const RowSpan& span : step.encoder.spans) {
    const GraphRun& run = step.runs[static_cast<std::size_t>(span.run)];
    for (std::int64_t i = 0; i < span.count; ++i) {
      for (int back = 0; back < ngram; ++back) {
        const EngramToken token = engram_token(run, i - back);
        history[static_cast<std::size_t>(back)] =
            token.known ? model_.engram.tokens.ids[static_cast<std::size_t>(token.id)] : -1;
        dead[static_cast<std::size_t>(back)] = token.dead ? 1 : 0;
      }
      engram_slots(history, dead, model_.engram.pad, slots.data());
      for (std::size_t layer = 0; layer < layers; ++layer) {
        hash.rows(static_cast<int>(layer),
                  slots,
                  step.engram_rows[layer].data() + (span.begin + i) * columns);
      }
    }
  }
}

void Graph::update_engram(GraphStep& step, int index) const {
  const RowSet& rows = step.encoder;
  const EngramWeights& w = block(step.layer).engram;
  const std::int64_t columns = model_.engram.hash.columns();
  const std::int64_t width = columns * config_.engram_dim;
  Bf16* looked_up = step.layer_space.take<Bf16>(rows.count * width);
  ops_.engram_lookup(w.table,
                     step.engram_rows[static_cast<std::size_t>(index)].data(),
                     rows.count,
                     columns,
                     looked_up);
  Bf16* kv = step.layer_space.take<Bf16>(rows.count * w.wkv.rows);
  ops_.linear_quantized(
      w.wkv, quantize(step.layer_space, looked_up, rows.count, width), rows.count, kv);
  auto* open = step.layer_space.take<std::uint8_t>(rows.count);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    open[i] = rows.image[static_cast<std::size_t>(i)] != 0 ? 0 : 1;
  }
  ops_.engram_update(rows.h, kv, w.weight.data(), open, hc_, rows.count, nullptr);
}

}  // namespace shoal::kernels
