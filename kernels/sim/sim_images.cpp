// A sim sequence in an image: where its windows begin, then its rows.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/sim/sim_backend.h"

namespace shoal::kernels {

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
  if (sequence.in_step) {
    return fail(Code::kInvalid, "export of sequence " + std::to_string(id.value) + ": " + kDropped);
  }
  if (span.tokens < 1 || span.tokens > sequence.tokens() ||
      sequence.windows.decoder.end != sequence.tokens()) {
    return fail(Code::kInvalid,
                "export of sequence " + std::to_string(id.value) + " at position " +
                    std::to_string(span.tokens) + ": its prompt is not finished up to there");
  }
  TRY_VOID(check_block_table(arena_, blocks, span.tokens));
  const Position held =
      std::max(sequence.reached - kWindowSlack, span.tokens - kTailReach + 1) - model_.window;
  KvImageWriter out(fit_, span.tokens);
  out.integer(sequence.windows.encoder.begin);
  out.integer(sequence.windows.decoder.begin);
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
    sequence.windows.decoder = {};
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
  sequence.windows.encoder = {encoder, span.tokens};
  sequence.windows.decoder = {decoder, span.tokens};
  sequence.reached = span.tokens;
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
      std::memcpy(row(blocks, p), &value, kSimRowBytes);
    }
    sequence.hashes.push_back(read(blocks, p));
  }
  return {};
}

}  // namespace shoal::kernels
