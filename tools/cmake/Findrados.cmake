# Finds librados, which ships no CMake package: rados::rados.
find_path(rados_INCLUDE_DIR rados/librados.h)
find_library(rados_LIBRARY rados)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(rados REQUIRED_VARS rados_LIBRARY rados_INCLUDE_DIR)
if(rados_FOUND AND NOT TARGET rados::rados)
  add_library(rados::rados UNKNOWN IMPORTED)
  set_target_properties(rados::rados PROPERTIES
    IMPORTED_LOCATION "${rados_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${rados_INCLUDE_DIR}")
endif()
mark_as_advanced(rados_INCLUDE_DIR rados_LIBRARY)
