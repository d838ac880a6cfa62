// What owns experts: slots that hold one each, and batches of rows run on them. Which expert a slot
// holds belongs to a placement with an epoch; batches say which one they mean.
//
// Threads: load, move and publish by one thread at a time, beside run; run by one thread at a time
// per engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/formats.h"
#include "schemas/ids.h"
#include "schemas/result.h"
#include "schemas/units.h"

namespace shoal::kernels {

// Routed experts of each layer, the DSpark stages behind the backbone's layers.
struct ExpertModel {
  std::vector<std::int32_t> experts;
  std::int64_t dim = 0;

  int layers() const { return static_cast<int>(experts.size()); }
};

struct ExpertSlot {
  int layer = 0;
  std::int32_t slot = 0;  // of the shard, from 0 in each layer
};

struct ExpertEngineLimits {
  std::int32_t slots = 0;  // of each layer
  Bytes weights{0};        // of all experts held
};

// Rows of one layer, each for some slots. Everything outlives the call of run.
struct ExpertJob {
  EpochId epoch;
  int layer = 0;
  std::int64_t dim = 0;
  std::int64_t pairs = 0;
  const std::int32_t* row = nullptr;     // [pairs]
  const std::int32_t* slot = nullptr;    // [pairs]
  const float* weight = nullptr;         // [pairs], applied before w2
  const std::uint8_t* codes = nullptr;   // [rows][dim]
  const std::uint8_t* scales = nullptr;  // [rows][dim/32]
  Bf16* outputs = nullptr;               // [pairs][dim]
  Result<void> outcome{};  // kPeerLost: not of a placement that is served, or a slot is empty
};

struct ExpertEngineUse {
  std::int64_t experts = 0;  // held, each counted once
  Bytes weights{0};          // of them, as stored
};

class ExpertEngine {
 public:
  virtual ~ExpertEngine() = default;

  virtual const ExpertModel& model() const = 0;

  // For the next placement. An expert that is held already, in whatever slot, is not read again.
  // kNoCapacity: a ceiling.
  virtual Result<void> load(ExpertSlot slot, std::int32_t expert) = 0;
  // Likewise; `from` is empty then. Reads nothing.
  virtual Result<void> move(int layer, std::int32_t from, std::int32_t to) = 0;
  virtual void clear(ExpertSlot slot) = 0;
  // What was loaded is the placement `epoch` from here on, later than any before. The placement
  // before is served beside it, for steps on the way; what only older ones held is let go.
  virtual void publish(EpochId epoch) = 0;
  // No placement before the last one is served any more. From any thread.
  virtual void retire() = 0;

  // Each expert runs once over the rows of all jobs. A row's outputs depend on it and its expert
  // alone.
  virtual void run(std::span<ExpertJob> jobs) = 0;

  virtual ExpertEngineUse use() const = 0;
};

}  // namespace shoal::kernels
