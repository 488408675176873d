"""Runs each engine in a process and the command `filterblock`, and collects the results of the checks."""

import base64
import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# The recorded answers of the versions in requirements.txt, by suite.
EXPECTED = HERE / "expected.json"
ENGINES = ["duckdb", "datafusion", "clickhouse", "hyparquet", "pyarrow", "polars"]
# The engines that skip row groups by Bloom filters.
FILTERING = ["duckdb", "datafusion", "clickhouse", "hyparquet"]


class EngineError(Exception):
    pass


class Engine:
    """An engine in a process of its own. It starts again after a crash."""

    def __init__(self, name, npm, log):
        self.name, self.npm, self.log = name, npm, log
        self.process = None
        self.version = self.ask("version")["version"]

    def command(self):
        if self.name == "hyparquet":
            return ["node", HERE / "workers/in_hyparquet.mjs", self.npm]
        return [sys.executable, HERE / "workers/worker.py", self.name]

    def ask(self, op, **request):
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command(), stdin=pipe, stdout=pipe, stderr=self.log, text=True)
        if "scalar" in request:
            request["scalar"] = base64.b64encode(pickle.dumps(request["scalar"])).decode()
        try:
            self.process.stdin.write(json.dumps({"op": op, **request}, default=str) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status, self.process = self.process.wait(), None
            raise EngineError(f"the engine ended with status {status}")
        reply = json.loads(line)
        if "error" in reply:
            raise EngineError(reply["error"][:300])
        return reply

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


class Command:
    """The command `filterblock`."""

    def __init__(self, path):
        self.path = str(path)

    def run(self, *args):
        done = subprocess.run([self.path, *map(str, args)], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def add(self, old, new, columns, *options):
        """Adds filters to a copy, checks its first bytes with `check_prefix`, and returns the report."""
        new.unlink(missing_ok=True)
        names = [part for column in columns for part in ("--column", column)]
        status, out, err = self.run("parquet", "add", old, *names, *options, "--json", "-o", new)
        if status != 0:
            raise RuntimeError(f"parquet add {old.name} ended with status {status}: {err.strip()[:400]}")
        self.check_prefix(old, new)
        return json.loads(out) if out.strip() else {}

    @staticmethod
    def check_prefix(old, new):
        """Raises an error unless the new file begins with the bytes of the old file."""
        with old.open("rb") as a, new.open("rb") as b:
            while block := a.read(1 << 20):
                if block != b.read(len(block)):
                    raise RuntimeError(f"{new.name} does not begin with the bytes of {old.name}")

    def measure(self, *args):
        """Runs the command. Returns its time in seconds and its peak memory in bytes."""
        script = "import resource, subprocess, sys; s = subprocess.run(sys.argv[1:], stdout=2).returncode; "
        script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(s)"
        start = time.monotonic()
        argv = [sys.executable, "-c", script, self.path, *map(str, args)]
        done = subprocess.run(argv, capture_output=True, text=True)
        seconds = time.monotonic() - start
        if done.returncode != 0:
            raise RuntimeError(done.stderr[:400])
        return seconds, int(done.stdout)


class Results:
    """The numbers of passed and failed checks by suite and engine, the failures, and the notes."""

    def __init__(self):
        self.passed, self.failures, self.notes = {}, [], []

    def check(self, suite, who, is_right, what):
        key = (suite, who)
        good, bad = self.passed.get(key, (0, 0))
        self.passed[key] = (good + bool(is_right), bad + (not is_right))
        if not is_right:
            self.failures.append(f"{suite} / {who}: {what}")
            print(f"FAILED {suite} / {who}: {what}", flush=True)
        return is_right

    def note(self, text):
        self.notes.append(text)
        print("  " + text, flush=True)

    def compare(self, suite, table):
        """Checks that the answers of each engine, a dict for each row of the table, are the recorded ones."""
        expected = json.loads(EXPECTED.read_text()).get(suite, {}) if EXPECTED.exists() else {}
        for row, answers in table.items():
            for who, answer in answers.items():
                recorded = expected.get(row, {}).get(who, answer)
                self.check(suite, who, recorded == answer, f"{row}: recorded {recorded}, found {answer}")

    def print_table(self):
        print("\n| Suite | Who | Passed | Failed |\n|---|---|---|---|")
        for (suite, who), (good, bad) in self.passed.items():
            print(f"| {suite} | {who} | {good} | {bad} |")


class Context:
    """The engines, the command, the folder and the results that each suite gets."""

    def __init__(self, engines, command, folder, results, is_full):
        self.engines, self.command, self.folder = engines, command, Path(folder)
        self.results, self.is_full = results, is_full

    def filtering(self):
        return [self.engines[name] for name in FILTERING if name in self.engines]

    def path(self, name):
        return (self.folder / name).absolute()


