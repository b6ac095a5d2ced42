# CPack runs this on what was installed for a package: Debian's policy wants manual pages and changes compressed,
# one file of licences, and folders that all can read.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(prefix "${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}")
set(doc "${prefix}/${CPACK_GANTRY_DOCDIR}")
file(RENAME "${doc}/CHANGELOG.md" "${doc}/changelog")
file(READ "${doc}/LICENSE" licence)
file(REMOVE "${doc}/LICENSE")
foreach(sources IN LISTS CPACK_GANTRY_PHOTO_SOURCES)
  file(READ "${sources}" text)
  string(APPEND licence "\nThe photographs in share/gantry/photos\n\n${text}")
endforeach()
file(WRITE "${doc}/copyright" "${licence}")

# These were made with the umask of who packs.
file(CHMOD "${doc}/copyright" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(GLOB_RECURSE folders LIST_DIRECTORIES true "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
foreach(folder IN LISTS folders)
  if(IS_DIRECTORY "${folder}" AND NOT IS_SYMLINK "${folder}")
    file(CHMOD "${folder}" PERMISSIONS
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
endforeach()

find_program(gzip gzip)
if(NOT gzip)
  message(WARNING "gzip not found: the manual page and the changes stay uncompressed")
  return()
endif()
file(GLOB pages "${prefix}/${CPACK_GANTRY_MANDIR}/man1/*.1")
# Neither names nor times: the same content makes the same bytes.
execute_process(COMMAND "${gzip}" -9n "${doc}/changelog" ${pages} COMMAND_ERROR_IS_FATAL ANY)
