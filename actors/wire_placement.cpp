// Everything that was decided about an attempt, field by field.
#include "actors/wire_placement.h"

#include <memory>
#include <string>
#include <utility>

#include "actors/wire_fields.h"

namespace shoal::wire_codec {
namespace {

Result<KvNamesPtr> names_of(const wire::Placement& in) {
  if (in.kv_root().empty()) {
    return nullptr;
  }
  TRY(const BlockKey root, block_key(in.kv_root()));
  return std::make_shared<const KvNames>(KvNames{root});
}

template <class Fields>
KvReuse reuse_in(const Fields& in) {
  return {in.loaded(), in.start(), in.encoder_whole(), in.decoder_start(), in.decoder_whole()};
}

template <class Fields>
void put_reuse(const KvReuse& reuse, Fields& out) {
  out.set_loaded(reuse.hit);
  out.set_start(reuse.start);
  out.set_encoder_whole(reuse.encoder_whole);
  out.set_decoder_start(reuse.decoder_start);
  out.set_decoder_whole(reuse.decoder_whole);
}

bool is_in_order(const KvReuse& reuse, Position total) {
  return 0 <= reuse.start && reuse.start <= reuse.encoder_whole && reuse.encoder_whole <= total &&
         reuse.start <= reuse.decoder_start && reuse.decoder_start <= reuse.decoder_whole &&
         reuse.decoder_start < total && reuse.decoder_whole <= total;
}

Result<KvReuse> reuse_of(const wire::Placement& in) {
  const KvReuse reuse = reuse_in(in);
  // Behind a tail the first row may lie within a block.
  const bool has_tail = in.tail_buffer() != 0;
  const Position before = has_tail ? reuse.start : reuse.hit;
  const bool is_loadable = reuse.start <= reuse.hit + (has_tail ? kBlockTokens - 1 : 0) &&
                           0 <= reuse.hit && reuse.hit <= before && before < in.total() &&
                           reuse.hit % kBlockTokens == 0 && (before == 0 || !in.kv_root().empty());
  if (!is_in_order(reuse, in.total()) || !is_loadable) {
    return corrupt("reuse");
  }
  return reuse;
}

Result<KvChain> chain_of(const wire::Handover& in) {
  if (in.kv_last().empty()) {
    return KvChain{};
  }
  if (in.open_size() != in.position() % kBlockTokens) {
    return corrupt("open");
  }
  if (in.kv_first().empty() != (in.position() < kBlockTokens)) {
    return corrupt("kv_first");
  }
  KvChain chain;
  TRY(chain.last, block_key(in.kv_last()));
  chain.open.assign(in.open().begin(), in.open().end());
  chain.lineage = in.kv_lineage();
  if (!in.kv_first().empty()) {
    TRY(chain.first, block_key(in.kv_first()));
  }
  return chain;
}

// Blocks of a sequence are stored or not from its beginning on.
bool names_blocks(const Handover& handover) {
  return handover.chain.last != BlockKey{};
}

}  // namespace

void put(const AttemptKey& key, wire::AttemptKey& out) {
  out.set_request(key.request.value);
  out.set_attempt(key.attempt.value);
}

AttemptKey get(const wire::AttemptKey& in) {
  return {RequestId{in.request()}, AttemptId{in.attempt()}};
}

void put(const Placement& placement, Instant now, bool with_prompt, wire::Placement& out) {
  put(*placement.submission, now, with_prompt, *out.mutable_submission());
  out.set_router(placement.router.value);
  put(placement.basis, *out.mutable_basis());
  out.set_prompt(placement.span.prompt);
  out.set_total(placement.span.total);
  wire::AnswerRules& rules = *out.mutable_rules();
  rules.set_min_tokens(placement.rules.min_tokens);
  rules.set_max_tokens(placement.rules.max_tokens);
  rules.mutable_end_tokens()->Assign(placement.rules.end_tokens.begin(),
                                     placement.rules.end_tokens.end());
  out.set_length_class(static_cast<std::uint32_t>(placement.length_class));
  out.set_work_ns(placement.work.count());
  out.set_blocks(placement.blocks);
  put_reuse(placement.span.reuse, out);
  out.set_cached(placement.cached);
  out.set_lineage(placement.lineage);
  if (placement.tail) {
    out.set_tail_node(placement.tail->node.value);
    out.set_tail_buffer(placement.tail->buffer.value);
    out.set_tail_identity(placement.tail->identity);
  }
  if (placement.kv != nullptr) {
    out.set_kv_root(bytes_of(placement.kv->root));
  }
}

Result<PlacementPtr> get(const wire::Placement& in, Instant now) {
  Placement placement;
  TRY(Submission submission, get(in.submission(), now));
  TRY(placement.basis, get(in.basis()));
  if (in.length_class() >= static_cast<std::uint32_t>(kPrefillClasses)) {
    return corrupt("length_class");
  }
  if (in.prompt() < 1 || in.total() < in.prompt() || in.total() > kLongestSequence) {
    return corrupt("span");
  }
  if (in.cached() < 0 || in.cached() > in.total()) {
    return corrupt("cached");
  }
  if (in.blocks() < 0 || in.blocks() > kLongestSequence || in.work_ns() < 0) {
    return corrupt("work");
  }
  TRY(const KvReuse reuse, reuse_of(in));
  TRY(placement.kv, names_of(in));
  placement.submission = std::make_shared<const Submission>(std::move(submission));
  placement.router = NodeId{in.router()};
  placement.span = {in.prompt(), in.total(), placement.basis.mode, reuse};
  placement.rules = {in.rules().min_tokens(),
                     in.rules().max_tokens(),
                     {in.rules().end_tokens().begin(), in.rules().end_tokens().end()}};
  placement.length_class = static_cast<int>(in.length_class());
  placement.work = Nanos{in.work_ns()};
  placement.blocks = in.blocks();
  placement.cached = in.cached();
  placement.lineage = in.lineage();
  if (in.tail_buffer() != 0) {
    placement.tail =
        TailPlace{NodeId{in.tail_node()}, BufferKey{in.tail_buffer()}, in.tail_identity()};
  }
  return std::make_shared<const Placement>(std::move(placement));
}

void put(const KvShortened& message, wire::KvShortened& out) {
  put(message.found.key, *out.mutable_key());
  put(message.found.basis, *out.mutable_basis());
  put_reuse(message.found.reuse, out);
  out.set_lineage(message.found.lineage);
  out.set_sound(message.sound);
  out.set_code(static_cast<std::uint32_t>(message.cause.code));
  out.set_message(message.cause.message);
}

Result<KvShortened> get(const wire::KvShortened& in) {
  KvShortened message;
  message.found.key = get(in.key());
  TRY(message.found.basis, get(in.basis()));
  const KvReuse reuse = reuse_in(in);
  if (!is_in_order(reuse, kLongestSequence) || reuse.hit < reuse.start ||
      reuse.hit % kBlockTokens != 0 || in.sound() < 0 || in.sound() % kBlockTokens != 0) {
    return corrupt("reuse");
  }
  message.found.reuse = reuse;
  message.found.lineage = in.lineage();
  message.sound = in.sound();
  TRY(const Code code, code_of(in.code()));
  message.cause = {code, in.message()};
  return message;
}

void put(const Handover& handover, wire::Handover& out) {
  put(handover.key(), *out.mutable_key());
  out.set_node(handover.node.value);
  out.set_rank(handover.rank);
  out.set_buffer(handover.buffer.value);
  out.set_position(handover.position);
  out.set_token(handover.token);
  out.set_answered(handover.answered);
  if (names_blocks(handover)) {
    out.set_kv_last(bytes_of(handover.chain.last));
    out.mutable_open()->Assign(handover.chain.open.begin(), handover.chain.open.end());
    out.set_kv_lineage(handover.chain.lineage);
    if (handover.chain.first) {
      out.set_kv_first(bytes_of(*handover.chain.first));
    }
  }
}

Result<Handover> get(const wire::Handover& in, PlacementPtr placement) {
  if (in.buffer() == 0) {
    return corrupt("buffer");
  }
  if (in.position() < 1 || in.position() > kLongestSequence || in.answered() < 1) {
    return corrupt("position");
  }
  if (placement->kv != nullptr && in.kv_last().empty()) {
    return corrupt("kv_last");
  }
  TRY(KvChain chain, chain_of(in));
  return Handover{.placement = std::move(placement),
                  .kv = nullptr,
                  .node = NodeId{in.node()},
                  .rank = in.rank(),
                  .buffer = BufferKey{in.buffer()},
                  .position = in.position(),
                  .token = in.token(),
                  .answered = in.answered(),
                  .chain = std::move(chain)};
}

}  // namespace shoal::wire_codec
