// Hashes in place of a model, and a check of every history and block table it is shown.
#include "kernels/sim/sim_backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "schemas/check.h"

namespace shoal::kernels {
namespace {

constexpr std::size_t kRowBytes = sizeof(std::uint64_t);
// The fewest where a window that is cut off can be told from one that is not.
constexpr int kEncoderLayers = 2;
constexpr int kDecoderLayers = 2;

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
  return mix(hash ^ mix(value));
}

std::uint64_t after_token(std::uint64_t hash, TokenId token) {
  return combine(hash, static_cast<std::uint64_t>(token));
}

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

// The ordinary token of that number, counted round and round.
TokenId ordinary(const SimModel& model, std::uint64_t number) {
  if (!model.tokens.empty()) {
    return model.tokens[number % model.tokens.size()];
  }
  constexpr std::int64_t kFirst = 3;
  const auto count = static_cast<std::uint64_t>(model.vocab - kFirst);
  return static_cast<TokenId>(kFirst + static_cast<std::int64_t>(number % count));
}

// Another token beside `token`, for lists of the likeliest ones.
TokenId neighbour(const SimModel& model, TokenId token, int distance) {
  if (model.tokens.empty()) {
    return token + distance;
  }
  const auto place = std::lower_bound(model.tokens.begin(), model.tokens.end(), token);
  return ordinary(model,
                  static_cast<std::uint64_t>(place - model.tokens.begin()) +
                      static_cast<std::uint64_t>(distance));
}

TokenId draw_token(const SimModel& model,
                   const SampleSpec& sampling,
                   Position encoder_floor,
                   Position decoder_floor,
                   std::uint64_t history) {
  const bool certain = model.greedy && sampling.temperature == 0;
  std::uint64_t hash = combine(history, certain ? 0 : sampling.seed);
  hash = combine(hash, certain ? 0 : sampling.choice);
  hash = combine(hash, static_cast<std::uint64_t>(encoder_floor));
  hash = combine(hash, static_cast<std::uint64_t>(decoder_floor));
  constexpr std::uint64_t kEndTries = 64;  // a forbidden end must not be drawn for ever
  for (std::uint64_t tries = 0;; ++tries) {
    const std::uint64_t drawn = combine(hash, tries);
    const bool ends = model.eos_period > 0 && tries < kEndTries &&
                      drawn % static_cast<std::uint64_t>(model.eos_period) == 0;
    const TokenId token = ends ? model.eos : ordinary(model, drawn >> 16);
    if (std::find(sampling.forbidden.begin(), sampling.forbidden.end(), token) ==
        sampling.forbidden.end()) {
      return token;
    }
  }
}

Error broken(const RowRun& run, const std::string& what) {
  return Error{Code::kInvalid,
               "run of sequence " + std::to_string(run.sequence.value) + " at " +
                   std::to_string(run.first) + ": " + what};
}

}  // namespace

void SimHistory::add(TokenId token) {
  hash_ = after_token(hash_, token);
}

void SimHistory::add_behind_hit(TokenId token, Position encoder_floor) {
  add(token);
  if (encoder_floor > 0) {
    hash_ = combine(hash_, static_cast<std::uint64_t>(encoder_floor));
  }
}

TokenId sim_token(const SimModel& model,
                  const SampleSpec& sampling,
                  Position encoder_floor,
                  Position decoder_floor,
                  const SimHistory& history) {
  return draw_token(model, sampling, encoder_floor, decoder_floor, history.hash());
}

struct SimBackend::SimStep final : Step {
  StepResult result;
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
  constexpr std::int64_t kHeader = 1024;
  shape.tail_bytes = kHeader + (kBlockTokens + kTailReach) * static_cast<std::int64_t>(kRowBytes) +
                     model.image_padding;
  shape.bos = model.bos;
  shape.eos = model.eos;
  shape.numeric_id = "sim";
  shape.block_layout = "rows of " + std::to_string(kRowBytes) + " B";
  return shape;
}

SimBackend::SimBackend(const SimModel& model, const SimSize& size)
    : model_(model),
      shape_(sim_shape(model)),
      fit_{shape_.numeric_id,
           "rows of " + std::to_string(kRowBytes) + " B, padding " +
               std::to_string(model.image_padding) + " B"},
      arena_(arena_geometry(), size.blocks, size.sequences),
      sequences_(static_cast<std::size_t>(size.sequences)) {
  CHECK(shape_.block_bytes >= kBlockTokens * static_cast<std::int64_t>(kRowBytes));
}

void SimBackend::reset_sequence(SequenceId id) {
  sequences_.at(id.value) = Sequence{};
}

Result<std::vector<std::byte>> SimBackend::export_sequence(SequenceId id,
                                                           std::span<const BlockId> blocks,
                                                           Position tokens) {
  return write_image(id, blocks, {tokens, 0});
}

Result<std::vector<std::byte>> SimBackend::export_tail(SequenceId id,
                                                       std::span<const BlockId> blocks,
                                                       Position tokens) {
  return write_image(id, blocks, tail_span(tokens));
}

Result<std::vector<std::byte>> SimBackend::write_image(SequenceId id,
                                                       std::span<const BlockId> blocks,
                                                       const SequenceSpan& span) {
  const Sequence& sequence = sequences_.at(id.value);
  if (span.tokens < 1 || span.tokens > sequence.tokens() ||
      sequence.decoder.end != sequence.tokens()) {
    return fail(Code::kInvalid,
                "export of sequence " + std::to_string(id.value) + " at position " +
                    std::to_string(span.tokens) + ": its prompt is not finished up to there");
  }
  TRY_VOID(check_block_table(arena_, blocks, span.tokens));
  const Position held = sequence.tokens() - model_.window - kTailReach + 1;
  KvImageWriter out(fit_, span.tokens);
  out.integer(sequence.encoder.begin);
  out.integer(sequence.decoder.begin);
  out.integer(std::max(sequence.held, held));
  out.integer(span.first_kv);
  for (Position p = span.first_kv - 1; p < span.tokens; ++p) {
    const std::uint64_t hash = read(blocks, p);
    out.bytes(std::as_bytes(std::span(&hash, 1)));
  }
  out.bytes(std::vector<std::byte>(static_cast<std::size_t>(model_.image_padding)));
  return std::move(out).finish();
}

Result<void> SimBackend::import_sequence(SequenceId id,
                                         std::span<const BlockId> blocks,
                                         std::span<const std::byte> image) {
  return read_image(id, blocks, image, std::nullopt);
}

Result<void> SimBackend::import_tail(const RowRun& run, std::span<const std::byte> image) {
  const Position loaded = run.first / kBlockTokens * kBlockTokens;
  TRY_VOID(read_image(run.sequence, run.blocks, image, SequenceSpan{run.first, loaded}));
  Sequence& sequence = sequences_.at(run.sequence.value);
  if (run.decoder_floor >= run.first) {
    sequence.decoder = {};
  }
  if (auto windows = check_windows(run, sequence); !windows) {
    reset_sequence(run.sequence);
    return corrupt_image(windows.error().message);
  }
  return {};
}

// All of it, or the part.
Result<void> SimBackend::read_image(SequenceId id,
                                    std::span<const BlockId> blocks,
                                    std::span<const std::byte> image,
                                    std::optional<SequenceSpan> part) {
  reset_sequence(id);
  TRY(KvImageReader in, KvImageReader::open(image, fit_));
  const SequenceSpan span = part.value_or(SequenceSpan{in.tokens(), 0});
  if (in.tokens() > shape_.max_positions || span.tokens < 1 || span.tokens > in.tokens()) {
    return corrupt_image("of " + std::to_string(in.tokens()) + " tokens, " +
                         std::to_string(span.tokens) + " are wanted");
  }
  TRY_VOID(check_block_table(arena_, blocks, span.tokens));
  Sequence& sequence = sequences_.at(id.value);
  auto rows = read_rows(in, span, blocks, sequence);
  if (!rows) {
    reset_sequence(id);
  }
  return rows;
}

Result<void> SimBackend::read_rows(KvImageReader& in,
                                   const SequenceSpan& span,
                                   std::span<const BlockId> blocks,
                                   Sequence& sequence) {
  TRY(const Position encoder, in.integer());
  TRY(const Position decoder, in.integer());
  TRY(sequence.held, in.integer());
  sequence.encoder = {encoder, span.tokens};
  sequence.decoder = {decoder, span.tokens};
  TRY(const Position first, in.integer());
  if (first < 0 || first > span.first_kv || first % kBlockTokens != 0) {
    return corrupt_image("rows from position " + std::to_string(first) + " on, " +
                         std::to_string(span.first_kv) + " is wanted");
  }
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(in.tokens() - first + 1));
  const std::span<std::byte> room = std::as_writable_bytes(std::span(hashes));
  TRY(const auto rows, in.bytes(static_cast<std::int64_t>(room.size())));
  std::copy(rows.begin(), rows.end(), room.begin());
  TRY_VOID(in.bytes(model_.image_padding));
  TRY_VOID(in.end());
  const auto hash = [&](Position p) { return hashes[static_cast<std::size_t>(p - first + 1)]; };
  if (span.first_kv > 0 && hash(span.first_kv - 1) != read(blocks, span.first_kv - 1)) {
    return corrupt_image("its rows do not follow those of the loaded blocks");
  }
  for (Position p = 0; p < span.tokens; ++p) {
    if (p >= span.first_kv) {
      const std::uint64_t value = hash(p);
      std::memcpy(row(blocks, p), &value, kRowBytes);
    }
    sequence.hashes.push_back(read(blocks, p));
  }
  return {};
}

std::byte* SimBackend::row(std::span<const BlockId> blocks, Position position) {
  return arena_.block(blocks[static_cast<std::size_t>(position / kBlockTokens)]) +
         position % kBlockTokens * static_cast<Position>(kRowBytes);
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
  auto step = std::make_unique<SimStep>();
  step->exchanges_left = model_.exchanges;
  std::vector<Drawn> drawn;
  for (RowRun& planned : plan.runs) {
    TRY(const RowRun run, resolve(std::move(planned), plan.queue));
    Sequence& sequence = sequences_.at(run.sequence.value);
    adopt(run, sequence);
    TRY_VOID(check(run, sequence));
    write(run, sequence);
    if (run.sample) {
      TRY_VOID(check_reach(run, sequence));
    }
    step->result.runs.push_back(draw(run));
    drawn.push_back({run.sequence, step->result.runs.back().token});
  }
  last_[static_cast<std::size_t>(plan.queue)] = std::move(drawn);
  return step;
}

Result<RowRun> SimBackend::resolve(RowRun run, Queue queue) const {
  if (!run.tokens.empty()) {
    return run;
  }
  const auto& last = last_[static_cast<std::size_t>(queue)];
  const auto slot = static_cast<std::size_t>(run.previous);
  if (run.previous < 0 || slot >= last.size() || last[slot].sequence != run.sequence ||
      last[slot].token < 0) {
    return tl::unexpected(broken(run, "no token was sampled by that run of the previous step"));
  }
  run.tokens = {last[slot].token};
  return run;
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
  TRY_VOID(check_windows(run, sequence));
  return check_rows(run, sequence);
}

// As a real device: rows that it would read must be in the windows.
Result<void> SimBackend::check_windows(const RowRun& run, const Sequence& sequence) const {
  const auto holds = [&sequence, this](const Rows& rows, Position floor, Position first) {
    const Position low = std::max({floor, first - model_.window + 1, Position{0}});
    return low >= first || (std::max(rows.begin, sequence.held) <= low && rows.end == first);
  };
  if (!holds(sequence.encoder, run.encoder_floor, run.first)) {
    return tl::unexpected(broken(run, "the encoder half lacks window rows"));
  }
  const Position decodes = run.stack == Stack::kAll ? run.first
                           : sequence.kept.empty()  ? std::max(run.first, run.decoder_floor)
                                                    : sequence.kept.begin;
  if (!holds(sequence.decoder, run.decoder_floor, decodes)) {
    return tl::unexpected(broken(run, "the decoder half lacks window rows"));
  }
  return {};
}

// Windows that were cut off must not reach what is sampled or stored.
Result<void> SimBackend::check_reach(const RowRun& run, const Sequence& sequence) const {
  const Position end = run.first + run.rows();
  const auto is_whole = [this](const Rows& rows, Position floor, Position place, int layers) {
    return rows.begin <= std::max({floor, place - layers * model_.window, Position{0}});
  };
  const bool samples_whole =
      is_whole(sequence.encoder, run.encoder_floor, end, kEncoderLayers + kDecoderLayers) &&
      is_whole(sequence.decoder, run.decoder_floor, end, kDecoderLayers);
  if (!samples_whole ||
      !is_whole(sequence.encoder, run.encoder_floor, sequence.written, kEncoderLayers)) {
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
                    rows * kRowBytes) != 0) {
      return fail(Code::kCorrupt,
                  broken(run, "block " + std::to_string(block) + " holds something else").message);
    }
  }
  return {};
}

void SimBackend::write(const RowRun& run, Sequence& sequence) {
  for (const TokenId token : run.tokens) {
    const Position position = sequence.tokens();
    if (position < run.writes_from) {
      sequence.hashes.push_back(read(run.blocks, position));
      continue;
    }
    SimHistory history(read(run.blocks, position - 1));
    if (run.encoder_floor > 0 && position == run.encoder_floor + model_.window) {
      history.add_behind_hit(token, run.encoder_floor);
    } else {
      history.add(token);
    }
    const std::uint64_t hash = history.hash();
    std::memcpy(row(run.blocks, position), &hash, sizeof hash);
    sequence.hashes.push_back(hash);
    sequence.written = std::min(sequence.written, position);
  }
  sequence.encoder.add(run.first, run.rows());
  if (run.stack == Stack::kAll) {
    sequence.decoder.add(run.first, run.rows());
    return;
  }
  const Position end = run.first + run.rows();
  if (const Position kept = std::max(run.first, run.decoder_floor); kept < end) {
    sequence.kept.add(kept, end - kept);
  }
  if (run.finishes_prompt && !sequence.kept.empty()) {
    sequence.decoder.add(sequence.kept.begin, sequence.kept.end - sequence.kept.begin);
    sequence.kept = {};
  }
}

RunResult SimBackend::draw(const RowRun& run) {
  RunResult result;
  if (run.sample) {
    result.token = draw_token(model_,
                              run.sampling,
                              run.encoder_floor,
                              run.decoder_floor,
                              read(run.blocks, run.first + run.rows() - 1));
    result.logprob = -1;
    result.margin = 1;
    for (int i = 0; i < run.sampling.top_logprobs; ++i) {
      result.top.push_back({i == 0 ? result.token : neighbour(model_, result.token, i),
                            -1.0F - static_cast<float>(i)});
    }
  }
  return result;
}

StepYield SimBackend::advance(Step& step) {
  auto& mine = static_cast<SimStep&>(step);
  return mine.exchanges_left-- > 0 ? StepYield::kNeedsExchange : StepYield::kDone;
}

Exchange& SimBackend::exchange(Step& step) {
  return static_cast<SimStep&>(step).exchange;
}

StepResult SimBackend::take(Step& step) {
  return std::move(static_cast<SimStep&>(step).result);
}

}  // namespace shoal::kernels
