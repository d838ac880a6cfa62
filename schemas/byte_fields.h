// Values at fixed places of a byte layout, as this machine has them: little-endian. Both sides
// check the bounds before.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace shoal {

template <class T>
void put_field(std::span<std::byte> out, std::size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <class T>
T get_field(std::span<const std::byte> in, std::size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

}  // namespace shoal
