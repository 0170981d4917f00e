"""The crates that a build consists of: not what cargo may choose, but what it has built.

Cargo tells of every artifact where it lies. What is made for the target lies in the target's folder and is
linked into the command; the rest ran at build time (build scripts, procedural macros, and what they use).
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

# Compiled by the command's build script and embedded: part of the command, whatever cargo calls them.
EMBEDDED = ("heapattach-payload", "heapattach-abi")

# A version in what musl's libc.a says of itself.
VERSION = re.compile(rb"\x00(1\.\d+\.\d+)\x00")


class Part(NamedTuple):
    """One crate: what `cargo metadata` says of it, and whether it is in the command."""

    package: dict
    linked: bool


class Runtime(NamedTuple):
    """What every program of the target has in it, and no manifest names."""

    name: str
    version: str
    license: str
    holder: str


def read(metadata_path, artifacts_path, target):
    """The metadata, and all crates of the build by name and version."""
    metadata = json.loads(Path(metadata_path).read_text())
    packages = {package["id"]: package for package in metadata["packages"]}
    folder = os.path.join(metadata["target_directory"], target, "")
    built, linked = set(), set()
    for line in Path(artifacts_path).read_text().splitlines():
        artifact = json.loads(line)
        if artifact["reason"] == "compiler-artifact":
            built.add(artifact["package_id"])
            if any(file.startswith(folder) for file in artifact["filenames"]):
                linked.add(artifact["package_id"])
    parts = [
        Part(packages[part], part in linked or packages[part]["name"] in EMBEDDED) for part in built
    ]
    return metadata, sorted(parts, key=lambda part: (part.package["name"], part.package["version"]))


def runtimes(target):
    """Rust's own library and the C library below it, both from the toolchain."""

    def rustc(*arguments):
        return subprocess.check_output(["rustc", *arguments], text=True)

    rust = rustc("--version").split()[1]
    library = Path(rustc("--print", "target-libdir", "--target", target).strip(), "self-contained/libc.a")
    musl = VERSION.search(library.read_bytes())
    musl = musl.group(1).decode() if musl else "unknown"
    return [
        Runtime("musl", musl, "MIT", "Rich Felker, et al."),
        Runtime("rust-std", rust, "MIT OR Apache-2.0", "The Rust Project contributors"),
    ]


def expression(package):
    """The license as SPDX has it: cargo once allowed a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", package["license"])
