// A sequence that is taken up behind loaded blocks has the bits of one that never stopped: on every
// device, in the rows that prefill workers run.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/policy/kv_reuse.h"
#include "actors/policy/prefill_rows.h"
#include "kernels/registry.h"

namespace shoal {
namespace {

using kernels::RowRun;
using kernels::RunResult;
using Bytes = std::vector<std::byte>;

constexpr Position kLongest = 2048;

class Bed {
 public:
  explicit Bed(std::string_view name) {
    kernels::DeviceConfig config;
    config.model = std::string(SHOAL_MODELS_DIR) + "/guppy";
    config.kv_blocks = 2 * kLongest / kBlockTokens;
    config.sequences = 2;
    config.sim.model.vocab = 2496;
    auto opened = kernels::open_device(name, config);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    device_ = *std::move(opened);
    const kernels::ModelShape& shape = backend().shape();
    reach_ = {shape.window, shape.encoder_layers, shape.layers - shape.encoder_layers};
    sequence_ = *backend().arena().take_sequence();
    blocks_ = *backend().arena().take_blocks(kLongest / kBlockTokens);
  }

  // What follows `tokens`, all of them computed as one attempt does; `loaded` begins at position 0.
  RunResult prefill(const std::vector<TokenId>& tokens,
                    const PrefillSpan& span,
                    const Basis& basis,
                    const std::vector<Bytes>& loaded) {
    backend().reset_sequence(sequence_);
    for (const BlockId block : blocks_) {
      backend().write_block(block, Bytes(size()));  // nothing of an earlier sequence
    }
    for (std::size_t b = 0; b < static_cast<std::size_t>(span.reuse.hit / kBlockTokens); ++b) {
      backend().write_block(blocks_[b], loaded.at(b));
    }
    RunResult last;
    for (Position done = span.reuse.start; done < span.total;) {
      const Position count = std::min<Position>(chunk_border(span, done) - done, 300);
      last = run(tokens, span, prefill_rows(span, basis, done, count));
      done += count;
    }
    return last;
  }

  // As decode does: one row after the other, on what is there.
  RunResult decode(const std::vector<TokenId>& tokens, Position from, const Basis& basis) {
    RunResult last;
    for (Position p = from; p < std::ssize(tokens); ++p) {
      PrefillRows row{.first = p, .count = 1, .samples = true};
      row.encoder_floor = basis.replay_floor;
      row.decoder_floor = basis.tail_start;
      last = run(tokens, {}, row);
    }
    return last;
  }

  std::vector<Bytes> blocks(Position tokens) {
    std::vector<Bytes> out;
    for (Position b = 0; b < tokens / kBlockTokens; ++b) {
      out.emplace_back(size());
      backend().read_block(blocks_[static_cast<std::size_t>(b)], out.back());
    }
    return out;
  }

  const Reach& reach() const { return reach_; }

 private:
  kernels::Backend& backend() { return device_->backend(); }

  std::size_t size() { return static_cast<std::size_t>(backend().shape().block_bytes); }

  RunResult run(const std::vector<TokenId>& tokens,
                const PrefillSpan& span,
                const PrefillRows& rows) {
    RowRun run;
    run.sequence = sequence_;
    run.first = rows.first;
    run.tokens.assign(tokens.begin() + rows.first, tokens.begin() + rows.first + rows.count);
    for (Position p = std::max<Position>(0, rows.first - kernels::kHistoryTokens);
         rows.begins && p < rows.first;
         ++p) {
      run.history.push_back(tokens[static_cast<std::size_t>(p)]);
    }
    run.stack = rows.encoder_only ? kernels::Stack::kEncoder : kernels::Stack::kAll;
    run.finishes_prompt = rows.finishes_prompt;
    run.writes_from = span.reuse.hit;
    run.encoder_floor = rows.encoder_floor;
    run.decoder_floor = rows.decoder_floor;
    run.blocks = blocks_;
    run.sample = rows.samples;
    run.logits = rows.samples ? kernels::WantLogits::kLast : kernels::WantLogits::kNone;
    kernels::StepPlan plan;
    plan.runs = {run};
    auto step = backend().begin(std::move(plan));
    REQUIRE_MESSAGE(step.has_value(), step.error().message);
    REQUIRE(backend().advance(**step) == kernels::StepYield::kDone);
    return backend().take(**step).runs[0];
  }

  std::unique_ptr<kernels::Device> device_;
  Reach reach_;
  SequenceId sequence_;
  std::vector<BlockId> blocks_;
};

std::vector<TokenId> numbers(Position count) {
  std::vector<TokenId> tokens;
  for (Position i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(300 + i * i * 7 % 1000));
  }
  return tokens;
}

// Never stopped: one attempt to the prompt's end, then decode.
struct Unbroken {
  Basis basis;
  RunResult last;
  std::vector<Bytes> blocks;

  Unbroken(Bed& bed, const std::vector<TokenId>& tokens, BasisMode mode, Position prompt) {
    const auto total = static_cast<Position>(tokens.size());
    const KvReuse reuse = plan_reuse({mode, prompt, prompt, {}}, 0, bed.reach());
    basis = first_basis(mode, prompt, bed.reach().window, reuse);
    last = bed.prefill(tokens, {prompt, prompt, mode, reuse}, basis, {});
    if (total > prompt) {
      last = bed.decode(tokens, prompt, basis);
    }
    blocks = bed.blocks(total);
  }
};

void check_equal(const RunResult& a, const RunResult& b) {
  CHECK(a.drawn.at(0).token == b.drawn.at(0).token);
  REQUIRE(a.logits.size() == b.logits.size());
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  CHECK(std::ranges::equal(a.logits, b.logits, {}, bits, bits));
}

template <class Test>
void for_each_device_and_mode(const Test& test) {
  for (const std::string_view name : kernels::device_names()) {
    CAPTURE(std::string(name));
    Bed bed(name);
    for (const BasisMode mode : {BasisMode::kExact, BasisMode::kBounded}) {
      CAPTURE(static_cast<int>(mode));
      test(bed, mode);
    }
  }
}

}  // namespace

TEST_CASE("an answer that is taken up behind its own blocks goes on with the same bits") {
  for_each_device_and_mode([](Bed& bed, BasisMode mode) {
    for (const auto& [prompt, total] : {std::pair<Position, Position>{200, 1100}, {900, 1030}}) {
      const std::vector<TokenId> tokens = numbers(total);
      const Unbroken unbroken(bed, tokens, mode, prompt);
      for (const Position there : {Position{0}, total - 260, total}) {
        const KvReuse reuse = plan_reuse({mode, prompt, total, unbroken.basis}, there, bed.reach());
        CAPTURE(total);
        CAPTURE(reuse.start);
        CHECK((there == 0 || reuse.start > 0));
        const PrefillSpan span{prompt, total, mode, reuse};
        check_equal(bed.prefill(tokens, span, unbroken.basis, unbroken.blocks), unbroken.last);
        CHECK(bed.blocks(total) == unbroken.blocks);
      }
    }
  });
}

TEST_CASE("an exact prompt behind blocks has the bits of one that is computed whole") {
  for_each_device_and_mode([](Bed& bed, BasisMode mode) {
    for (const auto& [prompt, there] : {std::pair<Position, Position>{1400, 1280},
                                        {1400, 896},
                                        {1400, 256},    // every row runs again
                                        {420, 384}}) {  // in the decoder half too
      CAPTURE(there);
      const std::vector<TokenId> tokens = numbers(prompt);
      const Unbroken writer(bed, tokens, mode, prompt);
      const Unbroken whole(bed, tokens, BasisMode::kExact, prompt);
      CHECK(writer.blocks == whole.blocks);
      const PrefillSpan span{
          prompt,
          prompt,
          BasisMode::kExact,
          plan_reuse({BasisMode::kExact, prompt, prompt, {}}, there, bed.reach())};
      CHECK(span.reuse.hit == there);
      check_equal(bed.prefill(tokens, span, whole.basis, writer.blocks), whole.last);
    }
  });
}

TEST_CASE("the decoder half of an exact prompt runs its last rows alone, with the same bits") {
  for_each_device_and_mode([](Bed& bed, BasisMode) {
    const std::vector<TokenId> tokens = numbers(900);
    const Unbroken reached(bed, tokens, BasisMode::kExact, 900);
    const PrefillSpan every_layer{900, 900, BasisMode::kExact, {}};
    check_equal(bed.prefill(tokens, every_layer, reached.basis, {}), reached.last);
    CHECK(bed.blocks(900) == reached.blocks);
  });
}

}  // namespace shoal
