"""What is installed is what is here, and nobody else owns the names that it uses."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", ["supervisor", "sandbox", "config", "frozen"])
def test_no_other_distribution_owns_a_top_level_name_of_ours(name: str) -> None:
    owners = importlib.metadata.packages_distributions().get(name, [])
    assert set(owners) <= {"effectd-daemon"}


def wheel_of(project: Path, target: Path) -> set[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=60)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sources(*folders: str) -> set[str]:
    return {
        str(file.relative_to(ROOT))
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in file.parts
    }


def test_the_daemons_wheel_holds_its_packages_and_no_others(tmp_path: Path) -> None:
    names = wheel_of(ROOT, tmp_path)
    assert sources("supervisor", "sandbox", "config", "frozen") <= names
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {
        "supervisor",
        "sandbox",
        "config",
        "frozen",
    }


def test_the_sdks_wheel_needs_nothing_and_ships_its_shell_half(tmp_path: Path) -> None:
    names = wheel_of(ROOT / "sdk", tmp_path)
    assert "effectd/handler.sh" in names
    assert "effectd/py.typed" in names
    assert importlib.metadata.requires("effectd") in (None, [])


def test_every_dependency_has_its_reason() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for requirement in importlib.metadata.requires("effectd-daemon") or []:
        name = re.split(r"[^A-Za-z0-9-]", requirement)[0]
        assert re.search(rf"\b{re.escape(name)}\b", told), name


def test_the_readme_links_to_pages_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


@pytest.mark.guarantee("E11")
@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "docs/guarantees.md"])
def test_no_page_promises_exactly_once(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in re.finditer(r"exactly[- ]once|exactly once", text, re.IGNORECASE):
        before = text[max(0, found.start() - 120) : found.start()].lower()
        assert re.search(r"not|never|nobody", before), text[found.start() - 120 : found.end()]
