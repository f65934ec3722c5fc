"""Collects the artefacts of a release in out/release, with their checksums: the last step of `make release`."""

import gzip
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "release"
DOCUMENTS = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"]
PROGRAM = "lockstep.exe" if sys.platform == "win32" else "lockstep"
# What a user gets as a binary; the other crates are parts of these.
SBOMS = ["cli", "python", "capi"]


def host() -> str:
    """The target triple of this machine's compiler."""
    lines = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def archive(name: str, members: dict[str, Path]) -> None:
    """Packs files below a folder of the archive's name. Equal files give an equal archive."""
    with (
        (OUT / f"{name}.tar.gz").open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for member, path in sorted(members.items()):
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size = path.stat().st_size
            info.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as content:
                tar.addfile(info, content)


def stripped(program: Path) -> Path:
    """A copy of the program without debug information, where the system can remove it."""
    copy = ROOT / "out" / program.name
    shutil.copy2(program, copy)
    strip = shutil.which("strip")
    if strip is not None:
        subprocess.run([strip, str(copy)], check=True)
    return copy


def only(folder: Path, pattern: str) -> Path:
    """The file that matches; a second, stale one is an error."""
    match sorted(folder.glob(pattern)):
        case [path]:
            return path
        case found:
            raise SystemExit(f"cannot collect {folder / pattern}: {len(found)} files match, expected one")


def main() -> None:
    """Fills out/release from what make built."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    triple = host()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)

    documents = {name: ROOT / name for name in DOCUMENTS}
    archive(f"lockstep-{version}-{triple}", {PROGRAM: stripped(ROOT / "target" / "release" / PROGRAM)} | documents)
    installed = ROOT / "out" / "c"
    library = {str(path.relative_to(installed)): path for path in installed.rglob("*") if path.is_file()}
    archive(f"liblockstep-{version}-{triple}", library | documents)

    shutil.copy2(only(ROOT / "out" / "wheel", f"lockstep_video-{version}-*.whl"), OUT)
    shutil.copy2(ROOT / "out" / "sdist" / f"lockstep_video-{version}.tar.gz", OUT)
    for crate in (ROOT / "target" / "package").glob(f"lockstep*-{version}.crate"):
        shutil.copy2(crate, OUT)
    for name in SBOMS:
        shutil.copy2(ROOT / "crates" / name / f"lockstep-{name}.cdx.json", OUT / f"lockstep-{name}-{version}.cdx.json")

    files = sorted(path for path in OUT.iterdir() if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (OUT / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    print(f"{len(files)} files and SHA256SUMS in {OUT}")


if __name__ == "__main__":
    main()
