// `shoal codec parse`: one answer of a model, as it was delivered, to the events a client gets.
#pragma once

#include <string>

#include "tools/codec_lines.h"

namespace shoal::tools {

// Appends ,"steps":[…],"final":{…}. A step is the list of events of one moment: ready, each chunk,
// finish, end of input; null when the answer had ended before.
Result<void> answer_parse(const JsonValue& line, const Codec& codec, std::string& out);

}  // namespace shoal::tools
