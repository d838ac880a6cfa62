// Checks sizes and ids of a submission, then decides everything an attempt keeps: basis, span, end
// rules, class, memory.
#include "actors/placement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/policy/kv_budget.h"
#include "actors/policy/kv_reuse.h"
#include "actors/policy/prefill_cost.h"

namespace shoal {
namespace {

Result<void> check_tokens(const Submission& submission, const PlacementLimits& limits) {
  const auto outside = [&limits](TokenId token) { return token < 0 || token >= limits.vocab; };
  const auto& prompt = *submission.prompt;
  if (const auto it = std::find_if(prompt.begin(), prompt.end(), outside); it != prompt.end()) {
    return fail(Code::kInvalid,
                "prompt token " + std::to_string(it - prompt.begin()) + " is " +
                    std::to_string(*it) + ", the vocabulary has " + std::to_string(limits.vocab) +
                    " tokens");
  }
  if (std::any_of(submission.forced.begin(), submission.forced.end(), outside)) {
    return fail(Code::kInternal, "a forced token lies outside the vocabulary");
  }
  return {};
}

}  // namespace

Reach reach_of(const kernels::ModelShape& shape) {
  return {shape.window, shape.encoder_layers, shape.layers - shape.encoder_layers};
}

ReuseAsk reuse_ask(const Submission& submission) {
  const auto prompt = static_cast<Position>(submission.prompt->size());
  return {submission.basis ? submission.basis->mode : submission.mode,
          prompt,
          prompt + std::ssize(submission.forced),
          submission.basis};
}

Basis basis_behind(const ReuseAsk& ask,
                   const KvReuse& reuse,
                   std::uint64_t lineage,
                   const Reach& reach) {
  if (ask.basis && (ask.mode == BasisMode::kExact || reuse.hit >= ask.basis->hit)) {
    return *ask.basis;
  }
  return first_basis(ask.mode, ask.prompt, reach.window, reuse, lineage);
}

KvFound find_nothing(const Submission& submission, const Reach& reach) {
  const ReuseAsk ask = reuse_ask(submission);
  const KvReuse reuse = plan_reuse(ask, 0, reach);
  return {.key = {submission.request, submission.attempt},
          .names = nullptr,
          .reuse = reuse,
          .basis = basis_behind(ask, reuse, 0, reach),
          .lineage = 0,
          .tail = std::nullopt};
}

PlacementLimits placement_limits(const NodeContext& node) {
  PlacementLimits limits;
  limits.context = node.options.context;
  limits.vocab = node.shape.vocab;
  limits.blocks = node.options.kv_blocks;
  limits.reach = reach_of(node.shape);
  limits.eos = node.shape.eos;
  limits.attempts = node.options.attempts;
  limits.bounds = node.options.prefill_bounds;
  return limits;
}

Result<void> check_submission(const Submission& submission, const PlacementLimits& limits) {
  const auto prompt = static_cast<Position>(submission.prompt->size());
  if (submission.attempt.value > limits.attempts) {
    return fail(
        Code::kUnavailable,
        "the request was tried " + std::to_string(limits.attempts) + " times; send it again later");
  }
  if (prompt == 0) {
    return fail(Code::kInvalid, "prompt is empty: it needs at least one token");
  }
  if (prompt >= limits.context) {
    return fail(Code::kTooLarge,
                "the prompt has " + std::to_string(prompt) +
                    " tokens, prompt and answer together may have " +
                    std::to_string(limits.context));
  }
  TRY_VOID(check_tokens(submission, limits));
  const std::int64_t answer =
      answer_ceiling(prompt, submission.sampling.max_tokens, limits.context);
  if (std::ssize(submission.forced) >= answer) {
    return fail(Code::kInternal, "an attempt was made of an answer that is complete");
  }
  const std::int64_t blocks = worst_case_blocks(prompt, answer);
  if (blocks > limits.blocks) {
    return fail(Code::kTooLarge,
                "prompt and answer may need " + std::to_string(blocks) +
                    " KV blocks, the device has " + std::to_string(limits.blocks) +
                    ": lower max_tokens or shorten the prompt");
  }
  return {};
}

Placement make_placement(SubmissionPtr submission,
                         const PlacementLimits& limits,
                         const CostModel& cost,
                         const KvFound& found) {
  const auto prompt = static_cast<Position>(submission->prompt->size());
  const std::int64_t answer =
      answer_ceiling(prompt, submission->sampling.max_tokens, limits.context);
  Placement placement;
  placement.span.prompt = prompt;
  placement.span.total = prompt + std::ssize(submission->forced);
  placement.rules = answer_rules(submission->sampling, answer, limits.eos);
  placement.blocks = worst_case_blocks(prompt, answer);
  placement.kv = found.names;
  placement.submission = std::move(submission);
  start_behind(placement, found, cost);
  placement.length_class = prefill_class(placement.work, limits.bounds);
  return placement;
}

void start_behind(Placement& placement, const KvFound& found, const CostModel& cost) {
  const KvReuse& reuse = found.reuse;
  placement.basis = found.basis;
  placement.span.mode = found.basis.mode;
  placement.span.reuse = reuse;
  placement.work = prefill_work(cost, placement.span);
  placement.lineage = found.lineage;
  placement.tail = found.tail;
  placement.cached = std::min(found.tail ? reuse.start : reuse.hit, placement.span.prompt);
}

bool goes_on_at(const Submission& submission, NodeId draining) {
  return submission.gateway == draining || !submission.forced.empty();
}

TimelineFields timeline_fields(const Submission& submission, Instant now) {
  return {{"prompt", std::ssize(*submission.prompt)},
          {"forced", std::ssize(submission.forced)},
          {"max_tokens", std::int64_t{submission.sampling.max_tokens}},
          {"deadline_ns", (submission.deadline - now).count()}};
}

TimelineFields timeline_fields(const Placement& placement, KvReason why, Position stored) {
  const Basis& basis = placement.basis;
  return {{"class", std::int64_t{placement.length_class}},
          {"work_ns", placement.work.count()},
          {"blocks", placement.blocks},
          {"prompt", placement.span.prompt},
          {"mode", std::string(basis.mode == BasisMode::kExact ? "exact" : "bounded")},
          {"hit", basis.hit},
          {"cached", placement.cached},
          {"loaded", placement.span.reuse.hit},
          {"start", placement.span.reuse.start},
          {"tail", std::int64_t{placement.tail.has_value()}},
          {"replay_floor", basis.replay_floor},
          {"tail_start", basis.tail_start},
          {"stored", stored},
          {"kv_reason", std::string(to_string(why))}};
}

TimelineFields size_fields(const Submission& submission, const PlacementLimits& limits, Code code) {
  if (code != Code::kTooLarge) {
    return {};
  }
  const auto prompt = static_cast<Position>(submission.prompt->size());
  const std::int64_t answer =
      answer_ceiling(prompt, submission.sampling.max_tokens, limits.context);
  return {{"why", std::string("cannot_fit")},
          {"context", limits.context},
          {"blocks", worst_case_blocks(prompt, std::max<std::int64_t>(answer, 1))},
          {"blocks_most", limits.blocks}};
}

}  // namespace shoal
