// Placements and hand-overs, to and from Protobuf. For actors/wire_messages.cpp only.
#pragma once

#include "actors/interfaces.h"
#include "schemas/result.h"
#include "schemas/units.h"
#include "schemas/wire.pb.h"

namespace shoal::wire_codec {

void put(const AttemptKey& key, wire::AttemptKey& out);
AttemptKey get(const wire::AttemptKey& in);
// Of its blocks' names only what the other side cannot make from the tokens.
void put(const Placement& placement, Instant now, bool with_prompt, wire::Placement& out);
Result<PlacementPtr> get(const wire::Placement& in, Instant now);
void put(const KvShortened& message, wire::KvShortened& out);
Result<KvShortened> get(const wire::KvShortened& in);
// Without its placement.
void put(const Handover& handover, wire::Handover& out);
Result<Handover> get(const wire::Handover& in, PlacementPtr placement);

}  // namespace shoal::wire_codec
