// A step of the model: its plan gets what the device knows, the graph runs the rows, tokens are
// drawn, drafts that held stay, and new ones are made.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/model/model_backend.h"
#include "kernels/portable_math.h"
#include "kernels/verified_drafts.h"
#include "schemas/check.h"

namespace shoal::kernels {

class ModelBackend::ModelStep final : public Step {
 public:
  enum class Stage : std::uint8_t { kBegun, kRows, kDrafts, kDone };

  StepPlan plan;
  std::vector<std::optional<Continuation>> next;  // per run: taken, and to be given back
  std::unique_ptr<Running> running;
  std::vector<std::size_t> plan_run;     // of each run of the graph
  std::vector<std::size_t> drafted_run;  // of each start of the draft pass
  StepResult result;
  Stage stage = Stage::kBegun;
};

namespace {

// What is no number promises nothing.
float chance_of(float logit) {
  const double odds = portable::exp(static_cast<double>(logit));
  return std::isnan(logit) ? 0.0F : std::isinf(odds) ? 1.0F : static_cast<float>(odds / (1 + odds));
}

}  // namespace

Result<void> ModelBackend::continue_run(RowRun& run) const {
  if (!run.tokens.empty()) {
    return bad_run(run, "needs either tokens or an answer that it continues");
  }
  if (run.sequence.value >= continuations_.size()) {
    return bad_run(run, "no such slot");
  }
  if (const auto& last = continuations_[run.sequence.value]) {
    run.first = last->next;
    if (!last->ended) {
      run.tokens = {last->token};
    }
  }
  return {};
}

std::vector<std::size_t> ModelBackend::verified(const StepPlan& plan) const {
  std::vector<std::span<const float>> confidences;
  for (const RowRun& run : plan.runs) {
    const bool verifies = run.continues && !run.tokens.empty() && run.rules != nullptr;
    confidences.push_back(verifies ? continuations_[run.sequence.value]->confidence
                                   : std::span<const float>());
  }
  return verified_drafts(plan, shape_.max_positions, confidences);
}

Result<void> ModelBackend::resolve(StepPlan& plan) const {
  for (RowRun& run : plan.runs) {
    if (run.continues) {
      TRY_VOID(continue_run(run));
    }
  }
  const std::vector<std::size_t> lengths = verified(plan);
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    if (lengths[r] > 0) {
      RowRun& run = plan.runs[r];
      const std::vector<TokenId>& drafts = continuations_[run.sequence.value]->drafts;
      run.tokens.insert(run.tokens.end(),
                        drafts.begin(),
                        drafts.begin() + static_cast<std::ptrdiff_t>(lengths[r]));
    }
  }
  return {};
}

Result<std::unique_ptr<Step>> ModelBackend::begin(StepPlan plan) {
  TRY_VOID(resolve(plan));
  TRY_VOID(check(plan));
  auto step = std::make_unique<ModelStep>();
  for (RowRun& run : plan.runs) {
    auto& next = step->next.emplace_back(std::exchange(continuations_[run.sequence.value], {}));
    if (!run.continues) {
      next = Continuation{.next = run.first, .sampling = run.sampling};
    }
    if (!has_no_rows(run)) {
      next->drafts.resize(std::min(next->drafts.size(), run.tokens.size() - 1));
      step->rows += run.rows();
      step->drafted += run.drafts ? 1 : 0;
    }
  }
  step->plan = std::move(plan);
  step->running = take_running();
  return std::unique_ptr<Step>(std::move(step));
}

void ModelBackend::start(ModelStep& step) {
  GraphStep& graph = step.running->graph;
  graph.taps_wanted = false;
  for (std::size_t r = 0; r < step.plan.runs.size(); ++r) {
    const RowRun& run = step.plan.runs[r];
    if (has_no_rows(run)) {
      continue;
    }
    const std::int64_t samples = !run.sample ? 0 : run.continues ? run.rows() : 1;
    graph.taps_wanted = graph.taps_wanted || (shape_.drafts > 0 && run.feeds_drafts);
    graph.runs.push_back({&run, states_[run.sequence.value].get(), run.tokens, samples});
    step.plan_run.push_back(r);
  }
  if (!graph.runs.empty()) {
    graph_.start(graph);
  }
}

StepYield ModelBackend::advance(Step& base) {
  auto& step = static_cast<ModelStep&>(base);
  using Stage = ModelStep::Stage;
  CHECK(step.stage != Stage::kDone);
  if (step.stage == Stage::kBegun) {
    start(step);
    step.stage = Stage::kRows;
  }
  if (step.stage == Stage::kRows) {
    if (!step.plan_run.empty() && !graph_.advance(step.running->graph)) {
      return StepYield::kNeedsExchange;
    }
    draw(step);
    commit_drafted(step);
    start_drafts(step);
    step.stage = Stage::kDrafts;
  }
  if (!step.running->drafts.starts.empty()) {
    if (!drafter_.advance(step.running->drafts)) {
      return StepYield::kNeedsExchange;
    }
    choose_drafts(step);
  }
  complete(step);
  step.stage = Stage::kDone;
  return StepYield::kDone;
}

Exchange& ModelBackend::exchange(Step& base) {
  Running& running = *static_cast<ModelStep&>(base).running;
  CHECK(running.graph.waiting || running.drafts.waiting);
  return running.graph.waiting ? running.graph.pending.exchange : running.drafts.pending.exchange;
}

void ModelBackend::draw(ModelStep& step) {
  for (std::size_t r = 0; r < step.plan.runs.size(); ++r) {
    const RowRun& run = step.plan.runs[r];
    step.result.runs.push_back(
        {.first = run.first, .end = run.first, .ended = step.next[r] && step.next[r]->ended});
  }
  for (std::size_t g = 0; g < step.plan_run.size(); ++g) {
    const std::size_t r = step.plan_run[g];
    step.result.runs[r] = draw_run(step, g, *step.next[r]);
  }
}

RunResult ModelBackend::draw_run(const ModelStep& step, std::size_t run, Continuation& next) const {
  const RowRun& plan = step.plan.runs[step.plan_run[run]];
  const LogitRows& logits = step.running->graph.logits;
  RunResult result;
  result.first = plan.first;
  result.end = plan.first + plan.rows();
  const std::int64_t rows = logits.rows[run];
  const std::span<const float> values(
      logits.values.data() + std::max<std::int64_t>(logits.first_row[run], 0) * shape_.vocab,
      static_cast<std::size_t>(rows * shape_.vocab));
  if (plan.logits != WantLogits::kNone) {
    result.logits.assign(values.begin(), values.end());
    result.first_logits = logits.positions[run];
  }
  const std::int64_t samples = step.running->graph.runs[run].samples;
  if (rows == 0 || samples == 0) {
    return result;
  }
  const Position drawn_for = result.end - samples + 1;
  result.verified = static_cast<int>(samples) - 1;
  result.drawn = draw_tokens(plan,
                             drawn_for,
                             values.last(static_cast<std::size_t>(samples * shape_.vocab)),
                             shape_.vocab,
                             acceptance_,
                             next);
  result.ended = next.ended;
  result.end = drawn_for + std::max<Position>(std::ssize(result.drawn) - 1, 0);
  return result;
}

// The rings of the draft stages get rows of the positions that stay.
void ModelBackend::commit_drafted(ModelStep& step) {
  GraphStep& graph = step.running->graph;
  const std::int64_t width = std::ssize(model_.config.taps) * model_.config.dim;
  std::vector<DraftRows> rows;
  std::vector<Bf16> taps;
  for (const RowSpan& span : graph.tapped) {
    const RunResult& result = step.result.runs[step.plan_run[static_cast<std::size_t>(span.run)]];
    const std::int64_t stay = std::min(span.count, result.end - span.first);
    if (stay > 0) {
      const Bf16* from = graph.taps.data() + span.begin * width;
      taps.insert(taps.end(), from, from + stay * width);
      rows.push_back(
          {&graph.runs[static_cast<std::size_t>(span.run)].state->drafts, span.first, stay});
    }
  }
  if (!rows.empty()) {
    Workspace& space = step.running->drafts.space;
    const std::vector<Bf16> main_x = drafter_.main_x(taps.data(), std::ssize(taps) / width, space);
    drafter_.commit(rows, main_x.data(), space);
  }
}

void ModelBackend::start_drafts(ModelStep& step) const {
  DraftStep& drafts = step.running->drafts;
  for (const std::size_t r : step.plan_run) {
    const RowRun& run = step.plan.runs[r];
    const RunResult& result = step.result.runs[r];
    if (!run.drafts || run.rules == nullptr || result.drawn.empty() || result.ended ||
        shape_.drafts == 0 || result.end + 1 >= room_of(run, shape_.max_positions)) {
      continue;
    }
    const std::vector<WindowRing>& rings = states_[run.sequence.value]->drafts;
    Position first = result.end;
    const Position low =
        std::max({run.decoder_floor, result.end - model_.config.window, Position{0}});
    while (first > low && rings.front().holds(first - 1)) {
      --first;
    }
    if (first < result.end) {
      drafts.starts.push_back({&rings, first, result.end - 1, step.next[r]->token});
      step.drafted_run.push_back(r);
    }
  }
  if (!drafts.starts.empty()) {
    drafter_.begin(drafts);
  }
}

void ModelBackend::choose_drafts(ModelStep& step) const {
  const DraftStep& drafts = step.running->drafts;
  for (std::size_t s = 0; s < drafts.starts.size(); ++s) {
    const std::size_t r = step.drafted_run[s];
    Continuation& next = *step.next[r];
    DraftChoice choice(*step.plan.runs[r].rules, acceptance_, next);
    DraftResult made = drafter_.finish(
        drafts, s, [&choice](int, std::span<const float> logits) { return choice.choose(logits); });
    for (const float logit : made.confidence) {
      next.confidence.push_back(chance_of(logit));
    }
    step.result.runs[r].confidence = next.confidence;
    next.drafts = std::move(made.tokens);
  }
}

void ModelBackend::complete(ModelStep& step) {
  for (std::size_t r = 0; r < step.plan.runs.size(); ++r) {
    if (!step.result.runs[r].drawn.empty() || (step.next[r] && step.next[r]->ended)) {
      continuations_[step.plan.runs[r].sequence.value] = std::move(step.next[r]);
    }
  }
  auto running = std::move(step.running);
  running->graph.runs.clear();
  running->graph.encoder = {};
  running->graph.decoder = {};
  running->graph.rows = nullptr;
  running->graph.tapped.clear();
  running->drafts.starts.clear();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(running));
}

std::unique_ptr<ModelBackend::Running> ModelBackend::take_running() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    return std::make_unique<Running>();
  }
  auto running = std::move(idle_.back());
  idle_.pop_back();
  return running;
}

StepResult ModelBackend::take(Step& base) {
  auto& step = static_cast<ModelStep&>(base);
  CHECK(step.stage == ModelStep::Stage::kDone);
  return std::move(step.result);
}

}  // namespace shoal::kernels
