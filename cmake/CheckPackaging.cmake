# SPDX-License-Identifier: MIT
# CPack reads this before it begins.  What is in packages is dated as the sources are.
if("$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
  set(ENV{SOURCE_DATE_EPOCH} "${CPACK_GANTRY_EPOCH}")
endif()
# What a Debian package needs, by the names of the packages that have it.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(missing "")
foreach(need IN ITEMS "dpkg-shlibdeps dpkg-dev" "file file")
  string(REPLACE " " ";" need "${need}")
  list(GET need 0 program)
  list(GET need 1 package)
  find_program(found_${package} ${program} NO_DEFAULT_PATH PATHS ENV PATH)
  if(NOT found_${package})
    string(APPEND missing " ${package}")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "cpack -G DEB asks dpkg-shlibdeps what the package depends on. "
    "Install these and run it again:\n    sudo apt-get install${missing}")
endif()
