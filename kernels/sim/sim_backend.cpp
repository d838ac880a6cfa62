// Hashes in place of a model, and a check of every history and block table it is shown.
#include "kernels/sim/sim_backend.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "kernels/verified_drafts.h"
#include "schemas/check.h"

namespace shoal::kernels {
namespace {

// The fewest where a window that is cut off can be told from one that is not.
constexpr int kEncoderLayers = 2;
constexpr int kDecoderLayers = 2;

// The smallest geometry KvLayout accepts: one KV source, one block is a few hundred bytes.
ModelConfig arena_geometry() {
  ModelConfig config;
  config.layers = 1;
  config.head_dim = 64;
  config.rope_dim = 64;
  config.index_dim = 32;
  config.ratios = {1};
  config.kv_sources = {0};
  config.index_sources = {0};
  return config;
}

Error broken(const RowRun& run, const std::string& what) {
  return Error{Code::kInvalid,
               "run of sequence " + std::to_string(run.sequence.value) + " at " +
                   std::to_string(run.first) + ": " + what};
}

Position end_of(const RowRun& run) {
  return run.first + static_cast<Position>(run.tokens.size());
}

// The first row whose KV the run computes, if it is before `end`; else `none`.
Position first_written(const RowRun& run, Position end, Position none) {
  const Position first = std::max(run.first, run.writes_from);
  return first < end ? std::min(first, none) : none;
}

// `token` at `position`, behind the row that `history` is.
void add_row(
    const RowRun& run, Position window, Position position, TokenId token, SimHistory& history) {
  if (run.encoder_floor > 0 && position == run.encoder_floor + window) {
    history.add_behind_hit(token, run.encoder_floor);
  } else {
    history.add(token);
  }
}

}  // namespace

struct SimBackend::SimStep final : Step {
  StepResult result;
  std::vector<std::pair<SequenceId, std::optional<Answer>>> answers;  // behind it
  int exchanges_left = 0;
  Exchange exchange;
};

ModelShape sim_shape(const SimModel& model) {
  ModelShape shape;
  shape.vocab = model.vocab;
  shape.max_positions = model.max_positions;
  shape.window = model.window;
  shape.layers = kEncoderLayers + kDecoderLayers;
  shape.encoder_layers = kEncoderLayers;
  shape.block_bytes = KvLayout(arena_geometry()).block_bytes;
  shape.drafts = model.drafts;
  constexpr std::int64_t kHeader = 1024;
  shape.tail_bytes = kHeader +
                     (kBlockTokens + kTailReach) * static_cast<std::int64_t>(kSimRowBytes) +
                     model.image_padding;
  shape.bos = model.bos;
  shape.eos = model.eos;
  shape.numeric_id = "sim";
  shape.block_layout = "rows of " + std::to_string(kSimRowBytes) + " B";
  return shape;
}

SimBackend::SimBackend(const SimModel& model, const SimSize& size)
    : model_(model),
      shape_(sim_shape(model)),
      fit_{shape_.numeric_id,
           "rows of " + std::to_string(kSimRowBytes) + " B, padding " +
               std::to_string(model.image_padding) + " B"},
      arena_(arena_geometry(), size.blocks, size.sequences),
      sequences_(static_cast<std::size_t>(size.sequences)) {
  CHECK(shape_.block_bytes >= kBlockTokens * static_cast<std::int64_t>(kSimRowBytes));
  CHECK(model_.drafts >= 0 && 2 * (1 + model_.drafts) <= kWindowSlack);
}

void SimBackend::reset_sequence(SequenceId id) {
  sequences_.at(id.value) = Sequence{};
}

std::byte* SimBackend::row(std::span<const BlockId> blocks, Position position) {
  return arena_.block(blocks[static_cast<std::size_t>(position / kBlockTokens)]) +
         position % kBlockTokens * static_cast<Position>(kSimRowBytes);
}

// The hash of all tokens up to `position`, as the KV memory has it.
std::uint64_t SimBackend::read(std::span<const BlockId> blocks, Position position) {
  std::uint64_t hash = 0;
  if (position >= 0) {
    std::memcpy(&hash, row(blocks, position), sizeof hash);
  }
  return hash;
}

Result<std::unique_ptr<Step>> SimBackend::begin(StepPlan plan) {
  TRY_VOID(prepare(plan));
  const std::vector<std::size_t> lengths = verified(plan);
  auto step = std::make_unique<SimStep>();
  step->exchanges_left = model_.exchanges;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    execute(plan.runs[i], lengths[i], *step);
  }
  return step;
}

// Nothing is written before all runs are known to be right. Runs that continue are filled in; one
// whose answer has ended, or whose last step was lost, stays without tokens.
Result<void> SimBackend::prepare(StepPlan& plan) {
  std::set<SequenceId> seen;
  for (RowRun& run : plan.runs) {
    Sequence& sequence = sequences_.at(run.sequence.value);
    if (!seen.insert(run.sequence).second) {
      return tl::unexpected(broken(run, "appears twice in one step"));
    }
    if (sequence.in_step && !run.continues) {
      return tl::unexpected(broken(run, kDropped));
    }
    TRY_VOID(resolve(run, sequence));
    if (!run.tokens.empty()) {
      adopt(run, sequence);
      TRY_VOID(check(run, sequence));
    }
  }
  return {};
}

Result<void> SimBackend::resolve(RowRun& run, const Sequence& sequence) const {
  if (run.tokens.empty() != run.continues) {
    return tl::unexpected(broken(run, "needs either tokens or an answer that it continues"));
  }
  if (!run.continues) {
    return {};
  }
  const std::optional<Answer>& answer = sequence.answer;
  run.first = sequence.tokens();
  if (answer && !answer->ended) {
    run.sampling = answer->sampling;
    run.tokens = {answer->token};
  }
  return {};
}

// A sequence that starts behind loaded blocks.
void SimBackend::adopt(const RowRun& run, Sequence& sequence) {
  const bool starts = sequence.tokens() == 0 && !run.history.empty();
  if (starts && check_block_table(arena_, run.blocks, run.first)) {
    for (Position p = 0; p < run.first; ++p) {
      sequence.hashes.push_back(read(run.blocks, p));
    }
  }
}

Result<void> SimBackend::check(const RowRun& run, const Sequence& sequence) const {
  if (run.first != sequence.tokens()) {
    return tl::unexpected(
        broken(run, "the sequence holds " + std::to_string(sequence.tokens()) + " tokens"));
  }
  if (auto table = check_block_table(arena_, run.blocks, run.first + run.rows()); !table) {
    return tl::unexpected(broken(run, table.error().message));
  }
  if (run.verifies > 0 && (run.tokens.size() > 1 || !run.sample || run.rules == nullptr)) {
    return tl::unexpected(broken(run, "verifies drafts, but not behind one row sampled by rules"));
  }
  TRY_VOID(check_windows(run, sequence));
  TRY_VOID(check_rows(run, sequence));
  return run.sample ? check_reach(run, sequence) : Result<void>();
}

// As a real device: rows that it would read must be in the windows.
Result<void> SimBackend::check_windows(const RowRun& run, const Sequence& sequence) const {
  const auto holds = [&sequence, this](const Rows& rows, Position floor, Position first) {
    const Position low = std::max({floor, first - model_.window + 1, Position{0}});
    return low >= first || (std::max(rows.begin, sequence.held) <= low && rows.end == first);
  };
  const Windows& windows = sequence.windows;
  if (!holds(windows.encoder, run.encoder_floor, run.first)) {
    return tl::unexpected(broken(run, "the encoder half lacks window rows"));
  }
  const Position decodes = run.stack == Stack::kAll ? run.first
                           : windows.kept.empty()   ? std::max(run.first, run.decoder_floor)
                                                    : windows.kept.begin;
  if (!holds(windows.decoder, run.decoder_floor, decodes)) {
    return tl::unexpected(broken(run, "the decoder half lacks window rows"));
  }
  return {};
}

// Windows that were cut off must not reach what is sampled or stored.
Result<void> SimBackend::check_reach(const RowRun& run, const Sequence& sequence) const {
  const Position end = end_of(run);
  Windows windows = sequence.windows;
  windows.add(run, run.rows());
  const auto is_whole = [this](const Rows& rows, Position floor, Position place, int layers) {
    return rows.begin <= std::max({floor, place - layers * model_.window, Position{0}});
  };
  const bool samples_whole =
      is_whole(windows.encoder, run.encoder_floor, end, kEncoderLayers + kDecoderLayers) &&
      is_whole(windows.decoder, run.decoder_floor, end, kDecoderLayers);
  const Position written = first_written(run, end, sequence.written);
  if (!samples_whole || !is_whole(windows.encoder, run.encoder_floor, written, kEncoderLayers)) {
    return tl::unexpected(broken(run, "too few rows ran before it"));
  }
  return {};
}

Result<void> SimBackend::check_rows(const RowRun& run, const Sequence& sequence) const {
  for (Position begin = 0; begin < run.first; begin += kBlockTokens) {
    const auto block = static_cast<std::size_t>(begin / kBlockTokens);
    const auto rows = static_cast<std::size_t>(std::min<Position>(kBlockTokens, run.first - begin));
    if (std::memcmp(arena_.block(run.blocks[block]),
                    sequence.hashes.data() + begin,
                    rows * kSimRowBytes) != 0) {
      return fail(Code::kCorrupt,
                  broken(run, "block " + std::to_string(block) + " holds something else").message);
    }
  }
  return {};
}

std::vector<std::size_t> SimBackend::verified(const StepPlan& plan) const {
  std::vector<std::span<const float>> confidences;
  for (const RowRun& run : plan.runs) {
    const std::optional<Answer>& answer = sequences_.at(run.sequence.value).answer;
    // Drafts go on from the token that was drawn, not from one that is there in its place.
    const bool verifies = !run.tokens.empty() && answer && answer->token == run.tokens.back();
    confidences.push_back(verifies ? answer->confidence : std::span<const float>());
  }
  return verified_drafts(plan, shape_.max_positions, confidences);
}

void SimBackend::execute(const RowRun& run, std::size_t verified, SimStep& step) {
  Sequence& sequence = sequences_.at(run.sequence.value);
  RunResult& result = step.result.runs.emplace_back();
  result.first = result.end = sequence.tokens();
  if (run.tokens.empty()) {
    result.ended = sequence.answer && sequence.answer->ended;
    return;
  }
  sequence.in_step = true;
  std::optional<Answer> before = std::exchange(sequence.answer, std::nullopt);
  const auto drafts = before ? std::span<const TokenId>(before->drafts).first(verified)
                             : std::span<const TokenId>();
  step.answers.emplace_back(run.sequence, compute(run, drafts, result));
  step.rows += run.rows() + result.verified;
  step.drafted += run.drafts && run.sample && model_.drafts > 0 ? 1 : 0;
}

// The run's rows and those of drafts, what is drawn behind them, and what is left of them.
std::optional<SimBackend::Answer> SimBackend::compute(const RowRun& run,
                                                      std::span<const TokenId> drafts,
                                                      RunResult& result) {
  Sequence& sequence = sequences_.at(run.sequence.value);
  write(run, run.tokens);
  write(run, drafts);
  result.verified = static_cast<int>(drafts.size());
  result.end = end_of(run);
  std::optional<Answer> answer;
  if (run.sample) {
    answer = draw(run, drafts, result);
    if (run.drafts && !answer->ended) {
      make_drafts(run, result.end, *answer);
      result.confidence = answer->confidence;
    }
  }
  sequence.hashes.resize(static_cast<std::size_t>(result.end));
  sequence.windows.add(run, result.end - result.first);
  sequence.written = first_written(run, result.end, sequence.written);
  return answer;
}

void SimBackend::write(const RowRun& run, std::span<const TokenId> tokens) {
  Sequence& sequence = sequences_.at(run.sequence.value);
  for (const TokenId token : tokens) {
    const Position position = sequence.tokens();
    if (position >= run.writes_from) {
      SimHistory history(read(run.blocks, position - 1));
      add_row(run, model_.window, position, token, history);
      const std::uint64_t hash = history.hash();
      std::memcpy(row(run.blocks, position), &hash, sizeof hash);
    }
    sequence.hashes.push_back(read(run.blocks, position));
  }
  sequence.reached = std::max(sequence.reached, sequence.tokens());
}

void SimBackend::Windows::add(const RowRun& run, Position count) {
  encoder.add(run.first, count);
  if (run.stack == Stack::kAll) {
    decoder.add(run.first, count);
    return;
  }
  const Position end = run.first + count;
  if (const Position first = std::max(run.first, run.decoder_floor); first < end) {
    kept.add(first, end - first);
  }
  if (run.finishes_prompt && !kept.empty()) {
    decoder.add(kept.begin, kept.end - kept.begin);
    kept = {};
  }
}

// As long as drafts are what is drawn, one token more; the last is at the result's end.
SimBackend::Answer SimBackend::draw(const RowRun& run,
                                    std::span<const TokenId> drafts,
                                    RunResult& result) {
  Answer answer{.sampling = run.sampling};
  for (auto draft = drafts.begin();; ++draft, ++result.end) {
    result.drawn.push_back(draw_one(run, answer.sampling, result.end));
    answer.token = result.drawn.back().token;
    answer.ended =
        run.rules != nullptr && !run.rules->add(answer.sampling, result.end, answer.token);
    if (answer.ended || draft == drafts.end() || answer.token != *draft) {
      break;
    }
  }
  result.ended = answer.ended;
  return answer;
}

DrawnToken SimBackend::draw_one(const RowRun& run, const SampleSpec& sampling, Position position) {
  const SimHistory history(read(run.blocks, position - 1));
  DrawnToken drawn;
  drawn.token = sim_token(model_, sampling, run.encoder_floor, run.decoder_floor, history);
  drawn.logprob = -1;
  drawn.margin = 1;
  for (int i = 0; i < sampling.top_logprobs; ++i) {
    drawn.top.push_back({i == 0 ? drawn.token : sim_neighbour(model_, drawn.token, i),
                         -1.0F - static_cast<float>(i)});
  }
  return drawn;
}

// Behind the token drawn for `position`, each as if those before it held.
void SimBackend::make_drafts(const RowRun& run, Position position, Answer& answer) {
  SimHistory history(read(run.blocks, position - 1));
  SampleSpec sampling = answer.sampling;
  TokenId last = answer.token;
  for (int place = 0; place < model_.drafts; ++place) {
    add_row(run, model_.window, position++, last, history);
    const TokenId truth =
        sim_token(model_, sampling, run.encoder_floor, run.decoder_floor, history);
    const SimDraft draft = sim_draft(model_, history, place, truth);
    answer.drafts.push_back(draft.token);
    answer.confidence.push_back(draft.confidence);
    last = draft.token;
    if (run.rules != nullptr) {
      run.rules->add(sampling, position, last);
    }
  }
}

StepYield SimBackend::advance(Step& step) {
  auto& mine = static_cast<SimStep&>(step);
  return mine.exchanges_left-- > 0 ? StepYield::kNeedsExchange : StepYield::kDone;
}

Exchange& SimBackend::exchange(Step& step) {
  return static_cast<SimStep&>(step).exchange;
}

StepResult SimBackend::take(Step& step) {
  auto& mine = static_cast<SimStep&>(step);
  for (auto& [id, answer] : mine.answers) {
    Sequence& sequence = sequences_.at(id.value);
    sequence.in_step = false;
    sequence.answer = std::move(answer);
  }
  return std::move(mine.result);
}

}  // namespace shoal::kernels
