//! Compiles the payload that the command carries, `$OUT_DIR/payload.so`, and the one that counts
//! blocks by size as well, `$OUT_DIR/payload_flow.so`.
//!
//! Not by cargo: flags that suit the command (`-C target-cpu=native`, profiles, sanitizers) would
//! put foreign instructions into other people's processes, and a nested cargo would wait for the
//! lock its parent holds. A few calls of `$RUSTC` with fixed flags take well under a second and give
//! the same bytes every time. The sources are those of the build-dependency, wherever cargo has
//! put it, so this works from a package too.

#[path = "build/origin.rs"]
mod origin;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// What one compilation takes from its surroundings, and nothing else.
struct Toolchain {
    /// The compiler.
    rustc: PathBuf,
    /// The linker driver, where it is not the compiler's default.
    linker: Option<PathBuf>,
    /// The target triple of the command, hence of the payload.
    target: String,
}

/// Flags of both crates.
const CODE: [&str; 14] = [
    "--edition=2024",
    "--cfg=heapattach_payload",
    "-Cpanic=abort",
    "-Copt-level=3",
    "-Cembed-bitcode=yes",
    "-Ccodegen-units=1",
    "-Ctarget-cpu=x86-64",
    "-Crelocation-model=pic",
    "-Cforce-unwind-tables=no",
    "-Cdebuginfo=0",
    "-Coverflow-checks=no",
    "-Cdebug-assertions=no",
    // Vector registers are the target's.
    "-Cno-vectorize-loops",
    "-Cno-vectorize-slp",
];

/// Everything in one section, which is mapped as it is: the hooks first, since they begin with the
/// descriptor.
const SCRIPT: &str = "SECTIONS {
  . = SIZEOF_HEADERS;
  .gnu.hash : { *(.gnu.hash) }
  .hash : { *(.hash) }
  .dynsym : { *(.dynsym) }
  .dynstr : { *(.dynstr) }
  . = ALIGN(4096);
  .heapattach : { *(.heapattach) *(.text .text.*) *(.rodata .rodata.*) }
  . = ALIGN(4096);
  .dynamic : { *(.dynamic) }
  /DISCARD/ : { *(.eh_frame .eh_frame_hdr .comment) }
}
";

/// Flags of the link: a file of one section and one symbol.
const LINK: [&str; 8] = [
    "-Clto=fat",
    "-Cstrip=symbols",
    "-Cdefault-linker-libraries=no",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-Wl,--build-id=none",
    "-Clink-arg=-Wl,-z,noexecstack",
    "-Clink-arg=-Wl,--no-undefined",
];

/// The files, and what makes each another one.
const PAYLOADS: [(&str, &[&str]); 2] =
    [("payload.so", &[]), ("payload_flow.so", &["--cfg=heapattach_flow"])];

/// Variables by which compiler and linker would change what they make.
const STRANGERS: [&str; 14] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_BOOTSTRAP",
    "RUSTC_FORCE_RUSTC_VERSION",
    "LD_RUN_PATH",
    "LDFLAGS",
    "CFLAGS",
    "LDEMULATION",
    "GNUTARGET",
    "LIBRARY_PATH",
    "GCC_EXEC_PREFIX",
    "COLLECT_NO_DEMANGLE",
];

fn main() {
    let out_dir = PathBuf::from(variable("OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-env=HEAPATTACH_BUILD_TARGET={}", variable("TARGET"));
    origin::tell(Path::new(&variable("RUSTC")));
    for dir in [heapattach_payload::SOURCE_DIR, heapattach_payload::ABI_SOURCE_DIR] {
        println!("cargo::rerun-if-changed={dir}/src");
    }
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        // Nothing to carry there yet; an empty file is refused when it is needed.
        for (name, _) in PAYLOADS {
            std::fs::write(out_dir.join(name), []).expect("the output directory is writable");
        }
        return;
    }
    let toolchain = Toolchain {
        rustc: variable("RUSTC").into(),
        linker: env::var_os("RUSTC_LINKER").map(PathBuf::from),
        target: variable("TARGET"),
    };
    for (name, value) in [("RUSTC", &toolchain.rustc), ("SCRIPT", &own_path())] {
        // For the test that runs this script again.
        println!("cargo::rustc-env=HEAPATTACH_BUILD_{name}={}", value.display());
    }
    if let Err(error) = compile(&toolchain, &out_dir) {
        println!("cargo::error=the payload was not built: {error}");
    }
}

/// Makes all payloads in `out_dir`; if the compiler fails, what it said is in the error.
fn compile(toolchain: &Toolchain, out_dir: &Path) -> io::Result<()> {
    let abi = out_dir.join("libheapattach_abi.rlib");
    let mut command = toolchain.compiler("heapattach_abi", heapattach_payload::ABI_SOURCE_DIR);
    run(command.arg("--crate-type=rlib").arg("-o").arg(&abi))?;

    let script = out_dir.join("payload.ld");
    std::fs::write(&script, SCRIPT)?;
    for (name, flags) in PAYLOADS {
        link(toolchain, &out_dir.join(name), flags, &script, &abi)?;
    }
    Ok(())
}

fn link(
    toolchain: &Toolchain,
    payload: &Path,
    flags: &[&str],
    script: &Path,
    abi: &Path,
) -> io::Result<()> {
    let mut command = toolchain.compiler("heapattach_payload", heapattach_payload::SOURCE_DIR);
    command.arg("--crate-type=cdylib").args(flags).args(LINK).arg("-o").arg(payload);
    command.arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    command.arg("--extern").arg(format!("heapattach_abi={}", abi.display()));
    if toolchain.target.contains("-musl") {
        // Static by default there, and then without shared objects.
        command.arg("-Ctarget-feature=-crt-static");
    }
    if let Some(linker) = &toolchain.linker {
        command.arg(format!("-Clinker={}", linker.display()));
    }
    run(&mut command)
}

impl Toolchain {
    fn compiler(&self, name: &str, source: &str) -> Command {
        let mut command = Command::new(&self.rustc);
        command.arg(format!("--crate-name={name}")).arg(format!("--target={}", self.target));
        command.args(CODE);
        command.arg(format!("--remap-path-prefix={source}=/{name}"));
        command.arg(Path::new(source).join("src/lib.rs"));
        for stranger in STRANGERS {
            command.env_remove(stranger);
        }
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
                command.env_remove(name);
            }
        }
        command
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{} ({})", said.trim(), output.status).replace('\n', " | ")))
}

fn own_path() -> PathBuf {
    env::current_exe().expect("Linux knows the path of every program")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
