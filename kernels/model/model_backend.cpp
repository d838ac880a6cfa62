// Sequences of the model, and what a step needs to find in them.
#include "kernels/model/model_backend.h"

#include <algorithm>
#include <set>

namespace shoal::kernels {

tl::unexpected<Error> bad_run(const RowRun& run, const std::string& what) {
  return fail(Code::kInvalid,
              "step plan, run of sequence " + std::to_string(run.sequence.value) + ": " + what);
}

ModelShape model_shape(const ModelConfig& c, std::string numeric_id) {
  ModelShape shape;
  shape.vocab = c.vocab;
  shape.max_positions = c.max_positions;
  shape.window = c.window;
  shape.layers = c.layers;
  shape.encoder_layers = c.decoder_start();
  shape.block_bytes = KvLayout(c).block_bytes;
  shape.sequence_bytes =
      (c.layers + c.stages) * (c.window + kRingSlack) * window_row_bytes(c.head_dim) +
      static_cast<std::int64_t>(c.kv_sources.size()) * kRecent * 2 * c.head_dim * 4 +
      c.window * (c.hc * c.dim * 2 + c.hc * 4);
  shape.tail_bytes = tail_bytes(c, KvLayout(c));
  shape.drafts = c.stages > 0 ? c.draft_block : 0;
  shape.bos = c.bos;
  shape.eos = c.eos;
  shape.numeric_id = std::move(numeric_id);
  shape.block_layout = block_layout(KvLayout(c));
  return shape;
}

ModelBackend::ModelBackend(const Model& model,
                           const Ops& ops,
                           ComputePool& pool,
                           ExpertPort& experts,
                           const BackendLimits& limits,
                           std::string numeric_id)
    : model_(model),
      arena_(model.config, limits.blocks, limits.sequences),
      graph_(model, ops, pool, arena_, experts),
      drafter_(model, ops, experts),
      acceptance_(limits.acceptance),
      states_(static_cast<std::size_t>(limits.sequences)),
      continuations_(static_cast<std::size_t>(limits.sequences)) {
  shape_ = model_shape(model.config, std::move(numeric_id));
  shape_.drafts = limits.drafts ? shape_.drafts : 0;
  fit_ = {shape_.numeric_id, image_layout(model.config, arena_.layout())};
}

void ModelBackend::reset_sequence(SequenceId id) {
  auto& state = states_[id.value];
  if (state == nullptr) {
    state = std::make_unique<SequenceState>(model_.config);
  }
  state->clear();
  continuations_[id.value].reset();
}

void ModelBackend::end_prefill(SequenceId id) {
  states_[id.value]->drop_kept();
}

Result<std::vector<std::byte>> ModelBackend::export_sequence(SequenceId id,
                                                             std::span<const BlockId> blocks,
                                                             Position tokens) {
  return write_image(id, blocks, {tokens, 0});
}

Result<std::vector<std::byte>> ModelBackend::export_tail(SequenceId id,
                                                         std::span<const BlockId> blocks,
                                                         Position tokens) {
  return write_image(id, blocks, tail_span(tokens));
}

Result<std::vector<std::byte>> ModelBackend::write_image(SequenceId id,
                                                         std::span<const BlockId> blocks,
                                                         const SequenceSpan& span) {
  if (id.value >= states_.size() || states_[id.value] == nullptr || span.tokens < 1) {
    return fail(Code::kInvalid,
                "export of sequence " + std::to_string(id.value) + ": it holds no tokens");
  }
  TRY_VOID(check_block_table(arena_, blocks, span.tokens));
  KvImageWriter out(fit_, span.tokens);
  TRY_VOID(write_sequence({model_.config, arena_, *states_[id.value], blocks}, span, out));
  return std::move(out).finish();
}

Result<void> ModelBackend::import_sequence(SequenceId id,
                                           std::span<const BlockId> blocks,
                                           std::span<const std::byte> image) {
  return read_image(id, blocks, image, std::nullopt);
}

Result<void> ModelBackend::import_tail(const RowRun& run, std::span<const std::byte> image) {
  const Position loaded = run.first / kBlockTokens * kBlockTokens;
  TRY_VOID(read_image(run.sequence, run.blocks, image, SequenceSpan{run.first, loaded}));
  SequenceState& state = *states_[run.sequence.value];
  if (run.decoder_floor >= run.first) {
    for (auto layer = static_cast<std::size_t>(model_.config.decoder_start());
         layer < state.rings.size();
         ++layer) {
      state.rings[layer].clear();
    }
    state.clear_drafts();
  }
  if (const auto what = missing(run)) {
    reset_sequence(run.sequence);
    return corrupt_image(*what);
  }
  return {};
}

// All of it, or the part.
Result<void> ModelBackend::read_image(SequenceId id,
                                      std::span<const BlockId> blocks,
                                      std::span<const std::byte> image,
                                      std::optional<SequenceSpan> part) {
  if (id.value >= states_.size()) {
    return fail(Code::kInvalid,
                "import into sequence " + std::to_string(id.value) + ": no such slot");
  }
  reset_sequence(id);
  TRY(KvImageReader in, KvImageReader::open(image, fit_));
  const SequenceSpan span = part.value_or(SequenceSpan{in.tokens(), 0});
  if (in.tokens() > shape_.max_positions || span.tokens < 1 || span.tokens > in.tokens()) {
    return corrupt_image("of " + std::to_string(in.tokens()) + " tokens, " +
                         std::to_string(span.tokens) + " are wanted");
  }
  TRY_VOID(check_block_table(arena_, blocks, span.tokens));
  auto read = read_sequence(in, span, {model_.config, arena_, *states_[id.value], blocks});
  if (!read) {
    reset_sequence(id);
  }
  return read;
}

std::optional<std::string> ModelBackend::missing_window(const RowRun& run) const {
  const ModelConfig& c = model_.config;
  const SequenceState& state = *states_[run.sequence.value];
  // The decoder half begins with the rows that were kept for it, or with the run's own.
  const Position decodes = run.stack == Stack::kAll ? run.first
                           : state.kept_count > 0   ? state.kept_first
                                                    : std::max(run.first, run.decoder_floor);
  for (int layer = 0; layer < c.layers; ++layer) {
    const bool encoder = layer < c.decoder_start();
    const Position first = encoder ? run.first : decodes;
    const Position floor = encoder ? run.encoder_floor : run.decoder_floor;
    const Position low = std::max({floor, first - c.window + 1, Position{0}});
    const WindowRing& ring = state.rings[static_cast<std::size_t>(layer)];
    if (low < first && !(ring.holds(low) && ring.holds(first - 1))) {
      return "layer " + std::to_string(layer) + " lacks window rows of positions " +
             std::to_string(low) + ".." + std::to_string(first - 1);
    }
  }
  return std::nullopt;
}

// The graph aborts where a row it needs is missing, so what the rows below `first` left in the
// state is checked here: a run may be wrong, and so may an imported state.
std::optional<std::string> ModelBackend::missing(const RowRun& run) const {
  if (auto window = missing_window(run)) {
    return window;
  }
  const ModelConfig& c = model_.config;
  const SequenceState& state = *states_[run.sequence.value];
  const Position writes = std::max(run.first, run.writes_from);
  for (std::size_t s = 0; s < c.kv_sources.size(); ++s) {
    if (writes % 2 == 1 && writes < run.first + run.rows() && c.ratio(c.kv_sources[s]) == 2 &&
        !state.open[s].holds(writes - 1)) {
      return "no open pair at position " + std::to_string(writes - 1);
    }
  }
  const int known = c.engram_layers.empty() || !run.history.empty() ? 0 : c.engram_ngram - 1;
  TokenId token = 0;
  bool dead = false;
  for (Position p = std::max<Position>(0, run.first - known); p < run.first; ++p) {
    if (!state.recent.get(p, token, dead)) {
      return "the token at position " + std::to_string(p) + " is not known";
    }
  }
  return std::nullopt;
}

Result<void> ModelBackend::check_run(const RowRun& run) const {
  if (run.sequence.value >= states_.size() || states_[run.sequence.value] == nullptr) {
    return bad_run(run, "the sequence was never reset");
  }
  if (run.tokens.empty()) {
    return bad_run(run, "needs either tokens or an answer that it continues");
  }
  const Position end = run.first + run.rows();
  if (run.first < 0 || end > shape_.max_positions) {
    return bad_run(run,
                   "positions " + std::to_string(run.first) + ".." + std::to_string(end - 1) +
                       " exceed the model's " + std::to_string(shape_.max_positions));
  }
  if (static_cast<Position>(run.blocks.size()) * kBlockTokens < end) {
    return bad_run(run,
                   "block table of " + std::to_string(run.blocks.size()) +
                       " blocks ends before position " + std::to_string(end));
  }
  if (std::any_of(run.blocks.begin(), run.blocks.end(), [&](BlockId b) {
        return b.value >= arena_.blocks();
      })) {
    return bad_run(run, "block id outside the arena");
  }
  const auto bad = std::find_if(
      run.tokens.begin(), run.tokens.end(), [&](TokenId t) { return t < 0 || t >= shape_.vocab; });
  if (bad != run.tokens.end()) {
    return bad_run(run, "token " + std::to_string(*bad) + " is outside the vocabulary");
  }
  if (!run.image.empty() && run.image.size() != run.tokens.size()) {
    return bad_run(run, "needs one image flag per row");
  }
  const auto flagged = static_cast<std::size_t>(
      std::count_if(run.image.begin(), run.image.end(), [](std::uint8_t f) { return f != 0; }));
  if (run.features.size() != flagged * static_cast<std::size_t>(model_.config.dim)) {
    return bad_run(run, "needs one feature row per flagged row");
  }
  if (const auto what = missing(run)) {
    return bad_run(run, *what);
  }
  return {};
}

Result<void> ModelBackend::check(const StepPlan& plan) const {
  std::set<SequenceId> seen;
  for (const RowRun& run : plan.runs) {
    if (!has_no_rows(run)) {
      TRY_VOID(check_run(run));
    }
    if (!seen.insert(run.sequence).second) {
      return bad_run(run, "appears twice in one step");
    }
  }
  if (plan.runs.empty()) {
    return fail(Code::kInvalid, "step plan without runs");
  }
  return {};
}

}  // namespace shoal::kernels
