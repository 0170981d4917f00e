"""The bill of materials of a release: CycloneDX 1.6, as JSON.

    sbom.py METADATA ARTIFACTS TARGET FILE

What is linked into FILE is `required`; what only took part in its making is `excluded`. Checksums are those
of Cargo.lock. Nothing in it depends on when or where it is written.
"""

import hashlib
import json
import os
import sys
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

import parts


def checksums(lock):
    """Those that Cargo.lock has, by name and version; crates of this workspace have none."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def purl(package):
    """The name of a crate in the language of such lists."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def sha256(value):
    return [{"alg": "SHA-256", "content": value}]


def component(part, sums):
    """One crate."""
    package = part.package
    made = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if part.linked else "excluded",
        "licenses": [{"expression": parts.expression(package)}],
        "purl": purl(package),
    }
    checksum = sums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = sha256(checksum)
    if package.get("repository"):
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def runtime(library):
    """A library of the toolchain."""
    name = f"pkg:generic/{library.name}@{library.version}"
    return {
        "type": "library",
        "bom-ref": name,
        "name": library.name,
        "version": library.version,
        "scope": "required",
        "licenses": [{"expression": library.license}],
        "purl": name,
    }


def arrows(metadata, built):
    """Who uses whom, tests aside, among what was built."""
    names = {part.package["id"]: purl(part.package) for part in built}
    for node in sorted(metadata["resolve"]["nodes"], key=lambda node: node["id"]):
        if node["id"] not in names:
            continue
        used = {
            names[dependency["pkg"]]
            for dependency in node["deps"]
            if dependency["pkg"] in names
            and any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        }
        yield {"ref": names[node["id"]], "dependsOn": sorted(used)}


def bill(metadata_path, artifacts_path, target, file):
    """The whole document."""
    metadata, built = parts.read(metadata_path, artifacts_path, target)
    sums = checksums(Path(metadata["workspace_root"], "Cargo.lock"))
    own = [part for part in built if part.package["name"] == "heapattach"]
    others = [part for part in built if part not in own]
    command = component(own[0], sums) | {
        "type": "application",
        "description": own[0].package["description"],
        "hashes": sha256(hashlib.sha256(Path(file).read_bytes()).hexdigest()),
        "pedigree": {"commits": [{"uid": os.environ["HEAPATTACH_COMMIT"]}]},
    }
    del command["scope"]
    runtimes = parts.runtimes(target)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    compiler = {"type": "application", "name": "rustc", "version": runtimes[-1].version}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).isoformat(),
            "tools": {"components": [compiler]},
            "component": command,
            "properties": [{"name": "cdx:rustc:sbom:target:triple", "value": target}],
        },
        "components": [component(part, sums) for part in others] + [runtime(r) for r in runtimes],
        "dependencies": list(arrows(metadata, built)),
    }
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return document | {"serialNumber": f"urn:uuid:{name}"}


print(json.dumps(bill(*sys.argv[1:]), indent=1))
