# SPDX-License-Identifier: MIT
# Samples and benches are static libraries that the command `gantry` is linked from.  (Not object libraries:
# those drop the objects that gantry_add_kernels() adds.)

# gantry_sample(<name> SOURCES a.c ... [LIBRARIES ...]): target gantry_sample_<name>, to be run as
# `gantry run <name>`.  One source defines `const struct gantry_sample gantry_sample_<name>` (cli/samples.h).
function(gantry_sample name)
  gantry_command_part(sample ${name} ${ARGN})
endfunction()

# gantry_bench(<name> SOURCES a.c ... [LIBRARIES ...]): target gantry_bench_<name>, to be run as
# `gantry bench <name>`.  One source defines `const struct gantry_bench gantry_bench_<name>` (bench/harness.h).
function(gantry_bench name)
  gantry_command_part(bench ${name} ${ARGN})
endfunction()

function(gantry_command_part kind name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES")
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "a ${kind}'s name is a C identifier in lower case, not \"${name}\"")
  endif()
  set(target gantry_${kind}_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE gantry gantry_flags Threads::Threads ${arg_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY GANTRY_COMMAND_${kind} ${name})
  set_property(GLOBAL APPEND PROPERTY GANTRY_COMMAND_LIBRARIES ${target})
endfunction()

# Write one line X(name) per registered part of a kind, for the command's tables.
function(gantry_command_list kind file)
  get_property(names GLOBAL PROPERTY GANTRY_COMMAND_${kind})
  list(SORT names)
  list(TRANSFORM names REPLACE "^(.+)$" "X(\\1)\n")
  string(CONCAT text ${names})
  file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
endfunction()
