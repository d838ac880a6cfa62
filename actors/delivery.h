// What came over a link, to the part of this node that it is for.
#pragma once

#include "actors/interfaces.h"
#include "schemas/result.h"
#include "schemas/wire.pb.h"

namespace shoal {

// Who is here to be sent something.
struct Recipients {
  const SupervisorActor& supervisor;
  const Wiring& wiring;
};

// Control may pass before the session is open; anything else is work of an open one.
bool is_control(const wire::Envelope& envelope);

// False: nobody here takes such a kind. An error: it is damaged.
Result<bool> deliver(const wire::Envelope& envelope, const Recipients& recipients, Instant now);

}  // namespace shoal
