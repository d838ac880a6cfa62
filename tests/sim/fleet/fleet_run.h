// A run of a fleet: its parts and the events between them. Ways of requests are in
// fleet_requests.cpp, machines in fleet_machines.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/policy/draw.h"
#include "actors/policy/request_machine.h"
#include "tests/sim/fleet/event_queue.h"
#include "tests/sim/fleet/fleet_arrivals.h"
#include "tests/sim/fleet/fleet_decode.h"
#include "tests/sim/fleet/fleet_links.h"
#include "tests/sim/fleet/fleet_prefill.h"
#include "tests/sim/fleet/fleet_scale.h"
#include "tests/sim/fleet/fleet_store.h"
#include "tests/sim/fleet/fleet_tally.h"
#include "tests/sim/fleet/fleet_vision.h"

namespace shoal::sim {

// Of a request.
inline constexpr Nanos kFleetDeadline = std::chrono::hours(1);
inline constexpr std::uint32_t kFleetAttempts = 8;

class FleetRun {
 public:
  FleetRun(const fleet::Fleet& fleet, const FleetLoad& load, std::uint64_t seed);

  FleetFigures run(const std::function<void(Nanos)>& progress);

 private:
  enum class Kind : std::uint8_t {
    kArrival,
    kPlaced,   // a request has reached its instance
    kLoaded,   // its KV has
    kStepEnd,  // of a prefill instance
    kHandedOver,
    kDecodeEnd,
    kPrefillFails,
    kPrefillNoticed,
    kPrefillUp,
    kDecodeFails,
    kDecodeNoticed,
    kDecodeRegrouped,
    kDecodeUp,
    kMinute,
    kEncoded,  // an image, by its encoder
    kVisionFails,
    kVisionNoticed,
    kVisionUp,
    kPrefillOpens,
    kDecodeOpens,
  };
  static constexpr std::uint64_t kKinds = 32;

  struct Request {
    const FleetRequest* what = nullptr;
    std::uint64_t copy = 0;
    Nanos arrived{0};
    Nanos first_token{-1};
    std::int64_t given = 0;  // tokens of the answer
    std::uint32_t attempt = 1;
    RequestState state = RequestState::kReceived;
    std::size_t instance = 0;
    std::size_t group = 0;
    Position hit = 0;  // of this attempt, to be loaded
  };

  void handle(Kind kind, std::uint64_t subject, std::uint64_t version);
  void handle_machine(Kind kind, std::uint64_t subject, std::uint64_t version);

  void schedule_arrival();
  void remember(const FleetArrival& arrival);
  void arrive();
  void advance(std::uint64_t id, RequestEvent event);
  void finish(std::uint64_t id, RequestState state);
  bool is_current(std::uint64_t id, std::uint64_t attempt) const;
  Nanos hop() const;

  bool waits_for_images(std::uint64_t id);
  void start_vision();
  void encoded(std::size_t encoder, std::uint64_t version);

  FleetPrefillJob job_of(std::uint64_t id);
  Position find_hit(Request& request);
  static std::int64_t rows_behind(const FleetRequest& what, Position hit);
  FleetPrefillJob job_behind(std::uint64_t id, Position hit, std::int64_t rows);
  void place_prefill(std::uint64_t id);
  void reach(std::uint64_t id, std::uint64_t attempt);
  void compute_instead(std::uint64_t id);
  void loaded(std::uint64_t id, std::uint64_t attempt);
  void start_prefill(std::size_t instance);
  void report(std::size_t instance, Nanos now);
  void prefill_ended(std::size_t instance, std::uint64_t version);
  void give_first_token(std::uint64_t id);

  std::size_t ranks_of_group() const;
  std::size_t group_of(std::uint64_t rank) const;
  std::size_t rank_of(std::uint64_t rank) const;
  void place_decode(std::uint64_t id);
  void place_waiting();
  bool place_one(std::uint64_t id);
  Nanos decode_work(Position tokens, std::int64_t left) const;
  void handed_over(std::uint64_t id, std::uint64_t attempt);
  void start_decode(std::size_t group);
  void decode_ended(std::size_t group, std::uint64_t version);

  void plan_faults();
  Nanos next_failure(int gpus);
  Nanos detected() const;
  Nanos repaired() const;
  void prefill_fails(std::size_t instance);
  void prefill_noticed(std::size_t instance);
  void prefill_up(std::size_t instance);
  void decode_fails(std::size_t group);
  void decode_noticed(std::uint64_t subject);
  void vision_fails(std::size_t encoder);
  void end_minute();
  void scale();
  void close_empty();
  void open_prefill(std::size_t instance, bool is_open);
  void open_decode(std::size_t group, bool is_open);
  FleetMinute minute_state() const;

  fleet::Fleet options_;
  FleetLoad load_;
  CostModel cost_;
  CostModel decode_cost_;
  PrefillChooser chooser_;
  FleetLinks links_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  Draw faults_;
  std::vector<FleetPrefill> prefill_;
  std::vector<FleetDecode> decode_;
  std::optional<FleetStore> store_;    // none: it forgets nothing
  std::optional<FleetVision> vision_;  // none: images count as text
  FleetScale scale_;
  FleetArrivals arrivals_;
  EventQueue<Kind> queue_;
  FleetTally tally_;
  std::unordered_map<std::uint64_t, Request> live_;
  std::deque<std::pair<std::uint64_t, std::uint32_t>> waiting_;  // for a place in decode
  std::vector<std::uint64_t> homeless_;                          // for an instance that is up
  std::vector<DecodeRank> ranks_;
  FleetArrival coming_;
  std::uint64_t next_ = 0;
  bool arriving_ = true;
  Nanos now_{0};
};

}  // namespace shoal::sim
