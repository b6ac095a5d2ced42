# SPDX-License-Identifier: MIT
"""Start ranks by whichever mpiexec there is, also as root and on few CPUs, and never wait for them for ever."""
import os
import signal
import subprocess
import sys

BOUND_S = 300  # for ranks that hang


def flags(mpiexec):
    """What this launcher wants to be told."""
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False, timeout=BOUND_S).stdout
    return ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in said or "OpenRTE" in said or "PRRTE" in said else []


def run(mpiexec, ranks, *command):
    """What the ranks print; ends the test when one fails, or they hang."""
    environment = {**os.environ, "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    job = subprocess.Popen([mpiexec, *flags(mpiexec), "-n", str(ranks), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        said, _ = job.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        said, _ = job.communicate()
        sys.exit(f"{ranks} ranks hang:\n{said}")
    if job.returncode != 0:
        sys.exit(f"{ranks} ranks: {mpiexec} says {job.returncode}:\n{said}")
    return said
