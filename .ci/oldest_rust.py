"""Prints the oldest Rust that the workspace names, and fails if a crate that is built asks for more.

Reads `cargo metadata`. What a crate asks for is its promise: it may be wrong, or missing.
"""

import json
import sys


def number(version):
    return tuple(int(part) for part in version.split("."))[:2]


metadata = json.load(sys.stdin)
members = [p for p in metadata["packages"] if p["id"] in metadata["workspace_members"]]
oldest = {package["rust_version"] for package in members}
if len(oldest) != 1:
    sys.exit(f"members of the workspace name different versions of Rust: {oldest}")
(oldest,) = oldest
newer = [
    f"{package['name']} {package['version']} needs Rust {package['rust_version']}"
    for package in metadata["packages"]
    if package["rust_version"] and number(package["rust_version"]) > number(oldest)
]
if newer:
    sys.exit("\n".join([f"Cargo.toml names Rust {oldest}, but:", *newer]))
print(oldest)
