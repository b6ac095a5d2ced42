# SPDX-License-Identifier: MIT
# Put page.css and the scripts into page.html: cmake -DFOLDER=... -DSCRIPTS=a.js,b.js -DOUTPUT=... -P Page.cmake.
file(READ "${FOLDER}/page.html" page)
file(READ "${FOLDER}/page.css" style)
string(REPLACE "," ";" scripts "${SCRIPTS}")
set(script "")
foreach(name IN LISTS scripts)
  file(READ "${FOLDER}/${name}" text)
  string(APPEND script "${text}")
endforeach()
string(REPLACE "<!--STYLE-->" "${style}" page "${page}")
string(REPLACE "<!--SCRIPT-->" "${script}const thePage = start();\n" page "${page}")
file(WRITE "${OUTPUT}" "${page}")
