# What `cmake --install` puts where, and the Debian package.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gantry")

install(TARGETS gantry EXPORT gantry_targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET gantry_command)
  install(TARGETS gantry_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/gantry" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")

install(EXPORT gantry_targets NAMESPACE gantry:: DESTINATION "${package_dir}")
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
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/GantryFind.cmake" DESTINATION "${package_dir}")
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/gantry-config.cmake.in"
  "${PROJECT_BINARY_DIR}/install/gantry-config.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/install/gantry-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/install/gantry-config.cmake"
  "${PROJECT_BINARY_DIR}/install/gantry-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/GantryKernels.cmake" DESTINATION "${package_dir}")

# The prefix is found from the .pc file's own place, so that the tree may be moved.
file(RELATIVE_PATH prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/gantry.pc.in" "${PROJECT_BINARY_DIR}/install/gantry.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/install/gantry.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
# Documents and the samples' sources.
file(RELATIVE_PATH headers_from_documents "/${CMAKE_INSTALL_DOCDIR}" "/${CMAKE_INSTALL_INCLUDEDIR}")
install(CODE "set(GANTRY_SOURCES \"${PROJECT_SOURCE_DIR}\")
  set(GANTRY_HEADERS \"${headers_from_documents}\")
  set(GANTRY_SCRATCH \"${PROJECT_BINARY_DIR}/install/documents\")
  set(GANTRY_DOCUMENTS \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")")
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/InstallDocuments.cmake")

if(NOT PROJECT_IS_TOP_LEVEL) # what is packed is the other project then
  return()
endif()
# `cpack -G DEB` in the build folder; needs the packages dpkg-dev and file to find what to depend on.
set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/CheckPackaging.cmake")
set(CPACK_PACKAGE_NAME gantry)
set(CPACK_PACKAGE_VENDOR "The Gantry maintainers")
if(NOT CPACK_PACKAGE_CONTACT) # name <address> of who makes the package, for those who pass it on
  set(CPACK_PACKAGE_CONTACT "The Gantry maintainers")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Task graphs of CPU and GPU work, packed onto a CUDA device")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "A C library that turns graphs of CPU and GPU tasks into well-packed work
for a CUDA device, with a heap of device and page-locked memory, partitions
of the device and recordings of what ran when; the command gantry, an
emulated CUDA driver for machines without a device, and what programs are
built with.")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # packages of programs depend on this very version
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "clang")
set(CPACK_GANTRY_DOCDIR "${CMAKE_INSTALL_DOCDIR}")
set(CPACK_GANTRY_MANDIR "${CMAKE_INSTALL_MANDIR}")
if(TARGET gantry_sample_image_pipeline)
  set(CPACK_GANTRY_PHOTO_SOURCES "${PROJECT_SOURCE_DIR}/samples/image_pipeline/data/SOURCES.md")
endif()
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/DebianFiles.cmake")
include(CPack)
