// The row `tcp`: one thread with epoll per endpoint, one connection per peer and direction. The
// dialer owns its requests, so a broken connection fails just them.
#pragma once

#include <memory>

#include "transport/params.h"

namespace shoal::transport {

// kMisconfigured: cannot listen there.
Result<std::unique_ptr<Transport>> open_tcp_transport(TransportParams params);

}  // namespace shoal::transport
