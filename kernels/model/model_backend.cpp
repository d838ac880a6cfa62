// Turns step plans into graph steps: checks the plan, resolves device-side inputs, runs the graph,
// samples.
#include "kernels/model/model_backend.h"

#include <algorithm>
#include <set>

#include "kernels/sampler.h"
#include "schemas/check.h"

namespace shoal::kernels {

class ModelBackend::ModelStep final : public Step {
 public:
  StepPlan plan;
  std::unique_ptr<GraphStep> graph;
  StepResult result;
  bool started = false;
  bool done = false;
};

namespace {

tl::unexpected<Error> bad_run(const RowRun& run, const std::string& what) {
  return fail(Code::kInvalid,
              "step plan, run of sequence " + std::to_string(run.sequence.value) + ": " + what);
}

}  // namespace

ModelShape model_shape(const ModelConfig& c, std::string numeric_id) {
  ModelShape shape;
  shape.vocab = c.vocab;
  shape.max_positions = c.max_positions;
  shape.window = c.window;
  shape.layers = c.layers;
  shape.encoder_layers = c.decoder_start();
  shape.block_bytes = KvLayout(c).block_bytes;
  shape.sequence_bytes =
      c.layers * (c.window + kRingSlack) * window_row_bytes(c.head_dim) +
      static_cast<std::int64_t>(c.kv_sources.size()) * kRecent * 2 * c.head_dim * 4 +
      c.window * (c.hc * c.dim * 2 + c.hc * 4);
  shape.tail_bytes = tail_bytes(c, KvLayout(c));
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
      states_(static_cast<std::size_t>(limits.sequences)) {
  shape_ = model_shape(model.config, std::move(numeric_id));
  fit_ = {shape_.numeric_id, image_layout(model.config, arena_.layout())};
}

void ModelBackend::reset_sequence(SequenceId id) {
  auto& state = states_[id.value];
  if (state == nullptr) {
    state = std::make_unique<SequenceState>(model_.config);
  }
  state->clear();
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

bool ModelBackend::sampled(Queue queue, std::int32_t run) const {
  const std::lock_guard lock(mutex_);
  const std::vector<TokenId>& last = last_tokens_[static_cast<std::size_t>(queue)];
  const auto slot = static_cast<std::size_t>(run);
  return slot < last.size() && last[slot] >= 0;
}

Result<void> ModelBackend::check_run(const RowRun& run, Queue queue) const {
  if (run.sequence.value >= states_.size() || states_[run.sequence.value] == nullptr) {
    return bad_run(run, "the sequence was never reset");
  }
  if (run.tokens.empty() != (run.previous >= 0)) {
    return bad_run(run, "needs either tokens or the previous step's run");
  }
  if (run.tokens.empty() && !sampled(queue, run.previous)) {
    return bad_run(run, "no token was sampled by that run of the previous step");
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
    TRY_VOID(check_run(run, plan.queue));
    if (!seen.insert(run.sequence).second) {
      return bad_run(run, "appears twice in one step");
    }
  }
  if (plan.runs.empty()) {
    return fail(Code::kInvalid, "step plan without runs");
  }
  return {};
}

std::unique_ptr<GraphStep> ModelBackend::take_graph_step() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    return std::make_unique<GraphStep>();
  }
  auto step = std::move(idle_.back());
  idle_.pop_back();
  return step;
}

Result<std::unique_ptr<Step>> ModelBackend::begin(StepPlan plan) {
  TRY_VOID(check(plan));
  auto step = std::make_unique<ModelStep>();
  step->plan = std::move(plan);
  step->graph = take_graph_step();
  return std::unique_ptr<Step>(std::move(step));
}

void ModelBackend::resolve_inputs(ModelStep& step) {
  std::vector<TokenId> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_tokens_[static_cast<std::size_t>(step.plan.queue)];
  }
  for (const RowRun& run : step.plan.runs) {
    GraphRun resolved{&run, states_[run.sequence.value].get(), run.tokens};
    if (run.tokens.empty()) {
      const auto from = static_cast<std::size_t>(run.previous);
      CHECK(from < last.size() && last[from] >= 0);
      resolved.tokens = {last[from]};
    }
    step.graph->runs.push_back(std::move(resolved));
  }
}

StepYield ModelBackend::advance(Step& base) {
  auto& step = static_cast<ModelStep&>(base);
  CHECK(!step.done);
  if (!step.started) {
    step.started = true;
    resolve_inputs(step);
    graph_.start(*step.graph);
  }
  if (!graph_.advance(*step.graph)) {
    return StepYield::kNeedsExchange;
  }
  complete(step);
  step.done = true;
  return StepYield::kDone;
}

Exchange& ModelBackend::exchange(Step& base) {
  auto& step = static_cast<ModelStep&>(base);
  CHECK(step.graph->waiting);
  return step.graph->pending.exchange;
}

RunResult ModelBackend::sample_run(const ModelStep& step, std::size_t run) const {
  RunResult result;
  const RowRun& plan = step.plan.runs[run];
  const LogitRows& logits = step.graph->logits;
  const std::int64_t rows = logits.rows[run];
  if (rows == 0) {
    return result;
  }
  const std::span<const float> values(logits.values.data() + logits.first_row[run] * shape_.vocab,
                                      static_cast<std::size_t>(rows * shape_.vocab));
  if (plan.logits != WantLogits::kNone) {
    result.logits.assign(values.begin(), values.end());
    result.first_logits = logits.positions[run];
  }
  if (plan.sample) {
    SamplerInput in;
    in.logits = values.last(static_cast<std::size_t>(shape_.vocab));
    in.temperature = plan.sampling.temperature;
    in.top_p = plan.sampling.top_p;
    in.min_p = plan.sampling.min_p;
    in.top_k = plan.sampling.top_k;
    in.seed = plan.sampling.seed;
    in.choice = plan.sampling.choice;
    in.position = plan.first + plan.rows();
    in.repetition_penalty = plan.sampling.repetition_penalty;
    in.frequency_penalty = plan.sampling.frequency_penalty;
    in.presence_penalty = plan.sampling.presence_penalty;
    in.seen = plan.sampling.seen.get();
    in.bias = plan.sampling.bias;
    in.forbidden = plan.sampling.forbidden;
    in.logprobs = plan.sampling.top_logprobs;
    if (auto sampled = sample(in)) {
      result.token = sampled->token;
      result.logprob = sampled->logprob;
      result.margin = sampled->margin;
      result.top = std::move(sampled->top);
    }
  }
  return result;
}

void ModelBackend::complete(ModelStep& step) {
  std::vector<TokenId> tokens;
  for (std::size_t r = 0; r < step.plan.runs.size(); ++r) {
    step.result.runs.push_back(sample_run(step, r));
    tokens.push_back(step.result.runs.back().token);
  }
  auto graph = std::move(step.graph);
  graph->runs.clear();
  graph->encoder = {};
  graph->decoder = {};
  graph->rows = nullptr;
  const std::lock_guard lock(mutex_);
  last_tokens_[static_cast<std::size_t>(step.plan.queue)] = std::move(tokens);
  idle_.push_back(std::move(graph));
}

StepResult ModelBackend::take(Step& base) {
  auto& step = static_cast<ModelStep&>(base);
  CHECK(step.done);
  return std::move(step.result);
}

}  // namespace shoal::kernels
