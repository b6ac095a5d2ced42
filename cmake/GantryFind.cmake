# SPDX-License-Identifier: MIT
# How libraries that Gantry may use are found.
#
# gantry_find_library(<name> <header> <library>): an imported target gantry_dependency_<name>, from the system
# or from the prefixes in CMAKE_PREFIX_PATH (which pkg-config files of unpacked packages would point away
# from); <name>_FOUND says whether both parts are there.
function(gantry_find_library name header library)
  find_path(${name}_INCLUDE_DIR "${header}")
  find_library(${name}_LIBRARY "${library}")
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(${name}_INCLUDE_DIR AND ${name}_LIBRARY)
    set(${name}_FOUND TRUE PARENT_SCOPE)
    if(NOT TARGET gantry_dependency_${name})
      add_library(gantry_dependency_${name} UNKNOWN IMPORTED GLOBAL)
      set_target_properties(gantry_dependency_${name} PROPERTIES
        IMPORTED_LOCATION "${${name}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
    endif()
  else()
    set(${name}_FOUND FALSE PARENT_SCOPE)
  endif()
endfunction()
