// Writes and reads in one order: blocks, rings, draft rings, open pairs, tokens.
#include "kernels/model/sequence_image.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shoal::kernels {
namespace {

static_assert(kTailReach <= kRingSlack + 1 && kTailReach <= kRecent - 1);

// Most rows of the last positions in an image: what a start at its end or kTailReach before needs.
constexpr std::int64_t kImageSlack = kTailReach - 1;  // beyond the window
constexpr std::int64_t kImagePairs = kTailReach + 1;
constexpr std::int64_t kImageTokens = kTailReach + kHistoryTokens;

// A row of entries of one source in one block.
struct Stretch {
  Position begin = 0;  // first position of the block
  int ratio = 1;
  std::int64_t offset = 0;
  std::int64_t row = 0;  // bytes

  // Of the entries that are complete with `end` positions.
  std::int64_t bytes(Position end) const {
    return std::clamp<Position>(end - begin, 0, kBlockTokens) / ratio * row;
  }
};

// Those of all blocks that hold positions begin .. end - 1; `begin` is a block's.
std::vector<Stretch> stretches(const KvLayout& layout, Position begin, Position end) {
  std::vector<Stretch> out;
  for (; begin < end; begin += kBlockTokens) {
    for (const SourceLayout& source : layout.sources) {
      out.push_back({begin, source.ratio, source.main_offset, layout.main_row});
      out.push_back({begin, source.ratio, source.index_offset, layout.index_row});
    }
  }
  return out;
}

std::byte* at(const SequencePlace& place, const Stretch& stretch) {
  const auto block = static_cast<std::size_t>(stretch.begin / kBlockTokens);
  return place.arena.block(place.blocks[block]) + stretch.offset;
}

void write_blocks(const SequencePlace& from, const SequenceSpan& span, KvImageWriter& out) {
  out.integer(span.first_kv);
  for (const Stretch& stretch : stretches(from.arena.layout(), span.first_kv, span.tokens)) {
    out.bytes({at(from, stretch), static_cast<std::size_t>(stretch.bytes(span.tokens))});
  }
}

Result<void> read_blocks(KvImageReader& in, const SequenceSpan& span, const SequencePlace& to) {
  TRY(const Position first, in.integer());
  if (first < 0 || first > span.first_kv || first % kBlockTokens != 0) {
    return corrupt_image("global KV from position " + std::to_string(first) + " on, " +
                         std::to_string(span.first_kv) + " is wanted");
  }
  for (const Stretch& stretch : stretches(to.arena.layout(), first, in.tokens())) {
    TRY(const auto entries, in.bytes(stretch.bytes(in.tokens())));
    const std::int64_t wanted = stretch.begin < span.first_kv ? 0 : stretch.bytes(span.tokens);
    if (wanted > 0) {
      std::memcpy(at(to, stretch), entries.data(), static_cast<std::size_t>(wanted));
    }
  }
  return {};
}

// Rows of the last positions: from the first of those that `holds` knows without a gap, `most` of
// them.
template <class Holds>
Position first_held(Position tokens, std::int64_t most, const Holds& holds) {
  Position first = tokens;
  while (first > std::max<Position>(0, tokens - most) && holds(first - 1)) {
    --first;
  }
  return first;
}

// Where rows of the last positions begin; at most `most` of them.
Result<Position> read_first(KvImageReader& in, std::int64_t most, const char* what) {
  TRY(const Position first, in.integer());
  if (first < 0 || first > in.tokens() || in.tokens() - first > most) {
    return corrupt_image(what + (" from position " + std::to_string(first)) + " on");
  }
  return first;
}

void write_ring(const SequencePlace& from,
                const WindowRing& ring,
                Position tokens,
                KvImageWriter& out) {
  const Position first = first_held(
      tokens, from.config.window + kImageSlack, [&](Position p) { return ring.holds(p); });
  out.integer(first);
  const auto row_bytes = static_cast<std::size_t>(window_row_bytes(from.config.head_dim));
  for (Position p = first; p < tokens; ++p) {
    out.bytes({ring.get(p), row_bytes});
  }
}

Result<void> read_ring(KvImageReader& in,
                       const ModelConfig& config,
                       Position end,
                       WindowRing& ring) {
  TRY(const Position first, read_first(in, config.window + kImageSlack, "window rows"));
  const std::int64_t row_bytes = window_row_bytes(config.head_dim);
  TRY(const auto rows, in.bytes((in.tokens() - first) * row_bytes));
  for (Position p = first; p < end; ++p) {
    ring.put(p, rows.data() + (p - first) * row_bytes);
  }
  return {};
}

bool has_pairs(const ModelConfig& config, std::size_t source) {
  return config.ratio(config.kv_sources[source]) == 2;
}

void write_pairs(const ModelConfig& config,
                 const OpenPair& pairs,
                 Position tokens,
                 KvImageWriter& out) {
  const Position first =
      first_held(tokens, kImagePairs, [&](Position p) { return pairs.holds(p); });
  out.integer(first);
  const auto dim = static_cast<std::size_t>(config.head_dim);
  for (Position p = first; p < tokens; ++p) {
    out.bytes(std::as_bytes(std::span(pairs.kv(p), dim)));
    out.bytes(std::as_bytes(std::span(pairs.score(p), dim)));
  }
}

Result<void> read_pairs(KvImageReader& in,
                        const ModelConfig& config,
                        Position end,
                        OpenPair& pairs) {
  TRY(const Position first, read_first(in, kImagePairs, "open pairs"));
  std::vector<float> values(static_cast<std::size_t>(2 * config.head_dim));
  const std::span<std::byte> room = std::as_writable_bytes(std::span(values));
  for (Position p = first; p < in.tokens(); ++p) {
    TRY(const auto bytes, in.bytes(static_cast<std::int64_t>(room.size())));
    std::copy(bytes.begin(), bytes.end(), room.begin());
    if (p < end) {
      pairs.put(p, values.data(), values.data() + config.head_dim);
    }
  }
  return {};
}

void write_recent(const RecentTokens& recent, Position tokens, KvImageWriter& out) {
  TokenId token = 0;
  bool dead = false;
  const Position first =
      first_held(tokens, kImageTokens, [&](Position p) { return recent.get(p, token, dead); });
  out.integer(first);
  for (Position p = first; p < tokens; ++p) {
    recent.get(p, token, dead);
    out.integer(token);
    out.integer(dead ? 1 : 0);
  }
}

Result<void> read_recent(KvImageReader& in,
                         const ModelConfig& config,
                         Position end,
                         RecentTokens& recent) {
  TRY(const Position first, read_first(in, kImageTokens, "last tokens"));
  for (Position p = first; p < in.tokens(); ++p) {
    TRY(const std::int64_t token, in.integer());
    TRY(const std::int64_t dead, in.integer());
    if (token < 0 || token >= config.vocab || (dead != 0 && dead != 1)) {
      return corrupt_image("token " + std::to_string(token) + " is outside the vocabulary");
    }
    if (p < end) {
      recent.put(p, static_cast<TokenId>(token), dead == 1);
    }
  }
  return {};
}

// Every layer has seen the last position, and nothing waits for the decoder half.
bool prompt_finished(const SequencePlace& from, Position tokens) {
  const SequenceState& state = from.state;
  for (std::size_t s = 0; s < state.open.size(); ++s) {
    if (tokens % 2 == 1 && has_pairs(from.config, s) && !state.open[s].holds(tokens - 1)) {
      return false;
    }
  }
  return state.kept_count == 0 &&
         std::all_of(state.rings.begin(), state.rings.end(), [&](const WindowRing& ring) {
           return ring.holds(tokens - 1);
         });
}

}  // namespace

std::string image_layout(const ModelConfig& config, const KvLayout& layout) {
  return std::to_string(config.layers) + " layers, " + std::to_string(config.stages) +
         " draft stages, window " + std::to_string(config.window) + " x " +
         std::to_string(window_row_bytes(config.head_dim)) + " B, dim " +
         std::to_string(config.head_dim) + ", vocabulary " + std::to_string(config.vocab) + ", " +
         block_layout(layout);
}

std::int64_t tail_bytes(const ModelConfig& config, const KvLayout& layout) {
  constexpr std::int64_t kHeader = 1024;  // the names of device and arithmetic are short
  constexpr std::int64_t kInteger = sizeof(std::int64_t);
  const auto text = static_cast<std::int64_t>(image_layout(config, layout).size());
  const std::int64_t ring =
      kInteger + (config.window + kImageSlack) * window_row_bytes(config.head_dim);
  const std::int64_t pairs =
      kInteger + kImagePairs * 2 * config.head_dim * static_cast<std::int64_t>(sizeof(float));
  return kHeader + text + layout.block_bytes * (kBlockTokens + kTailReach) / kBlockTokens +
         (config.layers + config.stages) * ring +
         static_cast<std::int64_t>(config.kv_sources.size()) * pairs +
         kInteger * (1 + 2 * kImageTokens);
}

Result<void> write_sequence(const SequencePlace& from,
                            const SequenceSpan& span,
                            KvImageWriter& out) {
  if (!prompt_finished(from, span.tokens)) {
    return fail(Code::kInvalid,
                "export of a sequence at position " + std::to_string(span.tokens) +
                    ": its prompt is not finished up to there");
  }
  write_blocks(from, span, out);
  for (const WindowRing& ring : from.state.rings) {
    write_ring(from, ring, span.tokens, out);
  }
  for (const WindowRing& ring : from.state.drafts) {
    write_ring(from, ring, span.tokens, out);
  }
  for (std::size_t s = 0; s < from.state.open.size(); ++s) {
    if (has_pairs(from.config, s)) {
      write_pairs(from.config, from.state.open[s], span.tokens, out);
    }
  }
  write_recent(from.state.recent, span.tokens, out);
  return {};
}

Result<void> read_sequence(KvImageReader& in, const SequenceSpan& span, const SequencePlace& to) {
  TRY_VOID(read_blocks(in, span, to));
  for (WindowRing& ring : to.state.rings) {
    TRY_VOID(read_ring(in, to.config, span.tokens, ring));
  }
  for (WindowRing& ring : to.state.drafts) {
    TRY_VOID(read_ring(in, to.config, span.tokens, ring));
  }
  for (std::size_t s = 0; s < to.state.open.size(); ++s) {
    if (has_pairs(to.config, s)) {
      TRY_VOID(read_pairs(in, to.config, span.tokens, to.state.open[s]));
    }
  }
  TRY_VOID(read_recent(in, to.config, span.tokens, to.state.recent));
  return in.end();
}

}  // namespace shoal::kernels
