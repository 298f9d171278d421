"""Commands that are stopped: the exit status, what is kept, and what is left as it was."""

import signal
import subprocess
import sys

import pytest
from helpers import odd_methods
from helpers.commands import registry, run, small_table
from helpers.odd_methods import method

import polyopt.cli as cli
from polyopt.cli.console import answer_signals
from polyopt.methods.registry import BUILT_IN
from polyopt.models import load_model

SIGNALS = {"Interrupted": (130, "interrupted"), "Terminated": (143, "terminated")}
by_signal = pytest.mark.parametrize("kind", SIGNALS)


@pytest.fixture(autouse=True)
def signals():
    """Signals are answered as by the program."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    answer_signals()
    yield
    for number, answer in before.items():
        signal.signal(number, answer)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "model.skops"


def stopped(kind, command, *arguments):
    """Run a command with a method during whose fits a signal comes; what it says, its lines joined."""
    with registry(entry := method(getattr(odd_methods, kind))):
        option = "--methods" if command == "compare" else "--method"
        done = run(command, *arguments, option, entry.name)
    assert "Traceback" not in done.output
    return done, " ".join(done.stderr.split())


@by_signal
def test_stopped_fit_goes_to_new_file(kind, out):
    """The point of a stopped fit is saved to a file that was not there, with a warning."""
    status, word = SIGNALS[kind]
    done, said = stopped(kind, "fit", "wdbc", "--out", out)
    assert done.exit_code == status
    assert f"{word}: what was done by then is kept in {out}" in said
    assert f"warning: {kind}: The run was interrupted" in said
    with registry(method(getattr(odd_methods, kind))):
        assert load_model(out).method == kind.lower()


def test_stopped_fit_replaces_model_by_force(out):
    """A model that is there stays as it was, unless --force gives it up."""
    out.write_bytes(b"old")
    done, said = stopped("Interrupted", "fit", "wdbc", "--out", out)
    assert done.exit_code == 130
    assert f"interrupted: {out} is as it was; --force" in said
    assert out.read_bytes() == b"old"
    done, _ = stopped("Interrupted", "fit", "wdbc", "--out", out, "--force")
    assert done.exit_code == 130
    assert out.read_bytes() != b"old"


@by_signal
def test_nothing_is_written_without_point(kind, out):
    """A fit that is stopped before its first point writes nothing, even with --force."""
    status, word = SIGNALS[kind]
    done, said = stopped(f"{kind}Early", "fit", "wdbc", "--out", out)
    assert (done.exit_code, said) == (status, f"{word}: nothing was written")
    assert not out.exists()
    out.write_bytes(b"old")
    assert f"{out} is as it was" in stopped(f"{kind}Early", "fit", "wdbc", "--out", out, "--force")[1]
    assert out.read_bytes() == b"old"


def test_multipliers_of_stopped_fit_are_withheld():
    """No multipliers are printed of a fit that was stopped."""
    done, _ = stopped("Interrupted", "duals", "--data", "wdbc")
    assert (done.exit_code, done.stdout) == (130, "")


def test_stopped_comparison_writes_report(tmp_path):
    """The report of a stopped comparison goes to a new file, or with --force to any."""
    page = tmp_path / "page.html"
    given = ("Interrupted", "compare", "--data", "wdbc", "--report", page)
    assert stopped(*given)[0].exit_code == 130
    assert "Interrupted before its end" in page.read_text(encoding="utf-8")
    page.write_text("old", encoding="utf-8")
    done, said = stopped(*given)
    assert (done.exit_code, page.read_text(encoding="utf-8")) == (130, "old")
    assert "--force" in said
    assert stopped(*given, "--force")[0].exit_code == 130
    assert "Interrupted" in page.read_text(encoding="utf-8")


def test_report_stopped_while_drawn_is_unwritten(tmp_path):
    """Ctrl-C while the pictures are drawn leaves the page as it was."""
    page = tmp_path / "page.html"
    page.write_text("old", encoding="utf-8")
    done, said = stopped("Undrawn", "compare", "--data", small_table(tmp_path), "--report", page, "-q")
    assert (done.exit_code, page.read_text(encoding="utf-8")) == (130, "old")
    assert f"interrupted: the comparison is printed, but not written to {page}" in said


def test_stopped_verification_prints_proven_programs():
    """The programs of the families before the signal are in the table, later ones are not."""
    programs = {"programs": ("stops.primal", "stops.dual"), "families": {"stops": odd_methods.__name__}}
    entry = method(odd_methods.Interrupted, duals_of="", variants={}, **programs)
    with registry(BUILT_IN["svm"], entry, BUILT_IN["rmm"], alone=True):
        done = run("verify")
    assert done.exit_code == 143
    assert "svm.primal" in done.stdout
    assert "rmm.qp" not in done.stdout


@pytest.mark.parametrize("kind", ["Misread", "MisreadLater"])
def test_signal_behind_another_error_is_signal(kind, tmp_path):
    """An error into which a library turned Ctrl-C ends the command as Ctrl-C does, and the next one not."""
    done, said = stopped(kind, "fit", small_table(tmp_path))
    assert (done.exit_code, "interrupted: nothing was written" in said) == (130, True)
    assert run("fit", "nowhere.csv").exit_code == 2


def three(folder):
    """A file with three classes."""
    rows = [f"{i % 3 + 0.1 * (i % 7)},{i % 5},{'abc'[i % 3]}" for i in range(60)]
    path = folder / "three.csv"
    path.write_text("\n".join(["u,v,kind", *rows]), encoding="utf-8")
    return path


def test_time_limit_is_for_all_pairs(tmp_path):
    """Each pair of classes has its share of the time that is left."""
    odd_methods.Timed.limits.clear()
    with registry(method(odd_methods.Timed)):
        assert run("fit", three(tmp_path), "--method", "timed", "--time-limit", "1e6").exit_code == 0
    assert odd_methods.Timed.limits == pytest.approx([1e6 / 3, 1e6 / 2, 1e6], rel=1e-2)


def test_exit_statuses_are_told():
    """The help and the module list the exit statuses of signals and of a broken pipe."""
    text = run("--help").output
    assert all(number in text and number in cli.__doc__ for number in ("130", "143", "141"))


# The fit tells where it is, and waits there for a signal. Ctrl-C comes even if a shell has it ignored.
BEGIN = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from polyopt.margin.interior_point import driver
def wait(*_):
    driver.show = lambda *_: None
    print("here", flush=True)
    time.sleep(1e4)
driver.show = wait
from polyopt.cli import main
sys.argv = ["polyopt", *sys.argv[1:]]
main()
"""


def test_real_signal_ends_fit_of_pairs(tmp_path, out):
    """SIGTERM ends the program during the first of three pairs, with a model that says so."""
    words = [sys.executable, "-c", BEGIN, "fit", three(tmp_path), "--method", "svm", "--out", out]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout.readline().strip() == b"here"
    command.send_signal(signal.SIGTERM)
    said = command.communicate()[1].decode()
    assert command.returncode == 143, said
    assert "0 of 3 pairs of classes were solved" in said
    model = load_model(out)
    assert len(model.estimator.estimators_) == 3
    assert model.facts["claim"] is None  # certificates of all pairs would take longer than a person waits
    told = " ".join(run("info", out).output.split())
    assert "none: the fit was interrupted before it was certified" in told


def test_ctrl_c_during_start_is_told():
    """Ctrl-C while the command is imported ends in a sentence too."""
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'polyopt.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from polyopt.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was written\n")
