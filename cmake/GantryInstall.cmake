# SPDX-License-Identifier: MIT
# What `cmake --install` puts where, and the Debian packages.  There is one for each component: gantry_runtime (libgantry0.2 for 0.2),
# gantry_emu (gantry-emu), gantry_dev (libgantry-dev), gantry_tools (gantry-tools) and gantry_doc (gantry-doc).
include(CMakePackageConfigHelpers)
# When the sources are from: what is dated has this time, so that a commit makes the same files whenever it is built.
set(gantry_epoch "$ENV{SOURCE_DATE_EPOCH}")
if(gantry_epoch STREQUAL "")
  execute_process(COMMAND git log -1 --format=%ct WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE gantry_epoch
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(asked_epoch "$ENV{SOURCE_DATE_EPOCH}")
set(ENV{SOURCE_DATE_EPOCH} "${gantry_epoch}")
string(TIMESTAMP gantry_date "%Y-%m-%dT%H:%M:%SZ" UTC)
set(ENV{SOURCE_DATE_EPOCH} "${asked_epoch}")
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gantry")

install(TARGETS gantry EXPORT gantry_targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT gantry_runtime NAMELINK_COMPONENT gantry_dev
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT gantry_dev)
if(TARGET gantry-thread) # nobody links it by name
  install(TARGETS gantry-thread EXPORT gantry_targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT gantry_runtime NAMELINK_SKIP)
endif()
if(TARGET gantry_command)
  install(TARGETS gantry_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT gantry_tools)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/gantry" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT gantry_dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

install(EXPORT gantry_targets NAMESPACE gantry:: DESTINATION "${package_dir}" COMPONENT gantry_dev)
# What a static library needs, for those who link it.
get_property(find_used GLOBAL PROPERTY GANTRY_FIND_USED)
get_property(used GLOBAL PROPERTY GANTRY_USED)
get_property(libraries_used GLOBAL PROPERTY GANTRY_LIBRARIES_USED)
set(pc_libraries "")
if(library_type STREQUAL "STATIC")
  foreach(name IN LISTS used)
    string(APPEND find_used "if(NOT ${name}_FOUND)\n  set(gantry_FOUND FALSE)\n"
      "  set(gantry_NOT_FOUND_MESSAGE \"the static libgantry.a needs ${name}, which is not found\")\n  return()\nendif()\n")
  endforeach()
  set(find_used "find_package(Threads REQUIRED)\ninclude(\"\${CMAKE_CURRENT_LIST_DIR}/GantryFind.cmake\")\n${find_used}")
  list(TRANSFORM libraries_used PREPEND " -l" OUTPUT_VARIABLE pc_libraries)
  list(JOIN pc_libraries "" pc_libraries)
  set(pc_libraries " -Wl,-lc${pc_libraries} -lm -pthread -ldl") # libc first, see heap/CMakeLists.txt
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/GantryFind.cmake" DESTINATION "${package_dir}" COMPONENT gantry_dev)
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/gantry-config.cmake.in"
  "${PROJECT_BINARY_DIR}/install/gantry-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/install/gantry-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/install/gantry-config.cmake"
  "${PROJECT_BINARY_DIR}/install/gantry-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/GantryKernels.cmake" DESTINATION "${package_dir}" COMPONENT gantry_dev)

# The prefix is found from the .pc file's own place, so that the tree may be moved.
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/gantry.pc.in" "${PROJECT_BINARY_DIR}/install/gantry.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/install/gantry.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT gantry_dev)
# Documents and the samples' sources.
file(RELATIVE_PATH headers_from_documents "/${CMAKE_INSTALL_DOCDIR}" "/${CMAKE_INSTALL_INCLUDEDIR}")
install(CODE "set(GANTRY_SOURCES \"${PROJECT_SOURCE_DIR}\")
  set(GANTRY_HEADERS \"${headers_from_documents}\")
  set(GANTRY_SCRATCH \"${PROJECT_BINARY_DIR}/install/documents\")
  set(GANTRY_DOCUMENTS \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")" COMPONENT gantry_doc)
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/InstallDocuments.cmake" COMPONENT gantry_doc)
# What the target docs has made, if it was built.
install(DIRECTORY "${PROJECT_BINARY_DIR}/site/html" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT gantry_doc OPTIONAL)
install(DIRECTORY "${PROJECT_BINARY_DIR}/site/man3" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT gantry_doc OPTIONAL)
include(Sbom)

if(NOT PROJECT_IS_TOP_LEVEL) # what is packed is the other project then
  return()
endif()
# `cpack -G DEB` in the build folder; needs the packages dpkg-dev and file to find what to depend on.
set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/CheckPackaging.cmake")
set(CPACK_PACKAGE_NAME gantry)
set(CPACK_PACKAGE_VENDOR "The Gantry maintainers")
if(NOT CPACK_PACKAGE_CONTACT) # name <address> of who makes the packages, for those who pass them on
  set(CPACK_PACKAGE_CONTACT "The Gantry maintainers <maintainers@gantry.invalid>")
endif()
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE) # each component is a package
set(CPACK_COMPONENTS_ALL gantry_dev gantry_doc gantry_emu)
if(library_type STREQUAL "SHARED")
  list(PREPEND CPACK_COMPONENTS_ALL gantry_runtime)
endif()
if(TARGET gantry_command)
  list(APPEND CPACK_COMPONENTS_ALL gantry_tools)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(full_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# gantry_package(<component> <package> <section> <summary> <description> [DEPENDS ...] [SUGGESTS ...])
macro(gantry_package component package section summary description)
  cmake_parse_arguments(arg "" "" "DEPENDS;SUGGESTS" ${ARGN})
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${package}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION "${section}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  list(JOIN arg_DEPENDS ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS)
  list(JOIN arg_SUGGESTS ", " CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS)
endmacro()
set(about "Gantry turns graphs of CPU and GPU tasks into well-packed work for a CUDA
device, with a heap of device and page-locked memory, partitions of the
device, and recordings of what ran when.
.
")
set(runtime "libgantry${gantry_soversion}")
gantry_package(gantry_runtime "${runtime}" libs "task graphs of CPU and GPU work on a CUDA device"
  "${about}This package has the library." DEPENDS "gantry-emu (= ${full_version})" SUGGESTS gantry-tools)
gantry_package(gantry_emu gantry-emu libs "emulated CUDA driver, for machines without a device"
  "A CUDA driver in software: streams, events, graphs, several devices and memory
of their own, with faults that are played on request.  Gantry turns to it where
there is no device, and programs for CUDA's driver are tested on it by
LD_LIBRARY_PATH.  It runs kernels that were compiled for the host.
.
This package has the library, and the header of its control interface." SUGGESTS gantry-doc)
gantry_package(gantry_dev libgantry-dev libdevel "task graphs of CPU and GPU work - development files"
  "${about}This package has what programs are built with: headers, and files for CMake
and pkg-config." DEPENDS "${runtime} (= ${full_version})" SUGGESTS clang cmake gantry-doc)
gantry_package(gantry_tools gantry-tools utils "task graphs of CPU and GPU work - command"
  "${about}This package has the command gantry, which shows devices, reads recordings,
runs samples and measures." DEPENDS "${runtime} (= ${full_version})" SUGGESTS gantry-doc)
gantry_package(gantry_doc gantry-doc doc "task graphs of CPU and GPU work - documents"
  "${about}This package has the documents, and the sources of the samples.")
set(CPACK_DEBIAN_GANTRY_DOC_PACKAGE_ARCHITECTURE all)
# What a debugger needs is taken out of these into packages of its own, gantry-emu-dbgsym and so on (.ddeb).
foreach(component RUNTIME EMU TOOLS)
  set(CPACK_DEBIAN_GANTRY_${component}_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_GANTRY_${component}_DEBUGINFO_PACKAGE ON)
endforeach()
# Packages of programs depend on this very version.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
file(WRITE "${PROJECT_BINARY_DIR}/install/triggers" "activate-noawait ldconfig\n")
foreach(component RUNTIME EMU TOOLS)
  set(CPACK_DEBIAN_GANTRY_${component}_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/install/triggers")
endforeach()

# For cmake/DebianFiles.cmake.
set(CPACK_GANTRY_PACKAGES "gantry_runtime=${runtime};gantry_emu=gantry-emu;gantry_dev=libgantry-dev;gantry_tools=gantry-tools;gantry_doc=gantry-doc")
set(CPACK_GANTRY_EPOCH "${gantry_epoch}")
set(CPACK_GANTRY_SOURCES "${PROJECT_SOURCE_DIR}")
set(CPACK_GANTRY_FULL_VERSION "${full_version}")
set(CPACK_GANTRY_BINDIR "${CMAKE_INSTALL_BINDIR}")
set(CPACK_GANTRY_DOCDIR "${CMAKE_INSTALL_DOCDIR}")
set(CPACK_GANTRY_MANDIR "${CMAKE_INSTALL_MANDIR}")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/DebianFiles.cmake")
set(CPACK_POST_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/DebianDebug.cmake")
include(CPack)
