# Finds libedit where the distribution ships it without a CMake package: edit::edit.
find_path(edit_INCLUDE_DIR editline/readline.h)
find_library(edit_LIBRARY edit)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(edit REQUIRED_VARS edit_LIBRARY edit_INCLUDE_DIR)
if(edit_FOUND AND NOT TARGET edit::edit)
  add_library(edit::edit UNKNOWN IMPORTED)
  set_target_properties(edit::edit PROPERTIES
    IMPORTED_LOCATION "${edit_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${edit_INCLUDE_DIR}")
endif()
mark_as_advanced(edit_INCLUDE_DIR edit_LIBRARY)
