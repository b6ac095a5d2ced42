# SPDX-License-Identifier: MIT
# cmake -DGANTRY=... -DENVIRONMENT=... -DVERSION=... -DOUTPUT=... -P ManPage.cmake: write gantry(1), of what the
# command says of itself and of the table of variables in docs/reference/environment.md.

# What the command prints, as lines of a manual page.
function(ask out)
  execute_process(COMMAND "${GANTRY}" ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${GANTRY} ${ARGN}: ${result}\n${error}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(escape text out)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(append heading text)
  escape("${text}" text)
  string(STRIP "${heading}" heading)
  set(page "${page}${heading}\n.nf\n${text}\n.fi\n" PARENT_SCOPE)
endfunction()

# The names in a list: the first words of its indented lines.
function(names_of text out)
  string(REGEX MATCHALL "\n  [a-z][a-z0-9_]*" names "\n${text}")
  list(TRANSFORM names STRIP)
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

set(page ".TH GANTRY 1 \"\" \"gantry ${VERSION}\" \"User Commands\"
.SH NAME
gantry \\- run graphs of CPU and GPU tasks, measure, and read recordings
.SH SYNOPSIS
.B gantry
[\\-\\-log LEVEL | \\-\\-verbose] COMMAND [ARGUMENT...]
.br
.B gantry
\\-\\-version
")
ask(overview help)
append(".SH DESCRIPTION" "${overview}")
string(REGEX REPLACE "\nTopics of.*$" "" commands "${overview}")
names_of("${commands}" commands)
string(REGEX REPLACE "^.*\nTopics of" "" topics "${overview}")
names_of("${topics}" topics)
list(REMOVE_ITEM topics environment exit) # which have sections of their own
list(REMOVE_ITEM commands help)
string(APPEND page ".SH COMMANDS\n")
foreach(command IN LISTS commands)
  ask(text help ${command})
  append(".SS gantry ${command}" "${text}")
endforeach()
ask(samples run --list)
append(".SH SAMPLES" "${samples}")
names_of("${samples}" names)
foreach(name IN LISTS names)
  ask(text run ${name} --help)
  append(".SS gantry run ${name}" "${text}")
endforeach()
ask(benches bench --list)
append(".SH BENCHES" "${benches}")
names_of("${benches}" names)
foreach(name IN LISTS names)
  ask(text help ${name})
  append(".SS gantry bench ${name}" "${text}")
endforeach()
string(APPEND page ".SH TOPICS\n")
foreach(topic IN LISTS topics)
  ask(text help ${topic})
  append(".SS ${topic}" "${text}")
endforeach()

# | `NAME` | what, with [links](...) and `code` |
string(APPEND page ".SH ENVIRONMENT\n")
file(STRINGS "${ENVIRONMENT}" rows REGEX "^\\| `")
foreach(row IN LISTS rows)
  string(REGEX REPLACE "^\\| `([A-Z_]+)` \\| (.*) \\|$" "\\2" text "${row}")
  set(name "${CMAKE_MATCH_1}")
  string(REGEX REPLACE " ?\\(\\[[^]]*\\]\\([^)]*\\)\\)" "" text "${text}")
  string(REGEX REPLACE "\\[([^]]*)\\]\\([^)]*\\)" "\\1" text "${text}")
  string(REPLACE "`" "" text "${text}")
  string(REPLACE "\\|" "|" text "${text}")
  escape("${text}" text)
  string(APPEND page ".TP\n.B ${name}\n${text}\n")
endforeach()
string(APPEND page ".SH EXIT STATUS
0 when done, 1 when what was asked for failed, 2 when the call was wrong, 130 when Ctrl\\-C ended it: image_pipeline
finishes the photos that have begun first, everything else ends at once.  gantry limit exits with the status of its program,
or with 125 when the limit could not be made, 126 when the program cannot be executed and 127 when it is not found.  Results go to standard output, everything else to
standard error.
")
append(".SH EXAMPLES" "What this machine lacks, and how to get it:
    gantry doctor
    gantry doctor --json
Which driver and which device are in use:
    gantry info
Which edges a program's graphs lack:
    gantry check -- ./program
Whether a plan of partitions is carried out as it says:
    gantry info --partitions plan.json
Run a sample on the emulated driver, record it, and read the recording:
    GANTRY_DRIVER=emulated GANTRY_PROFILE=run.pftrace gantry run hello_graph
    gantry report trace run.pftrace
    gantry report trace run.pftrace --format html -o run.html
Run any program with 30 percent of a device's time, and look at it:
    gantry limit --share 30 --job train -- python train.py
    gantry limit --status --job train
Compare two recordings:
    gantry report trace after.pftrace --diff before.pftrace
Record any program that uses the library:
    GANTRY_PROFILE=run.pftrace ./program
Have bash complete words behind gantry, where no package has done so:
    gantry completion bash > ~/.local/share/bash-completion/completions/gantry
Measure one thing, a result per line for another program:
    gantry bench --json heap")
string(APPEND page ".SH SEE ALSO
The folder share/doc/gantry has README.md, and include/gantry the headers, which document each function.
")
file(WRITE "${OUTPUT}" "${page}")
