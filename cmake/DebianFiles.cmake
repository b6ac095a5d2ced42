# SPDX-License-Identifier: MIT
# CPack runs this on what was installed for the packages, a folder for each component.  Debian's policy wants of each package its
# licences and its changes, manual pages compressed, and folders that all can read.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(gzip gzip)
if(NOT gzip)
  message(FATAL_ERROR "gzip not found: a Debian package has its changes and manual pages compressed")
endif()

# Neither names nor times: the same content makes the same bytes.
function(compress)
  execute_process(COMMAND "${gzip}" -9n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(READ "${CPACK_GANTRY_SOURCES}/LICENSE" licence)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # or what SOURCE_DATE_EPOCH says
foreach(pair IN LISTS CPACK_GANTRY_PACKAGES)
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 component)
  list(GET pair 1 package)
  set(prefix "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}")
  if(NOT IS_DIRECTORY "${prefix}")
    continue()
  endif()
  set(doc "${prefix}/share/doc/${package}")
  set(text "Gantry\n\n${licence}")
  if(IS_DIRECTORY "${prefix}/share/gantry/photos")
    file(READ "${CPACK_GANTRY_SOURCES}/samples/image_pipeline/data/SOURCES.md" photos)
    string(APPEND text "\nThe photographs in share/gantry/photos\n\n${photos}")
  endif()
  file(WRITE "${doc}/copyright" "${text}")
  file(COPY_FILE "${CPACK_GANTRY_SOURCES}/CHANGELOG.md" "${doc}/changelog")
  file(WRITE "${doc}/changelog.Debian" "gantry (${CPACK_GANTRY_FULL_VERSION}) unstable; urgency=medium

  * Made by cpack from the sources; what changed is in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress("${doc}/changelog" "${doc}/changelog.Debian")
  file(CHMOD "${doc}/copyright" "${doc}/changelog.gz" "${doc}/changelog.Debian.gz"
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(GLOB pages "${prefix}/${CPACK_GANTRY_MANDIR}/man1/*.1" "${prefix}/${CPACK_GANTRY_MANDIR}/man3/*.3")
  if(pages)
    compress(${pages})
  endif()
endforeach()

# What lintian says nevertheless, and why it stays.
function(override component package)
  list(TRANSFORM ARGN PREPEND "${package}: " REGEX "^[^#]")
  list(JOIN ARGN "\n" lines)
  set(prefix "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}")
  if(IS_DIRECTORY "${prefix}")
    file(WRITE "${prefix}/share/lintian/overrides/${package}" "${lines}\n")
    file(CHMOD "${prefix}/share/lintian/overrides/${package}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()
endfunction()
set(upload "# Made from the sources, not uploaded to Debian." "initial-upload-closes-no-bugs *")
string(REGEX MATCH "gantry_runtime=([^;]+)" unused "${CPACK_GANTRY_PACKAGES}")
override(gantry_runtime "${CMAKE_MATCH_1}" ${upload}
  "# libgantry-thread.so lies beside the library, wherever that is opened, and has variables alone."
  "custom-library-search-path *" "shared-library-lacks-prerequisites *libgantry-thread.so*"
  "# It is opened by its name at run time, and programs are not linked with it."
  "shared-library-lacks-version usr/lib/libgantry-torch.so *" "no-symbols-control-file *"
  "# CPack writes these scripts, beside the trigger." "maintscript-calls-ldconfig *")
override(gantry_emu gantry-emu ${upload}
  "# These two are opened by their names at run time."
  "shared-library-lacks-version usr/lib/libgantry-emu.so *" "shared-library-lacks-version usr/lib/libgantry-proof.so *" "no-symbols-control-file *" "no-shlibs *"
  "package-name-doesnt-match-sonames *"
  "# CPack writes these scripts, beside the trigger." "maintscript-calls-ldconfig *")
override(gantry_dev libgantry-dev ${upload}
  "# For other architectures configure with CMAKE_INSTALL_LIBDIR=lib/TRIPLET." "pkg-config-unavailable-for-cross-compilation *")
override(gantry_tools gantry-tools ${upload}
  "# They are loaded by their paths, and programs are not linked with them." "shared-library-lacks-version usr/lib/libgantry-limit*.so *"
  "package-name-doesnt-match-sonames *"
  "# CPack writes these scripts, beside the trigger." "maintscript-calls-ldconfig *"
  "# The photographs of a sample, and where each is from." "arch-dep-package-has-big-usr-share *"
  "package-contains-documentation-outside-usr-share-doc *")
set(site_overrides)
if(IS_DIRECTORY "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/gantry_doc${CPACK_PACKAGING_INSTALL_PREFIX}/${CPACK_GANTRY_DOCDIR}/html")
  set(site_overrides "# The site is read without a server and without other packages: its scripts are part of it, as Sphinx and the theme wrote them."
    "embedded-javascript-library *" "zero-byte-file-in-doc-directory *furo-extensions.js*")
endif()
override(gantry_doc gantry-doc ${upload} ${site_overrides})

# The licence is in copyright; the documents link to it by this name.
set(documents "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/gantry_doc${CPACK_PACKAGING_INSTALL_PREFIX}/${CPACK_GANTRY_DOCDIR}")
if(EXISTS "${documents}/LICENSE")
  file(REMOVE "${documents}/LICENSE")
  file(CREATE_LINK "../gantry-doc/copyright" "${documents}/LICENSE" SYMBOLIC)
endif()
# The command finds the system's libraries without being told where they are.
set(command "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/gantry_tools${CPACK_PACKAGING_INSTALL_PREFIX}/${CPACK_GANTRY_BINDIR}/gantry")
if(EXISTS "${command}")
  file(RPATH_REMOVE FILE "${command}")
endif()

# These were made with the umask of who packs.
file(GLOB_RECURSE folders LIST_DIRECTORIES true "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
foreach(folder IN LISTS folders)
  if(IS_DIRECTORY "${folder}" AND NOT IS_SYMLINK "${folder}")
    file(CHMOD "${folder}" PERMISSIONS
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
endforeach()
