//! What starts an agent on a machine or in a cluster: it is understood by those who read it.

use std::{fs, path::PathBuf, process::Command};

use heapattach_tests::{Folder, command::Heapattach, compile::is_there, skip::skip};

fn file(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.parent().expect("a workspace").join(".ci/release_files/agent").join(name)
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    if !is_there("systemd-analyze") {
        return skip("units are verified by systemd-analyze", "install systemd");
    }
    let folder = Folder::new("unit");
    let unit = fs::read_to_string(file("heapattach-agent.service")).expect("a file of ours");
    assert!(unit.contains("ExecStart=/usr/bin/heapattach agent "), "{unit}");
    // Else each session of the agent would read again what an earlier one has read.
    for line in ["CacheDirectory=heapattach", "Environment=HEAPATTACH_CACHE=/var/cache/heapattach"]
    {
        assert!(unit.lines().any(|one| one == line), "{unit}");
    }
    // The command is not installed here.
    let unit = unit.replace("/usr/bin/heapattach", "/bin/true");
    let path = folder.0.join("heapattach-agent.service");
    fs::write(&path, unit).expect("a file of ours");
    let output = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&path).output();
    let output = output.expect("it was there");
    let told = String::from_utf8_lossy(&output.stderr);
    let of_it: Vec<_> = told.lines().filter(|line| line.contains("heapattach-agent")).collect();
    assert_eq!(of_it, [""; 0], "{told}");
}

#[test]
fn the_daemon_set_is_yaml_with_what_an_agent_needs_and_no_more() {
    let script = "import sys, yaml\n\
        spec = yaml.safe_load(open(sys.argv[1]))['spec']['template']['spec']\n\
        assert spec['hostPID'] is True\n\
        context = spec['containers'][0]['securityContext']\n\
        mounts = [one['mountPath'] for one in spec['containers'][0]['volumeMounts']]\n\
        assert spec['containers'][0]['env'][0]['name'] == 'XDG_CACHE_HOME'\n\
        assert spec['containers'][0]['env'][0]['value'] in mounts\n\
        assert context['readOnlyRootFilesystem'] is True\n\
        assert context['capabilities'] == {'drop': ['ALL'], 'add': ['SYS_PTRACE', 'SYS_ADMIN', 'SYS_NICE']}\n";
    let has_yaml = Command::new("python3").args(["-c", "import yaml"]).output();
    if !has_yaml.is_ok_and(|output| output.status.success()) {
        return skip("manifests are read by Python's yaml", "pip install pyyaml");
    }
    let output = Command::new("python3").args(["-c", script]).arg(file("daemonset.yaml")).output();
    let output = output.expect("it was there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_example_is_a_file_that_an_agent_understands() {
    let path = file("agent.toml");
    let args = ["agent", "--dry-run", "--config", path.to_str().expect("a path of ours")];
    let told = Heapattach::new(args).run().expect(0).stdout;
    assert!(told.contains("nothing was touched"), "{told}");
}
