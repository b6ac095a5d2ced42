# SPDX-License-Identifier: MIT
# gantry_add_kernels(<target> <file.cu>...)
#
# Compile kernel files (see <gantry/kernel.h>) and link them into <target>.  For each <name>.cu the target
# gets a constant `gantry_image_<name>` of type gantry_module_image, declared in <name>.kernels.h, which is
# on the target's include path.  <name>.kernels.hpp beside it has the types of the kernels' parameters for
# gantry.hpp (docs/guides/cpp.md).  The image has the host form always, and one device form:
#
#   nvcc   a fat binary for those of sm_80, 90, 100, 120 that nvcc knows, with PTX of the oldest and the
#          newest of them for everything else; compressed, as every driver that loads what nvcc makes can read it
#   clang  PTX 7.0 for sm_80, which any later device compiles when the image is loaded; needs no CUDA
#          toolkit and no CUDA header
#
# gantry_add_kernels(<target> DEVICE_ONLY <file.cu>... [OPTIONS <option of nvcc>...])
#
# The same for any CUDA C++: __global__, templates, printf, libraries of device code.  Such an image has a device
# form alone, which nvcc makes, and all kernels that the compiler has emitted, by their names in the code (C++
# mangles what is not extern "C").  It loads on the emulated driver, too, where asking for one of its kernels is an
# error that names it.  Without nvcc the image has no form at all.
#
# GANTRY_KERNEL_CHECKS=ON, a variable of the folder or of the cache: the host form is instrumented, so that
# GANTRY_CHECK=edges sees what kernels touch (docs/guides/edges.md).  Kernels are some ten times slower then, on the
# emulated driver alone.  The target is linked with libgantry-proof.so, which takes the place of the thread sanitizer's
# runtime: together with a sanitizer of the compiler it is an error.  gcc and clang.
#
# gantry::checked: link code of the program's own with it, to have it instrumented in the same way.
#
# GANTRY_KERNEL_COMPILER chooses: auto (nvcc if it works, else clang if it works, else host form only),
# nvcc, clang (an error if it does not work) or none.  GANTRY_KERNEL_ARCHITECTURES: the devices for which nvcc makes
# code, "80;90;100;120" of those that it knows; others compile the PTX of the oldest and the newest.  File names without .cu are C identifiers, and one
# program has one file of a name.  Several targets may use the same file; it is compiled once.

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  # cmake -DFORM=fatbin|ptx|names|listing -DINPUT=... -DOUTPUT=... -P GantryKernels.cmake: write the file as a C array.
  if(FORM STREQUAL "names") # the kernels of a PTX text, as a list of C strings
    file(STRINGS "${INPUT}" lines REGEX "^[ \t]*(\\.visible[ \t]+)?\\.entry[ \t]")
    list(TRANSFORM lines REPLACE "^.*\\.entry[ \t]+([A-Za-z0-9_$]+).*$" "\"\\1\", ")
    string(CONCAT lines ${lines})
    file(WRITE "${OUTPUT}" "static const char *const gantry_names[] = {${lines}nullptr};\n")
    return()
  endif()
  if(FORM STREQUAL "listing") # the kernels and their parameters of a preprocessed text, as C++ types
    file(READ "${INPUT}" text)
    set(kernels "")
    string(FIND "${text}" "gantry_listed_kernel " at)
    while(NOT at EQUAL -1)
      string(SUBSTRING "${text}" ${at} -1 text)
      string(FIND "${text}" "gantry_listed_end" end)
      string(SUBSTRING "${text}" 0 ${end} kernel)
      string(REGEX REPLACE "[ \t\r\n]+" " " kernel "${kernel}")
      string(REGEX REPLACE "^gantry_listed_kernel ([A-Za-z0-9_]+) ?(.*[^ ]) ?$"
        "struct \\1 {\n    static constexpr const char *name = \"\\1\";\n    using signature = void \\2;\n};\n" kernel "${kernel}")
      string(APPEND kernels "${kernel}")
      string(SUBSTRING "${text}" ${end} -1 text)
      string(FIND "${text}" "gantry_listed_kernel " at)
    endwhile()
    file(WRITE "${OUTPUT}" "/* The kernels of ${NAME}.cu and their parameters, for gantry.hpp. */
#ifndef GANTRY_KERNELS_${NAME}_HPP
#define GANTRY_KERNELS_${NAME}_HPP

#include \"${NAME}.kernels.h\"

#include <cstddef>
#include <cstdint>

namespace gantry::kernels::${NAME}
{
${kernels}}

#endif
")
    return()
  endif()
  file(READ "${INPUT}" bytes HEX)
  if(FORM STREQUAL "ptx")
    string(APPEND bytes "00")
  endif()
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  if(FORM STREQUAL "ptx")
    set(declaration "static const char gantry_ptx[]")
  else()
    set(declaration "alignas(64) static const unsigned char gantry_fatbin[]")
  endif()
  file(WRITE "${OUTPUT}" "${declaration} = {\n${bytes}};\n")
  return()
endif()

include_guard(GLOBAL)

set(GANTRY_KERNEL_COMPILER "auto" CACHE STRING "Compiler of device code: auto, nvcc, clang or none")
set_property(CACHE GANTRY_KERNEL_COMPILER PROPERTY STRINGS auto nvcc clang none)
set(GANTRY_KERNEL_ARCHITECTURES "80;90;100;120" CACHE STRING "Compute capabilities without the point, for nvcc")

# <gantry/kernel.h>: of the source tree, or of the package this file was installed with.
function(_gantry_kernel_include out)
  if(EXISTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include/gantry/kernel.h")
    get_filename_component(folder "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include" ABSOLUTE)
  else()
    find_path(GANTRY_KERNEL_INCLUDE_DIR gantry/kernel.h
      HINTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../include"
            "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../include")
    mark_as_advanced(GANTRY_KERNEL_INCLUDE_DIR)
    set(folder "${GANTRY_KERNEL_INCLUDE_DIR}")
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# Is code of this folder built with a sanitizer of the compiler?
function(_gantry_has_sanitizer out)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  get_directory_property(options COMPILE_OPTIONS)
  string(FIND "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${CMAKE_C_FLAGS_${type}} ${CMAKE_CXX_FLAGS_${type}} ${options}"
    "-fsanitize=" at)
  if(at EQUAL -1)
    set(${out} FALSE PARENT_SCOPE)
  else()
    set(${out} TRUE PARENT_SCOPE)
  endif()
endfunction()

# How code is instrumented, with calls that take no detour; an error where it cannot be.
function(_gantry_check_flags out)
  _gantry_has_sanitizer(has_sanitizer)
  if(has_sanitizer)
    message(FATAL_ERROR "GANTRY_KERNEL_CHECKS takes the place of a sanitizer's runtime: build without -fsanitize")
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    message(FATAL_ERROR "GANTRY_KERNEL_CHECKS needs gcc or clang, not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  set(${out} -fsanitize=thread -fno-plt PARENT_SCOPE)
endfunction()

# The target of libgantry-proof.so: of the source tree, or of the package this file was installed with.
function(_gantry_proof_target out)
  if(TARGET gantry-proof)
    set(${out} gantry-proof PARENT_SCOPE)
  elseif(TARGET gantry::proof)
    set(${out} gantry::proof PARENT_SCOPE)
  else()
    message(FATAL_ERROR "GANTRY_KERNEL_CHECKS needs libgantry-proof.so, which was not built with this Gantry")
  endif()
endfunction()

set(_gantry_clang_flags -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib
  -Xclang -target-feature -Xclang +ptx70 -Wno-unknown-cuda-version -std=c++17 -O3 -S)

# nvcc's -gencode options, for the architectures that it knows.
function(_gantry_nvcc_flags nvcc out)
  execute_process(COMMAND "${nvcc}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  set(flags)
  set(architectures)
  foreach(architecture IN LISTS GANTRY_KERNEL_ARCHITECTURES)
    if(known MATCHES "sm_${architecture}[\r\n]")
      list(APPEND flags -gencode "arch=compute_${architecture},code=sm_${architecture}")
      list(APPEND architectures ${architecture})
    endif()
  endforeach()
  if(NOT architectures) # a compiler too old to list them
    set(flags -gencode "arch=compute_80,code=sm_80")
    set(architectures 80)
  endif()
  list(GET architectures 0 oldest)
  list(GET architectures -1 newest)
  list(APPEND flags -gencode "arch=compute_${oldest},code=compute_${oldest}")
  if(NOT newest STREQUAL oldest)
    list(APPEND flags -gencode "arch=compute_${newest},code=compute_${newest}")
  endif()
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()

# Can this compiler make an image of a small kernel?
function(_gantry_try_kernel_compiler out)
  _gantry_kernel_include(include)
  set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/gantry-kernels")
  file(WRITE "${folder}/try.cu" "#include <gantry/kernel.h>
GANTRY_KERNEL(try_kernel, (uint32_t *data)) { atomicAdd(data, threadIdx.x); }\n")
  execute_process(COMMAND ${ARGN} -I "${include}" -o "${folder}/try.out" "${folder}/try.cu"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  file(APPEND "${folder}/try.log" "${ARGN}\n${output}\n")
  if(result EQUAL 0)
    set(${out} TRUE PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Decide on the device compiler, once per build folder and choice: GANTRY_KERNEL_FORM (fatbin, ptx, none)
# and GANTRY_KERNEL_COMMAND, a list to which -o, the output and the input are added.
function(_gantry_find_kernel_compiler)
  if(NOT GANTRY_KERNEL_COMPILER MATCHES "^(auto|nvcc|clang|none)$")
    message(FATAL_ERROR "GANTRY_KERNEL_COMPILER is ${GANTRY_KERNEL_COMPILER}, not auto, nvcc, clang or none")
  endif()
  set(choice "${GANTRY_KERNEL_COMPILER} ${GANTRY_KERNEL_ARCHITECTURES} compressed") # as no earlier build folder says
  if(GANTRY_KERNEL_CHOICE STREQUAL choice)
    return()
  endif()
  set(form none)
  set(command)
  set(tried)
  if(GANTRY_KERNEL_COMPILER MATCHES "auto|nvcc")
    find_program(GANTRY_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda
      PATH_SUFFIXES bin)
    mark_as_advanced(GANTRY_NVCC)
    if(GANTRY_NVCC)
      _gantry_nvcc_flags("${GANTRY_NVCC}" architectures)
      set(GANTRY_NVCC_FLAGS "${architectures}" CACHE INTERNAL "nvcc's options for them")
      set(command "${GANTRY_NVCC}" -fatbin -Xfatbin=-compress-all -std=c++17 -O3 -ccbin "${CMAKE_CXX_COMPILER}"
        -allow-unsupported-compiler ${architectures})
      _gantry_try_kernel_compiler(works ${command})
      if(works)
        set(form fatbin)
      else()
        list(APPEND tried "${GANTRY_NVCC} does not work")
      endif()
    else()
      list(APPEND tried "no nvcc")
    endif()
  endif()
  if(form STREQUAL "none" AND GANTRY_KERNEL_COMPILER MATCHES "auto|clang")
    find_program(GANTRY_CLANG NAMES clang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15
      clang++-14)
    mark_as_advanced(GANTRY_CLANG)
    if(GANTRY_CLANG)
      set(command "${GANTRY_CLANG}" ${_gantry_clang_flags})
      _gantry_try_kernel_compiler(works ${command})
      if(works)
        set(form ptx)
      else()
        list(APPEND tried "${GANTRY_CLANG} cannot make PTX")
      endif()
    else()
      list(APPEND tried "no clang++")
    endif()
  endif()
  list(JOIN tried ", " tried)
  if(form STREQUAL "fatbin")
    message(STATUS "Kernels: fat binary by ${GANTRY_NVCC}, and host code")
  elseif(form STREQUAL "ptx")
    message(STATUS "Kernels: PTX by ${GANTRY_CLANG}, and host code")
  elseif(GANTRY_KERNEL_COMPILER MATCHES "nvcc|clang")
    message(FATAL_ERROR "GANTRY_KERNEL_COMPILER=${GANTRY_KERNEL_COMPILER}: ${tried}; see "
      "${CMAKE_BINARY_DIR}/CMakeFiles/gantry-kernels/try.log")
  else()
    set(command)
    if(tried)
      set(tried " (${tried})")
    endif()
    message(STATUS "Kernels: host code only${tried}: they run on the emulated driver, not on a device")
  endif()
  set(GANTRY_KERNEL_FORM "${form}" CACHE INTERNAL "device form of kernel images")
  set(GANTRY_KERNEL_COMMAND "${command}" CACHE INTERNAL "its compiler and options")
  set(GANTRY_KERNEL_CHOICE "${choice}" CACHE INTERNAL "the choice that these stand for")
endfunction()

# The command that makes <name>.embed.h, the device form as a C array.
function(_gantry_add_device_form library name file folder)
  _gantry_kernel_include(include)
  set(binary "${folder}/${name}.${GANTRY_KERNEL_FORM}")
  set(includes "$<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>")
  add_custom_command(OUTPUT "${binary}"
    COMMAND ${GANTRY_KERNEL_COMMAND} "-I${include}" "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
      -MD -MT "${binary}" -MF "${binary}.d" -o "${binary}" "${file}"
    DEPENDS "${file}" DEPFILE "${binary}.d" COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Compiling kernels of ${name}.cu (${GANTRY_KERNEL_FORM})")
  add_custom_command(OUTPUT "${folder}/${name}.embed.h"
    COMMAND "${CMAKE_COMMAND}" "-DFORM=${GANTRY_KERNEL_FORM}" "-DINPUT=${binary}"
      "-DOUTPUT=${folder}/${name}.embed.h" -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS "${binary}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}" VERBATIM
    COMMENT "Embedding kernels of ${name}.cu")
  target_sources(${library} PRIVATE "${folder}/${name}.embed.h")
endfunction()

# The command that makes <name>.kernels.hpp, the types of the kernels' parameters, from the preprocessed file.
function(_gantry_add_signatures library name file folder)
  _gantry_kernel_include(include)
  set(includes "$<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>")
  set(header "${folder}/${name}.kernels.hpp")
  add_custom_command(OUTPUT "${header}"
    COMMAND "${CMAKE_CXX_COMPILER}" -E -P -x c++ -std=c++17 -DGANTRY_KERNEL_LISTING "-I${include}"
      "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" -MD -MT "${header}" -MF "${header}.d"
      -o "${folder}/${name}.listing" "${file}"
    COMMAND "${CMAKE_COMMAND}" -DFORM=listing "-DNAME=${name}" "-DINPUT=${folder}/${name}.listing" "-DOUTPUT=${header}"
      -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS "${file}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}" DEPFILE "${header}.d" COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Listing kernels of ${name}.cu")
  target_sources(${library} PRIVATE "${header}")
endfunction()

# A device-only file's <name>.embed.h and <name>.names.h.
function(_gantry_add_device_only library name file folder options)
  _gantry_kernel_include(include)
  set(includes "$<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>")
  set(includes "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>") # to be quoted: it has a ; in it
  set(binary "${folder}/${name}.fatbin")
  set(text "${folder}/${name}.ptx")
  add_custom_command(OUTPUT "${binary}"
    COMMAND ${GANTRY_KERNEL_COMMAND} "-I${include}" "${includes}" ${options} -MD -MT "${binary}" -MF "${binary}.d" -o "${binary}" "${file}"
    DEPENDS "${file}" DEPFILE "${binary}.d" COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Compiling kernels of ${name}.cu (devices only)")
  add_custom_command(OUTPUT "${text}"
    COMMAND "${GANTRY_NVCC}" -ptx -arch=compute_80 -std=c++17 -ccbin "${CMAKE_CXX_COMPILER}" -allow-unsupported-compiler
      "-I${include}" "${includes}" ${options} -o "${text}" "${file}"
    DEPENDS "${binary}" COMMAND_EXPAND_LISTS VERBATIM COMMENT "Listing kernels of ${name}.cu")
  foreach(form_and_input "fatbin;${binary};embed" "names;${text};names")
    list(GET form_and_input 0 form)
    list(GET form_and_input 1 input)
    list(GET form_and_input 2 header)
    add_custom_command(OUTPUT "${folder}/${name}.${header}.h"
      COMMAND "${CMAKE_COMMAND}" "-DFORM=${form}" "-DINPUT=${input}" "-DOUTPUT=${folder}/${name}.${header}.h"
        -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
      DEPENDS "${input}" "${CMAKE_CURRENT_FUNCTION_LIST_FILE}" VERBATIM COMMENT "Embedding ${header} of ${name}.cu")
    target_sources(${library} PRIVATE "${folder}/${name}.${header}.h")
  endforeach()
endfunction()

# The source of a device-only image; made with nvcc, else empty.
function(_gantry_write_device_only_image name folder)
  if(GANTRY_KERNEL_FORM STREQUAL "fatbin")
    set(includes "#include \"${name}.embed.h\"\n#include \"${name}.names.h\"")
    set(forms "gantry_fatbin, sizeof(gantry_fatbin), nullptr, nullptr, gantry_names, nullptr")
  else()
    set(includes "")
    set(forms "nullptr, 0, nullptr, nullptr, nullptr, nullptr")
    message(STATUS "Kernels of ${name}.cu are left out: DEVICE_ONLY needs nvcc")
  endif()
  file(CONFIGURE OUTPUT "${folder}/${name}.image.cpp" @ONLY CONTENT "#include \"@name@.kernels.h\"
@includes@
const gantry_module_image gantry_image_@name@ = {
    sizeof(gantry_module_image), \"@name@\", @forms@, 1, 0,
};
")
endfunction()

# The object library of one file; made at its first use.
function(_gantry_kernel_library target file is_device_only options out_library out_folder)
  get_filename_component(name "${file}" NAME_WE)
  string(MAKE_C_IDENTIFIER "${name}" identifier)
  if(NOT name STREQUAL identifier)
    message(FATAL_ERROR "gantry_add_kernels: ${file}: the name without .cu must be a C identifier")
  endif()
  set(checks "")
  if(GANTRY_KERNEL_CHECKS AND NOT is_device_only)
    _gantry_check_flags(checks)
  endif()
  # Seen from the project, so that the same sources make the same names and with them the same bytes.
  file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}" "${file}")
  string(SHA1 hash "${path}${options}${checks}")
  string(SUBSTRING "${hash}" 0 8 hash)
  set(library "gantry_kernels_${name}_${hash}")
  set(folder "${CMAKE_BINARY_DIR}/gantry-kernels/${name}-${hash}")
  set(${out_library} ${library} PARENT_SCOPE)
  set(${out_folder} "${folder}" PARENT_SCOPE)
  if(TARGET ${library})
    return()
  endif()

  set(fatbin "nullptr, 0")
  set(ptx "nullptr")
  set(embed "")
  if(NOT GANTRY_KERNEL_FORM STREQUAL "none")
    set(embed "#include \"${name}.embed.h\"\n")
  endif()
  if(GANTRY_KERNEL_FORM STREQUAL "fatbin")
    set(fatbin "gantry_fatbin, sizeof(gantry_fatbin)")
  elseif(GANTRY_KERNEL_FORM STREQUAL "ptx")
    set(ptx "gantry_ptx")
  endif()
  file(CONFIGURE OUTPUT "${folder}/${name}.kernels.h" @ONLY CONTENT "/* The kernels of @name@.cu. */
#ifndef GANTRY_KERNELS_@name@_H
#define GANTRY_KERNELS_@name@_H

#include <gantry/module.h>

GANTRY_BEGIN_DECLS
extern const gantry_module_image gantry_image_@name@;
GANTRY_END_DECLS

#endif
")
  if(is_device_only)
    _gantry_write_device_only_image(${name} "${folder}")
  else()
    # Who has written CUDA before tries __global__ first: that is told in one line.
    file(CONFIGURE OUTPUT "${folder}/${name}.image.cpp" @ONLY CONTENT [[#define __global__ _Pragma("GCC error \"gantry_add_kernels: write GANTRY_KERNEL(name, (parameters)) in place of __global__ void name(parameters), or add the file as DEVICE_ONLY\"")
#include "@file@"
#undef __global__
#ifndef GANTRY_KERNEL
#error "gantry_add_kernels: @name@.cu has no kernels: it does not include <gantry/kernel.h>"
#endif
GANTRY_HOST_MODULE(@name@)
#include "@name@.kernels.h"
@embed@
const gantry_module_image gantry_image_@name@ = {
    sizeof(gantry_module_image), "@name@", @fatbin@, @ptx@, &gantry_host_module_@name@,
    gantry_kernel_names_@name@, gantry_early_names_@name@, 0, 0,
};
]])
  endif()
  _gantry_kernel_include(include)
  get_filename_component(source_folder "${file}" DIRECTORY)
  add_library(${library} OBJECT "${folder}/${name}.image.cpp")
  set(forms ${library})
  if(CMAKE_EXPORT_COMPILE_COMMANDS AND NOT is_device_only)
    # Never built: editors find the file in compile_commands.json, as the emulated driver has it.
    add_library(${library}_in_editors OBJECT EXCLUDE_FROM_ALL "${file}")
    set_source_files_properties("${file}" PROPERTIES LANGUAGE CXX)
    target_compile_options(${library}_in_editors PRIVATE "SHELL:-x c++")
    list(APPEND forms ${library}_in_editors)
  endif()
  foreach(form IN LISTS forms)
    target_compile_features(${form} PRIVATE cxx_std_17)
    target_compile_options(${form} PRIVATE -fno-exceptions -fno-rtti -fno-math-errno -ffp-contract=off
      -Wno-unknown-pragmas ${checks})
    target_include_directories(${form} PRIVATE "${include}" "${source_folder}"
      "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  endforeach()
  set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  if(TARGET gantry_flags AND PROJECT_NAME STREQUAL "gantry") # inside Gantry's own build
    target_link_libraries(${library} PRIVATE gantry_flags)
  endif()
  if(NOT is_device_only)
    _gantry_add_signatures(${library} ${name} "${file}" "${folder}")
  endif()
  if(is_device_only AND GANTRY_KERNEL_FORM STREQUAL "fatbin")
    _gantry_add_device_only(${library} ${name} "${file}" "${folder}" "${options}")
  elseif(NOT is_device_only AND NOT GANTRY_KERNEL_FORM STREQUAL "none")
    _gantry_add_device_form(${library} ${name} "${file}" "${folder}")
  endif()
endfunction()

# What target_link_libraries(<target> PRIVATE <library>) does, which would be an error where the project links <target>
# without such a keyword.
function(_gantry_link target library)
  set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${library})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES "$<LINK_ONLY:${library}>")
  endif()
endfunction()

function(gantry_add_kernels target)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CXX" IN_LIST languages)
    message(FATAL_ERROR "gantry_add_kernels: kernels are built for the emulated driver, too, as C++: say project(NAME LANGUAGES C CXX)")
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 kernels "DEVICE_ONLY" "" "OPTIONS")
  if(kernels_OPTIONS AND NOT kernels_DEVICE_ONLY)
    message(FATAL_ERROR "gantry_add_kernels: OPTIONS are for DEVICE_ONLY files: other forms would not know them")
  endif()
  _gantry_find_kernel_compiler()
  foreach(file IN LISTS kernels_UNPARSED_ARGUMENTS)
    get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "gantry_add_kernels: there is no ${file}")
    endif()
    _gantry_kernel_library(${target} "${file}" ${kernels_DEVICE_ONLY} "${kernels_OPTIONS}" library folder)
    target_sources(${target} PRIVATE "$<TARGET_OBJECTS:${library}>")
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>")
    _gantry_link(${target} m)
    if(GANTRY_KERNEL_CHECKS AND NOT kernels_DEVICE_ONLY)
      _gantry_proof_target(proof)
      _gantry_link(${target} ${proof})
    endif()
  endforeach()
endfunction()

# Who links with it under a sanitizer is told so by the name of a target that there is not.
_gantry_has_sanitizer(_gantry_sanitizer)
if(TARGET gantry::checked AND _gantry_sanitizer)
  set_property(TARGET gantry::checked APPEND PROPERTY INTERFACE_LINK_LIBRARIES gantry::checked_is_not_for_builds_with_a_sanitizer)
endif()
