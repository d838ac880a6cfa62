// A mistake that the simulator must find: what it breaks, under which scenario, and which
// invariants may tell.
//
// To add one, write a file with one object of a class of its own. It may change messages and ports
// (Tamper), or stand in for a function of the product: those that can be replaced are in
// stand_ins.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/interfaces.h"
#include "actors/policy/decode_balancer.h"
#include "actors/policy/health.h"
#include "actors/stream.h"
#include "tests/sim/tamper.h"
#include "transport/file_store/segment_reader.h"

namespace shoal::sim {

class Defect {
 public:
  struct Plan {
    const char* name;
    const char* story;                 // the mistake in one line
    std::string scenario;              // text of a scenario file
    std::vector<std::string> told_by;  // invariants
  };

  explicit Defect(Plan plan);
  virtual ~Defect() = default;
  Defect(const Defect&) = delete;
  Defect& operator=(const Defect&) = delete;

  const Plan& plan() const { return plan_; }

  // Before each run.
  virtual void begin() {}

  virtual Tamper tamper() { return {}; }

  // In place of functions of the product; nothing: the real one is called.
  virtual std::optional<StreamStep> on_time(Stream&, Instant) { return {}; }

  // May change the run that the real function gets.
  virtual void on_tokens(Stream&, TokenRun&) {}

  virtual std::optional<Health> health_of(const PartPulse&) { return {}; }

  // Takes whatever KV image came for the one that was asked for.
  virtual bool trusts_kv_images() { return false; }

  virtual bool loses_blocks() { return false; }

  // A shard of experts says that it loaded a placement, and has what it had.
  virtual bool loads_nothing() { return false; }

  virtual const Member* find_member(NodeId, const Member* found) { return found; }

  // Takes a stored record that does not verify for the block that was asked for.
  virtual bool trusts_records() { return false; }

  // Takes an index page for a segment's whatever its checksum.
  virtual bool trusts_index_pages() { return false; }

  // Takes whatever tail came for the one that was asked for.
  virtual bool trusts_tails() { return false; }

  // What was read of a segment.
  virtual void on_segment(transport::SegmentNews&) {}

  virtual std::optional<DecodeChoice> pick_least(std::span<const DecodeRank>,
                                                 const DecodeNeed&,
                                                 std::int64_t /*max_batch*/) {
    return {};
  }

 private:
  Plan plan_;
};

// One that changes messages between nodes.
class LinkDefect : public Defect {
 public:
  using Defect::Defect;

  Tamper tamper() final;

 private:
  // What goes on the way in the place of a message, in order.
  virtual std::vector<std::string> instead(NodeId from, NodeId to, std::string bytes) = 0;
};

// One that takes what lies on the disk of KV blocks for what was asked for. Its nodes: 0 asks, 1
// and 2 prefill, 3 decodes.
class StoreDefect : public Defect {
 public:
  struct Mistake {
    const char* name;
    const char* story;
    std::string scenario;  // but for the nodes and the store
  };

  explicit StoreDefect(const Mistake& mistake);
};

// In the order of their names.
std::vector<Defect*> all_defects();

// The one that is at work now; null: none.
Defect*& defect_at_work();

}  // namespace shoal::sim
