# SPDX-License-Identifier: MIT
# What is in this build besides Gantry's own sources, as SPDX JSON: install/gantry.spdx.json in the build folder, installed
# with the documents.  It lists other people's libraries with the versions of the headers that were compiled against, and
# whether they are linked in (STATIC_LINK) or needed at run time (DYNAMIC_LINK).  The runtimes of the compiler and of the
# system (libc, libm, libgcc, libgomp, libstdc++) are left out.

# gantry_header_version(<out> <header> <macro>): what the header defines as its version; numbers of several macros with
# points between them.
function(gantry_header_version out header macro)
  find_file(gantry_sbom_header NAMES "${header}" NO_CACHE HINTS "${jemalloc_built_include}")
  file(STRINGS "${gantry_sbom_header}" lines REGEX "define +${macro} ")
  list(TRANSFORM lines REPLACE "^.*define +[A-Z_]+ +\"?([0-9.]+).*$" "\\1")
  list(JOIN lines "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# gantry_sbom_package(<name> <version> <licence> <place>): a package of the list `packages`.
function(gantry_sbom_package name version licence place)
  set(package "{}")
  foreach(pair "SPDXID=SPDXRef-${name}" "name=${name}" "versionInfo=${version}" "downloadLocation=${place}"
      "licenseConcluded=${licence}" "licenseDeclared=${licence}" "copyrightText=NOASSERTION")
    string(REGEX MATCH "^([^=]+)=(.*)$" pair "${pair}")
    string(JSON package SET "${package}" "${CMAKE_MATCH_1}" "\"${CMAKE_MATCH_2}\"")
  endforeach()
  string(JSON package SET "${package}" filesAnalyzed false)
  string(JSON package SET "${package}" externalRefs "[{\"referenceCategory\": \"PACKAGE-MANAGER\",
    \"referenceType\": \"purl\", \"referenceLocator\": \"pkg:generic/${name}@${version}\"}]")
  list(APPEND packages "${package}")
  set(packages "${packages}" PARENT_SCOPE)
endfunction()

# gantry_sbom_relation(<from> <how> <to>): a relation of the list `relations`.
function(gantry_sbom_relation from how to)
  list(APPEND relations "{\"spdxElementId\": \"SPDXRef-${from}\", \"relationshipType\": \"${how}\", \"relatedSpdxElement\": \"SPDXRef-${to}\"}")
  set(relations "${relations}" PARENT_SCOPE)
endfunction()

# How `target` links the library `name`: STATIC_LINK, DYNAMIC_LINK, or "" when it does not.
function(gantry_how_linked out target name)
  set(${out} "" PARENT_SCOPE)
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(linked ${target} LINK_LIBRARIES)
  if(linked MATCHES "libgantry_${name}[.]a")
    set(${out} STATIC_LINK PARENT_SCOPE)
  elseif(linked MATCHES "gantry_dependency_${name}")
    get_target_property(file gantry_dependency_${name} IMPORTED_LOCATION)
    if(file MATCHES "[.]a$")
      set(${out} STATIC_LINK PARENT_SCOPE)
    else()
      set(${out} DYNAMIC_LINK PARENT_SCOPE)
    endif()
  elseif(linked MATCHES "image_pipeline" AND name STREQUAL "libpng") # which links it for the command
    set(${out} DYNAMIC_LINK PARENT_SCOPE)
  endif()
endfunction()

set(packages "")
set(relations "")
get_property(small_allocator GLOBAL PROPERTY GANTRY_SMALL_ALLOCATOR)
if(small_allocator STREQUAL "jemalloc")
  set(jemalloc_built_include "${GANTRY_JEMALLOC_DIR}/include")
endif()
gantry_sbom_package(libgantry "${PROJECT_VERSION}" MIT NOASSERTION)
gantry_sbom_relation(DOCUMENT DESCRIBES libgantry)
if(TARGET gantry_command)
  gantry_sbom_package(gantry "${PROJECT_VERSION}" MIT NOASSERTION)
  gantry_sbom_relation(DOCUMENT DESCRIBES gantry)
  gantry_sbom_relation(gantry DYNAMIC_LINK libgantry)
endif()
foreach(part "jemalloc|jemalloc/jemalloc.h|JEMALLOC_VERSION|BSD-2-Clause|https://github.com/jemalloc/jemalloc"
    "hwloc|hwloc/autogen/config.h|HWLOC_VERSION|BSD-3-Clause|https://github.com/open-mpi/hwloc"
    "cjson|cjson/cJSON.h|CJSON_VERSION_(MAJOR@MINOR@PATCH)|MIT|https://github.com/DaveGamble/cJSON"
    "zlib|zlib.h|ZLIB_VERSION|Zlib|https://zlib.net"
    "libpng|png.h|PNG_LIBPNG_VER_STRING|libpng-2.0|http://www.libpng.org")
  string(REPLACE "|" ";" part "${part}")
  string(REPLACE "@" "|" part "${part}")
  list(GET part 0 name)
  gantry_how_linked(of_library gantry ${name})
  gantry_how_linked(of_command gantry_command ${name})
  if(NOT of_library AND NOT of_command)
    continue()
  endif()
  list(GET part 1 header)
  list(GET part 2 macro)
  list(SUBLIST part 3 2 about)
  gantry_header_version(version "${header}" "${macro}")
  gantry_sbom_package(${name} "${version}" ${about})
  if(of_library)
    gantry_sbom_relation(libgantry ${of_library} ${name})
  endif()
  if(of_command)
    gantry_sbom_relation(gantry ${of_command} ${name})
  endif()
endforeach()
list(JOIN packages ", " packages)
list(JOIN relations ", " relations)

set(sbom "{}")
foreach(pair spdxVersion=SPDX-2.3 dataLicense=CC0-1.0 SPDXID=SPDXRef-DOCUMENT "name=gantry-${PROJECT_VERSION}")
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 key)
  list(GET pair 1 value)
  string(JSON sbom SET "${sbom}" ${key} "\"${value}\"")
endforeach()
string(JSON sbom SET "${sbom}" packages "[${packages}]")
string(JSON sbom SET "${sbom}" relationships "[${relations}]")
# It is named for what is in it, and dated as the sources are.
string(SHA1 hash "${sbom}")
string(JSON sbom SET "${sbom}" documentNamespace "\"https://gantry.invalid/spdx/gantry-${PROJECT_VERSION}-${hash}\"")
string(JSON sbom SET "${sbom}" creationInfo "{\"created\": \"${gantry_date}\", \"creators\": [\"Tool: gantry-${PROJECT_VERSION}\"]}")
file(WRITE "${PROJECT_BINARY_DIR}/install/gantry.spdx.json" "${sbom}\n")
install(FILES "${PROJECT_BINARY_DIR}/install/gantry.spdx.json" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT gantry_doc)
