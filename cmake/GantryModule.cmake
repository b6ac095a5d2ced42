# SPDX-License-Identifier: MIT
# gantry_module(): the sources and tests of a room, built into both libraries.
include(GantryFind)

# Warnings and definitions that every target of ours is built with.
add_library(gantry_flags INTERFACE)
target_compile_features(gantry_flags INTERFACE c_std_11)
target_compile_definitions(gantry_flags INTERFACE _GNU_SOURCE)
target_compile_options(gantry_flags INTERFACE
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/="
  $<$<CONFIG:Release,RelWithDebInfo>:-ffile-prefix-map=${PROJECT_BINARY_DIR}=.> $<$<CONFIG:Debug>:-fno-omit-frame-pointer>
  -Wall -Wextra -Wpedantic -Wshadow -Wundef
  $<$<COMPILE_LANGUAGE:C>:-Wconversion> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wthread-safety>
  $<$<BOOL:${GANTRY_WERROR}>:-Werror>)
target_include_directories(gantry_flags INTERFACE "${PROJECT_SOURCE_DIR}")

# The library is built twice from the same sources:
#   gantry          what is shipped: hidden visibility, exact export list
#   gantry_testing  nothing hidden, asserts on, host resources can be made to fail
# BUILD_SHARED_LIBS=OFF makes the first a static one.
set(library_type SHARED)
if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
  set(library_type STATIC)
endif()
add_library(gantry ${library_type})
add_library(gantry::gantry ALIAS gantry)
add_library(gantry_testing STATIC EXCLUDE_FROM_ALL)
foreach(library gantry gantry_testing)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:gantry_flags> Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
set_target_properties(gantry PROPERTIES C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
# A program runs with the libraries of one SONAME: before 1.0 a minor version may break programs.
set(gantry_soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(gantry_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()
if(library_type STREQUAL "SHARED")
  set(export_map "${PROJECT_SOURCE_DIR}/cmake/gantry.map")
  # nodelete: the memory that a thread keeps for itself is given back when it ends, by code that dlclose() must not unmap.
  target_link_options(gantry PRIVATE "LINKER:--version-script=${export_map}" LINKER:-z,nodelete)
  set_target_properties(gantry PROPERTIES LINK_DEPENDS "${export_map}"
    VERSION ${PROJECT_VERSION} SOVERSION ${gantry_soversion})
else() # the emulated driver is a library of its own, which a program with this one in it looks for on its path
  target_link_options(gantry INTERFACE "$<BUILD_INTERFACE:LINKER:-rpath,${PROJECT_BINARY_DIR}>"
    "$<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>")
endif()
# Not in an archive, which other compilers are to read.
if(GANTRY_LTO AND NOT GANTRY_BUILD_FUZZERS AND library_type STREQUAL "SHARED")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT has_lto OUTPUT lto_output LANGUAGES C)
  if(has_lto)
    set_target_properties(gantry PROPERTIES
      INTERPROCEDURAL_OPTIMIZATION_RELEASE ON INTERPROCEDURAL_OPTIMIZATION_RELWITHDEBINFO ON)
    # The link compiles, too, in the build folder, whose name must not be in what is shipped.
    target_link_options(gantry PRIVATE
      $<$<CONFIG:Release,RelWithDebInfo>:-ffile-prefix-map=${PROJECT_BINARY_DIR}=.>)
  else()
    message(STATUS "No link-time optimisation: ${lto_output}")
  endif()
endif()
target_compile_definitions(gantry_testing PUBLIC GANTRY_TESTING=1)
target_compile_options(gantry_testing PRIVATE -UNDEBUG)
target_include_directories(gantry_testing PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(gantry_testing PUBLIC Threads::Threads ${CMAKE_DL_LIBS})

# gantry_uses(<name> <header> <library>): link both with gantry_dependency_<name> (cmake/GantryFind.cmake).  Who
# links the static one needs it, too: GantryInstall.cmake tells them.
function(gantry_uses name header library)
  target_link_libraries(gantry_testing PRIVATE gantry_dependency_${name})
  if(library_type STREQUAL "STATIC")
    target_link_libraries(gantry PRIVATE gantry_dependency_${name})
    set_property(GLOBAL APPEND_STRING PROPERTY GANTRY_FIND_USED "gantry_find_library(${name} ${header} ${library})\n")
    set_property(GLOBAL APPEND PROPERTY GANTRY_USED ${name})
    set_property(GLOBAL APPEND PROPERTY GANTRY_LIBRARIES_USED ${library})
  else()
    target_link_libraries(gantry PRIVATE $<BUILD_INTERFACE:gantry_dependency_${name}>)
  endif()
endfunction()

if(GANTRY_BUILD_TESTS)
  gantry_find_library(cmocka cmocka.h cmocka)
  if(NOT cmocka_FOUND)
    message(FATAL_ERROR "CMocka not found: install libcmocka-dev, or configure with -DGANTRY_BUILD_TESTS=OFF")
  endif()
endif()

# What many tests are made with is compiled once: these of the sources in the variable `name` become objects.
function(gantry_test_shared name)
  set(shared support/gpu_fixture.c heap/fake_driver.c heap/heap_scene.c
    heap/untouchable.c emulator/emu_test.c)
  set(sources)
  foreach(source IN LISTS ${name})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE path)
    if(path IN_LIST shared)
      string(MAKE_C_IDENTIFIER "gantry_test_${path}" object)
      if(NOT TARGET ${object})
        add_library(${object} OBJECT EXCLUDE_FROM_ALL "${source}")
        target_link_libraries(${object} PRIVATE gantry_testing gantry_flags gantry_dependency_cmocka)
        target_compile_options(${object} PRIVATE -UNDEBUG)
      endif()
      set(source $<TARGET_OBJECTS:${object}>)
    endif()
    list(APPEND sources "${source}")
  endforeach()
  set(${name} "${sources}" PARENT_SCOPE)
endfunction()

# gantry_test(<room> <name> [SOURCES extra.c ...] [LIBRARIES ...] [LABELS ...])
# tests/<room>/test_<name>.c against gantry_testing; test <room>.<name>, label <room>.  Exit 77 after a line
# "skipped: why" on stderr is a skip, or a failure with GANTRY_FAIL_ON_SKIP (but for gantry_test_may_skip()).
# $GANTRY_TEST_DRIVER ("cuda") chooses the driver of tests that can use a real device; they use the emulated one when it is not set.
# Label no_threads: it starts none, which is checked, and the thread sanitizer has nothing to say about it.
function(gantry_test room name)
  if(NOT GANTRY_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBRARIES;LABELS")
  set(target "test_${room}_${name}")
  if(NOT TARGET gantry_test_deadline) # objects: what it defines comes before CMocka's own
    add_library(gantry_test_deadline OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/deadline.c")
    target_link_libraries(gantry_test_deadline PRIVATE gantry_testing gantry_flags)
  endif()
  gantry_test_shared(arg_SOURCES)
  add_executable(${target} "${PROJECT_SOURCE_DIR}/tests/${room}/test_${name}.c" ${arg_SOURCES}
    $<TARGET_OBJECTS:gantry_test_deadline>)
  if("no_threads" IN_LIST arg_LABELS)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/no_threads.c")
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${target} PRIVATE gantry_testing gantry_flags gantry_dependency_cmocka ${arg_LIBRARIES})
  target_compile_options(${target} PRIVATE -UNDEBUG)
  if(TARGET gantry-emu)
    add_dependencies(${target} gantry-emu)
  endif()
  if(NOT TARGET tests_${room})
    add_custom_target(tests_${room}) # to build one room's tests alone
  endif()
  add_dependencies(tests_${room} ${target})
  add_test(NAME ${room}.${name} COMMAND ${target} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  gantry_test_properties(${room}.${name} "${room};${arg_LABELS}")
  set_tests_properties(${room}.${name} PROPERTIES
    ENVIRONMENT "GANTRY_EMULATOR=${PROJECT_BINARY_DIR}/libgantry-emu.so")
endfunction()

# What every test has, also those that are not C programs of gantry_test().
function(gantry_test_properties name labels)
  # A test that hangs says for what it waits, before it is killed (tests/support/deadline.h).
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600
    ENVIRONMENT_MODIFICATION "GANTRY_TEST_DEADLINE=set:400")
  if(NOT GANTRY_FAIL_ON_SKIP)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# What takes hours, label `exhaustive`: ./check.sh --exhaustive.
function(gantry_exhaustive_properties name)
  set_tests_properties(${name} PROPERTIES LABELS "campaign;exhaustive" TIMEOUT 14400 RUN_SERIAL ON
    ENVIRONMENT_MODIFICATION "GANTRY_TEST_DEADLINE=unset:"
    ENVIRONMENT "GANTRY_EMULATOR=${PROJECT_BINARY_DIR}/libgantry-emu.so")
endfunction()

# Tests that need what no installation brings: the emulated driver, a newer CUDA, another device, or the files of
# Perfetto's page.  A skip of theirs is one also with GANTRY_FAIL_ON_SKIP.
function(gantry_test_may_skip)
  set_tests_properties(${ARGV} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# gantry_module(<room> SOURCES a.c ... [TESTS name ...]): add a room's sources to both libraries and its
# tests tests/<room>/test_<name>.c.
function(gantry_module room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;TESTS")
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(gantry PRIVATE ${arg_SOURCES})
  target_sources(gantry_testing PRIVATE ${arg_SOURCES})
  foreach(test IN LISTS arg_TESTS)
    gantry_test(${room} ${test})
  endforeach()
endfunction()
