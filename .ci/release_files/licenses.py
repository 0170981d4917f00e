"""The licenses of all that is in the command, as they ask to be passed on with it.

    licenses.py METADATA ARTIFACTS TARGET

A text that several crates share word for word is printed once, below all their names.
"""

import sys
from pathlib import Path

import parts

FILES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
RULE = "=" * 80


def texts(folder):
    """The license files of a crate."""
    files = sorted(path for path in folder.iterdir() if path.name.upper().startswith(FILES))
    for path in files:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            yield "\n".join(line.rstrip() for line in text.strip().splitlines())


def main(metadata_path, artifacts_path, target):
    metadata, built = parts.read(metadata_path, artifacts_path, target)
    root = Path(metadata["workspace_root"])
    mit = (root / "LICENSE-MIT").read_text().split("\n\n", 2)[2].strip()
    users = {}

    def note(text, name, license):
        users.setdefault(text, []).append(f"{name} ({license})")

    for part in built:
        if not part.linked:
            continue
        package = part.package
        name, license = f"{package['name']} {package['version']}", parts.expression(package)
        # Those of this project lie above its crates.
        is_own = package["id"] in metadata["workspace_members"]
        found = list(texts(root if is_own else Path(package["manifest_path"]).parent))
        if not found:
            if license != "MIT":
                sys.exit(f"{name} has no license file, and {license} must be looked at by a person")
            found = [f"Copyright (c) the authors of {package['name']}\n\n{mit}"]
        for text in found:
            note(text, name, license)
    for library in parts.runtimes(target):
        name = f"{library.name} {library.version}"
        note(f"Copyright (c) {library.holder}\n\n{mit}", name, library.license)

    print("heapattach is one static file. In it is the work of others, under these licenses.")
    for text, names in sorted(users.items(), key=lambda item: (-len(item[1]), item[1])):
        print(f"\n{RULE}\n" + "\n".join(names) + f"\n{RULE}\n\n{text}")


main(*sys.argv[1:])
