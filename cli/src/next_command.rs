//! What opens a file that was just written.

use std::path::Path;

use heapattach_export::Format;
use heapattach_view::quoted;

use crate::args::FileFormat;

/// A line for the user: where the file is, and what to type next.
pub fn written(path: &Path, format: FileFormat) -> String {
    let file = quoted(&path.to_string_lossy());
    // A pipe or a descriptor is read by another program.
    if path.starts_with("/dev") {
        return format!("written to {file}");
    }
    format!("written to {file}; open it with: {}", command(&file, format))
}

fn command(file: &str, format: FileFormat) -> String {
    match format {
        FileFormat::Html | FileFormat::Export(Format::Flamegraph | Format::Callgraph) => {
            format!("xdg-open {file}")
        }
        FileFormat::Parquet => {
            format!("duckdb -c \"from read_parquet('{file}/sums/**', hive_partitioning = true)\"")
        }
        FileFormat::Export(Format::Massif) => {
            format!("ms_print {file}   # or massif-visualizer {file}")
        }
        FileFormat::Export(Format::Pprof) => format!("go tool pprof -http=: {file}"),
        FileFormat::Export(Format::Collapsed) => {
            format!("flamegraph.pl {file} > flame.svg   # or speedscope {file}")
        }
        FileFormat::Export(Format::Heaptrack) => {
            format!("heaptrack_gui {file}   # or heaptrack_print {file}")
        }
        FileFormat::Export(Format::Dhat) => {
            format!("xdg-open /usr/libexec/valgrind/dh_view.html   # and load {file} there")
        }
        FileFormat::Export(Format::Firefox) => {
            format!("xdg-open https://profiler.firefox.com   # and load {file} there")
        }
        FileFormat::Export(Format::Heapprofile) => {
            format!("jeprof --text PROGRAM {file}   # or google-pprof")
        }
        FileFormat::Export(Format::Otlp) => format!(
            "curl -H 'Content-Type: application/x-protobuf' --data-binary @{file} \
             http://COLLECTOR:4318/v1development/profiles"
        ),
        FileFormat::Export(Format::Json) => format!("jq . {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_command_with_the_file_as_one_word() {
        for format in FileFormat::ALL {
            let line = written(Path::new("my heap.out"), format);
            let (_, command) = line.split_once("open it with: ").unwrap();
            assert!(command.contains("'my heap.out'"), "{line}");
        }
        let pipe = written(Path::new("/dev/fd/63"), FileFormat::Html);
        assert_eq!(pipe, "written to /dev/fd/63");
    }
}
