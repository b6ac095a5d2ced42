# SPDX-License-Identifier: MIT
# Which jemalloc the shared library has in it.  GANTRY_JEMALLOC is SOURCE (built by tools/build_jemalloc.sh, so that the
# library can be opened at run time), INSTALLED (libjemalloc-dev), or AUTO: SOURCE where it can be had.
set(GANTRY_JEMALLOC AUTO CACHE STRING "The shared library's jemalloc: SOURCE (loaded and built), INSTALLED, or AUTO")
set_property(CACHE GANTRY_JEMALLOC PROPERTY STRINGS AUTO SOURCE INSTALLED)
set(GANTRY_JEMALLOC_SOURCE "" CACHE FILEPATH "jemalloc-5.3.0.tar.bz2; empty: it is loaded")
if(PROJECT_IS_TOP_LEVEL) # all builds of these sources share one
  set(gantry_jemalloc_default "${PROJECT_SOURCE_DIR}/build/jemalloc")
else()
  set(gantry_jemalloc_default "${PROJECT_BINARY_DIR}/jemalloc")
endif()
set(GANTRY_JEMALLOC_DIR "${gantry_jemalloc_default}" CACHE PATH "Where jemalloc is built from its source")
mark_as_advanced(GANTRY_JEMALLOC_SOURCE GANTRY_JEMALLOC_DIR)

# gantry_build_jemalloc(<out>): TRUE when $GANTRY_JEMALLOC_DIR has one that was built from source, maybe just now.
function(gantry_build_jemalloc out)
  set(${out} FALSE PARENT_SCOPE)
  # Not with the thread sanitizer, which knows by its file whose locks these are (called_from_lib).
  if(GANTRY_JEMALLOC STREQUAL "INSTALLED" OR NOT library_type STREQUAL "SHARED" OR NOT CMAKE_OBJCOPY OR
     CMAKE_CROSSCOMPILING OR CMAKE_C_FLAGS MATCHES "sanitize=thread")
    return()
  endif()
  if(NOT EXISTS "${GANTRY_JEMALLOC_DIR}/lib/libjemalloc_pic.a")
    message(STATUS "Building jemalloc in ${GANTRY_JEMALLOC_DIR} (half a minute)")
  endif()
  execute_process(COMMAND "${PROJECT_SOURCE_DIR}/tools/build_jemalloc.sh" "${GANTRY_JEMALLOC_DIR}" ${GANTRY_JEMALLOC_SOURCE}
    RESULT_VARIABLE failed ERROR_VARIABLE why ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(${out} TRUE PARENT_SCOPE)
  elseif(GANTRY_JEMALLOC STREQUAL "SOURCE")
    message(FATAL_ERROR "jemalloc was not built from its source: ${why}")
  else()
    message(STATUS "jemalloc was not built from its source (${why}): the installed one is taken, and programs that open "
      "libgantry.so at run time need GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192")
  endif()
endfunction()
