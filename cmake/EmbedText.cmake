# SPDX-License-Identifier: MIT
# cmake -DNAME=... -DINPUT=... -DOUTPUT=... -P EmbedText.cmake: write a text file as a C array with a final NUL.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}00")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "0x([89a-f][0-9a-f])" "(char)0x\\1" bytes "${bytes}")
file(WRITE "${OUTPUT}" "static const char ${NAME}[] = {\n${bytes}};\n")
