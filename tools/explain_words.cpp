// Tables of words. A server of another version may say what is not in them: its own word is shown.
#include "tools/explain_words.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace shoal::tools {

namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kFields[] = {
    {"before", "hit or cached tokens before this"},
    {"blocks", "KV blocks that prompt and longest answer may need"},
    {"blocks_most", "KV blocks that a device has"},
    {"cached", "prompt tokens whose KV is not computed again"},
    {"class", "length class by work_ns: 0 (short) to 3 (long)"},
    {"code", "whose turn it is: see schemas/result.h"},
    {"context", "most tokens of prompt and answer together"},
    {"cost_ns", "how long the answer stands still while it moves, ns"},
    {"deadline_ns", "time the request had when it came, ns"},
    {"first_token_ns", "predicted time to the first token from then on, ns"},
    {"forced", "tokens of the answer that the client already has"},
    {"gain_ns", "what the move saves of a step, ns"},
    {"handover", "which try to hand the KV from prefill to decode"},
    {"hit", "leading tokens whose KV the answer's numbers begin behind"},
    {"kv", "where the KV waits for decode"},
    {"kv_reason", "why it takes what it takes of kept KV"},
    {"left_ns", "time that was left until the deadline, ns"},
    {"loaded", "leading tokens whose blocks are read from the store"},
    {"max_tokens", "longest answer asked for; 0: what fits"},
    {"mode", "how windows behind a hit are made: bounded or exact"},
    {"open", "answers open on the node"},
    {"position", "tokens computed"},
    {"prompt", "tokens of the prompt"},
    {"queued", "requests that waited before it"},
    {"rank", "the device of that node"},
    {"reason", "what the client was told, or what went wrong"},
    {"replay_floor", "first token that encoder windows see"},
    {"retry", "1: the stream tries again by itself"},
    {"retry_after_ns", "when the client may come back, ns"},
    {"start", "first token that is run again"},
    {"step_ns", "predicted time of a decode step there, ns"},
    {"stored", "leading tokens that were found in the store"},
    {"tail", "1: goes on from the tail of a session before it"},
    {"tail_start", "first token that decoder layers see"},
    {"to_node", "the node it went to"},
    {"tokens", "of the answer"},
    {"why", "why it was refused"},
    {"work_ns", "predicted time of its prefill, ns"},
};

constexpr Words kKvReasons[] = {
    {"no_store", "nothing: the router's node keeps no KV (kv.store, kv.dir)"},
    {"store_away", "nothing: the store is away; /health says why"},
    {"store_silent", "nothing: the store did not answer a moment ago and is left alone for 5 s"},
    {"store_opening", "nothing: the store still reads what it has"},
    {"last_attempt", "nothing: the last attempt of a request relies on nothing that was kept"},
    {"no_whole_block", "nothing: blocks have 128 tokens, and the last token always runs again"},
    {"nothing_stored",
     "nothing: no block of this model and API key is stored for the first 128 tokens"},
    {"damaged", "nothing: the first block was damaged when it was read a moment ago"},
    {"bounded_only",
     "nothing: what is stored was made behind other hits (bounded), this request takes exact "
     "blocks only"},
    {"basis_gone", "nothing: the blocks that its attempts before took are gone"},
    {"window_only",
     "nothing: a hit of 128 tokens or less is a miss, they would all run again for the windows"},
    {"blocks", "blocks of the store"},
    {"tail", "the tail of a session before it, and the blocks below that"},
    {"load_failed", "the load failed"},
};

template <std::size_t N>
std::string_view look_up(const Words (&table)[N], std::string_view word) {
  for (const auto& [name, words] : table) {
    if (name == word) {
      return words;
    }
  }
  return {};
}

std::string seconds(const std::string& ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", std::strtod(ns.c_str(), nullptr) / 1e9);
  return text.data();
}

std::string too_late_words(const FieldText& field) {
  return "too late: its first token was predicted in " + seconds(field("first_token_ns")) +
         " at the latest, its time was over in " + seconds(field("left_ns")) +
         "; its prefill alone takes " + seconds(field("work_ns"));
}

std::string queue_full_words(const FieldText& field) {
  std::string words = "the queue is full: " + field("queued") + " wait before it";
  if (const std::string first_token = field("first_token_ns"); !first_token.empty()) {
    words += ", its first token was predicted in " + seconds(first_token);
  }
  return words;
}

std::string cannot_fit_words(const FieldText& field) {
  const std::string most = field("blocks_most");
  return "it cannot fit: prompt and answer may need " + field("blocks") + " KV blocks, " +
         (most.empty() ? "more than any node that is up has"
                       : "a device has " + most + "; both together may have " + field("context") +
                             " tokens");
}

}  // namespace

std::string_view meaning_of(std::string_view field) {
  return look_up(kFields, field);
}

std::string kv_words(const FieldText& field) {
  const std::string reason = field("kv_reason");
  const std::string_view known = look_up(kKvReasons, reason);
  std::string words = known.empty() ? reason : std::string(known);
  if (reason == "load_failed") {
    return words + " (" + field("code") + ": " + field("reason") + "), so " + field("cached") +
           " tokens in place of " + field("before") + " were taken";
  }
  if (const std::string stored = field("stored"); !stored.empty() && stored != "0") {
    words += "; " + stored + " leading tokens are stored, " + field("loaded") + " loaded";
  }
  return words;
}

std::string refusal_words(const FieldText& field) {
  const std::string why = field("why");
  if (why == "too_late") {
    return too_late_words(field);
  }
  if (why == "queue_full") {
    return queue_full_words(field);
  }
  if (why == "cannot_fit") {
    return cannot_fit_words(field);
  }
  return why == "node_full"
             ? "the node is full: " + field("open") + " open, its most (request.ceiling)"
             : why;
}

}  // namespace shoal::tools
