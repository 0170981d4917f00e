//! Data in a page: as JSON while that is short, so that it can be read; else packed, which a browser
//! undoes in a fraction of the time that it takes to load what is not packed.
//!
//! Of what is very long the whole is never in memory: it is packed while it is made.

use std::{
    io::{self, BufWriter, IntoInnerError, Write},
    panic,
    sync::mpsc::{self, SyncSender},
    thread,
};

use flate2::{Compression, write::GzEncoder};
use serde::Serialize;

use super::{base64::Base64, escaped::Escaped};

/// JSON that is longer is packed.
pub const LONG: usize = 256 << 10;
/// JSON that is longer is packed in haste: a hundred megabytes would take a quarter of a minute.
const VERY_LONG: usize = 16 << 20;
/// Bytes that are packed at once, and so many of these may wait.
const PIECE: usize = 64 << 10;
const WAITING: usize = 8;

/// JSON on its way into the page.
enum Json<'a> {
    /// As much as there is of what may be short.
    Waiting(Vec<u8>, &'a mut dyn Write),
    /// What is very long.
    Packing(GzEncoder<Base64<&'a mut dyn Write>>),
    /// Between both, or where the page cannot be written to.
    Broken,
}

/// Writes the element that has the data: one thread makes the JSON, another one packs it.
pub fn write(data: &(impl Serialize + Sync), out: &mut dyn Write) -> io::Result<()> {
    let mut json = Json::Waiting(Vec::new(), &mut *out);
    thread::scope(|scope| {
        let (pieces, made) = mpsc::sync_channel(WAITING);
        let make = move || make(data, Pieces(pieces));
        let Ok(maker) = thread::Builder::new().spawn_scoped(scope, make) else {
            return self::make(data, &mut json);
        };
        // If that fails the maker has no more use for its pieces, and ends.
        made.into_iter().try_for_each(|piece: Vec<u8>| json.write_all(&piece))?;
        maker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    })?;
    json.finish()?;
    out.write_all(b"</script>")
}

/// Most numbers are told in a few bytes, which are put together.
fn make(data: &impl Serialize, out: impl Write) -> io::Result<()> {
    let mut json = BufWriter::with_capacity(PIECE, out);
    serde_json::to_writer(&mut json, data)?;
    json.into_inner().map(drop).map_err(IntoInnerError::into_error)
}

/// Pieces of JSON, for another thread.
struct Pieces(SyncSender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn packer(
    out: &mut dyn Write,
    level: Compression,
) -> io::Result<GzEncoder<Base64<&mut dyn Write>>> {
    out.write_all(br#"<script type="text/plain" id="data">"#)?;
    Ok(GzEncoder::new(Base64::new(out), level))
}

impl Json<'_> {
    fn finish(self) -> io::Result<()> {
        match self {
            Json::Waiting(json, out) if json.len() <= LONG => {
                out.write_all(br#"<script type="application/json" id="data">"#)?;
                let mut escaped = BufWriter::new(Escaped::new(out));
                escaped.write_all(&json)?;
                escaped.flush()
            }
            Json::Waiting(json, out) => {
                let mut packer = packer(out, Compression::default())?;
                packer.write_all(&json)?;
                packer.finish()?.finish().map(drop)
            }
            Json::Packing(packer) => packer.finish()?.finish().map(drop),
            Json::Broken => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

impl Write for Json<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Json::Packing(packer) => return packer.write(bytes),
            Json::Waiting(json, _) if json.len() + bytes.len() <= VERY_LONG => {
                json.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
            Json::Waiting(..) | Json::Broken => {}
        }
        if let Json::Waiting(json, out) = std::mem::replace(self, Json::Broken) {
            let mut packer = packer(out, Compression::fast())?;
            packer.write_all(&json)?;
            *self = Json::Packing(packer);
            return self.write(bytes);
        }
        Err(io::ErrorKind::WriteZero.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn short_data_can_be_read_and_long_data_are_packed() {
        let element = |text: &str| {
            let mut out = Vec::new();
            write(&text, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let short = element("</script>");
        assert_eq!(short.matches('<').count(), 2, "{short}");
        assert!(short.starts_with("<script type=\"application/json\""), "{short}");
        let long = element(&"a".repeat(LONG));
        assert!(long.starts_with("<script type=\"text/plain\" id=\"data\">H4sI"), "{long}");
        assert!(long.len() < 2000 && long.ends_with("</script>"), "{long}");
    }

    #[test]
    fn what_is_very_long_is_whole_when_it_is_unpacked() {
        let numbers: Vec<u64> = (0..2_500_000).collect();
        let json = serde_json::to_vec(&numbers).unwrap();
        assert!(json.len() > VERY_LONG);
        let mut out = Vec::new();
        write(&numbers, &mut out).unwrap();
        let begin = b"<script type=\"text/plain\" id=\"data\">";
        let text = out.strip_prefix(begin).and_then(|out| out.strip_suffix(b"</script>")).unwrap();
        let mut unpacked = Vec::new();
        GzDecoder::new(&bytes(text)[..]).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == json, "{} bytes instead of {}", unpacked.len(), json.len());
    }

    /// Those of a text of 64 letters.
    fn bytes(text: &[u8]) -> Vec<u8> {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let value = |letter: &u8| LETTERS.iter().position(|one| one == letter);
        let four = |four: &[u8]| {
            let values: Vec<u32> =
                four.iter().filter_map(value).map(|value| u32::try_from(value).unwrap()).collect();
            let bits = values.iter().fold(0, |bits, value| bits << 6 | value);
            let [_, three @ ..] = (bits << (6 * (4 - values.len()))).to_be_bytes();
            three.into_iter().take(values.len() * 3 / 4).collect::<Vec<_>>()
        };
        text.chunks(4).flat_map(four).collect()
    }
}
