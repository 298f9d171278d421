"""Commands that are stopped: the exit status, what is kept, and what is left as it was."""

import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import polyopt.cli as cli
from formulations.language.clock import current_clock
from polyopt.cli import app
from polyopt.cli import console as stopping
from polyopt.margin.svm import SVM
from polyopt.models import load_model


def run(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "model.skops"


SIGNALS = [(2, 130, "interrupted"), (15, 143, "terminated")]


def signalled(number):
    """A signal comes, as the entry point answers it."""
    with pytest.raises(KeyboardInterrupt):
        stopping._interrupt(number, None)


@pytest.fixture
def stopped(monkeypatch):
    """A signal comes in each fit of an SVM, which has a point or has none."""

    def stop(number=2, *, has_point=True):
        original = SVM._fit_binary

        def fit(self, *arguments):
            signalled(number)
            if not has_point:
                raise KeyboardInterrupt
            current_clock().stop()
            original(self, *arguments)

        monkeypatch.setattr(SVM, "_fit_binary", fit)

    return stop


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
def test_a_stopped_fit_is_saved_to_a_new_file(stopped, out, number, status, word):
    stopped(number)
    done = run("fit", "wdbc", "--method", "svm", "--out", out)
    assert done.exit_code == status
    assert f"{word}: what was done by then is kept in {out}" in " ".join(done.stderr.split())
    assert "warning: SVM: The run was interrupted" in done.stderr
    assert load_model(out).method == "svm"


def test_a_model_that_is_there_stays_unless_it_is_given_up(stopped, out):
    out.write_bytes(b"old")
    stopped()
    done = run("fit", "wdbc", "--method", "svm", "--out", out)
    assert done.exit_code == 130
    assert f"interrupted: {out} is as it was; --force" in " ".join(done.stderr.split())
    assert out.read_bytes() == b"old"
    done = run("fit", "wdbc", "--method", "svm", "--out", out, "--force")
    assert done.exit_code == 130
    assert load_model(out).method == "svm"


@pytest.mark.parametrize(("number", "status", "word"), SIGNALS)
def test_without_a_point_nothing_is_written(stopped, out, number, status, word):
    stopped(number, has_point=False)
    done = run("fit", "wdbc", "--method", "svm", "--out", out)
    assert done.exit_code == status
    assert f"{word}: nothing was written" in done.stderr
    assert not out.exists()
    out.write_bytes(b"old")
    done = run("fit", "wdbc", "--method", "svm", "--out", out, "--force")
    assert f"{out} is as it was" in " ".join(done.stderr.split())
    assert out.read_bytes() == b"old"
    assert "Traceback" not in done.output


def test_multipliers_of_a_stopped_fit_are_not_printed(stopped):
    stopped()
    done = run("duals", "--method", "svm", "--data", "wdbc")
    assert (done.exit_code, done.stdout) == (130, "")


def test_a_stopped_comparison_writes_its_report_to_a_new_file(stopped, tmp_path):
    page = tmp_path / "page.html"
    stopped()
    given = ("compare", "--data", "wdbc", "--methods", "svm", "--report", page)
    done = run(*given)
    assert done.exit_code == 130
    assert "Interrupted before its end" in page.read_text(encoding="utf-8")
    page.write_text("old", encoding="utf-8")
    done = run(*given)
    assert done.exit_code == 130
    assert page.read_text(encoding="utf-8") == "old"
    assert "--force" in done.stderr
    assert run(*given, "--force").exit_code == 130
    assert "Interrupted" in page.read_text(encoding="utf-8")


def test_a_stopped_verification_prints_what_is_proven(monkeypatch):
    from polyopt import verify as module

    original, seen = module._check_family, []

    def check(name, family, seed):
        seen.append(name)
        if len(seen) == 2:
            signalled(15)
        return original(name, family, seed)

    monkeypatch.setattr(module, "_check_family", check)
    monkeypatch.setattr("polyopt.methods.registry.families", lambda: ("one_norm", "svm", "rmm"))
    done = run("verify")
    assert done.exit_code == 143
    assert "programs proven" in done.stdout
    assert "rmm.qp" not in done.stdout
    assert len(seen) == 2


def three(folder):
    """A file with three classes."""
    rows = [f"{i % 3 + 0.1 * (i % 7)},{i % 5},{'abc'[i % 3]}" for i in range(60)]
    path = folder / "three.csv"
    path.write_text("\n".join(["u,v,kind", *rows]), encoding="utf-8")
    return path


def test_the_whole_limit_is_for_the_whole_fit(monkeypatch, tmp_path):
    limits = []
    original = SVM._fit_binary

    def fit(self, *arguments):
        limits.append(self.time_limit)
        original(self, *arguments)

    monkeypatch.setattr(SVM, "_fit_binary", fit)
    assert run("fit", three(tmp_path), "--method", "svm", "--time-limit", "1e6").exit_code == 0
    assert limits == pytest.approx([1e6 / 3, 1e6 / 2, 1e6], rel=1e-2)


def test_exit_statuses_are_told():
    text = run("--help").output
    assert all(number in text for number in ("130", "143", "141"))
    assert all(number in cli.__doc__ for number in ("130", "143", "141"))


def begun(*arguments):
    """A command in a process of its own, which Ctrl-C comes to even where a shell has had it ignored."""
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


# The fit tells where it is, and waits there for a signal.
_BEGIN = """
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


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_ends_a_fit_of_many_pairs(number, tmp_path, out):
    command = begun("fit", three(tmp_path), "--method", "svm", "--out", out)
    assert command.stdout.readline().strip() == b"here"
    command.send_signal(number)
    said = command.communicate()[1].decode()
    assert command.returncode == 128 + number, said
    assert "0 of 3 pairs of classes were solved" in said
    model = load_model(out)
    assert len(model.estimator.estimators_) == 3
    assert model.facts["claim"] is None  # certificates of all pairs would take longer than a person waits
    assert "none: the fit was interrupted before it was certified" in " ".join(
        run("info", out).output.split()
    )


@pytest.mark.parametrize("error", [ImportError, AttributeError, RuntimeError, ValueError, TypeError])
def test_a_signal_that_was_turned_into_another_error_is_still_one(monkeypatch, error):
    def import_that_breaks_off(*_, **__):
        signalled(2)
        raise error("partially initialised")

    monkeypatch.setattr(SVM, "_fit_binary", import_that_breaks_off)
    done = run("fit", "wdbc", "--method", "svm")
    assert (done.exit_code, "interrupted: nothing was written" in done.stderr) == (130, True)
    monkeypatch.undo()
    assert run("fit", "nowhere.csv").exit_code == 2  # which the next command of this process knows nothing of
