//! The spool stays within its bounds: the oldest profiles go, tables with all files of their session.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use heapattach_agent::{Config, Kept, excess};
use heapattach_files::whole_file;

use super::{events::now, spool::TABLES};

/// Files that are ours, besides tables.
const ENDS: [&str; 2] = [".pb.gz", ".heapattach-moment"];
/// The table that tells of a session: without it a reader does not meet the others.
const SESSION: &str = "session";
/// TABLE, service and day are above a file of tables.
const DEPTH: usize = 3;

/// What is in the spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spooled {
    /// So many files,
    pub files: u64,
    /// of so many bytes.
    pub bytes: u64,
}

/// Removes what is too much or too old; with what stays, and how many files that were.
pub fn tidy(config: &Config) -> (Spooled, u64) {
    let folder = config.spool();
    let tables = folder.join(TABLES);
    [&folder, &tables].into_iter().for_each(|folder| whole_file::remove_unfinished(folder));
    let mut all: Vec<Kept> = entries(&folder).filter_map(|entry| file(&entry)).collect();
    all.extend(sessions(&tables));
    let count = |kept: &Kept| kept.paths.len() as u64;
    let mut left = Spooled {
        files: all.iter().map(count).sum(),
        bytes: all.iter().map(|kept| kept.bytes).sum(),
    };
    let oldest = now().saturating_sub(config.spool.max_age.as_secs());
    let mut removed = 0;
    for kept in excess(all, config.spool.max_size, oldest) {
        for path in &kept.paths {
            if fs::remove_file(path).is_ok() {
                removed += 1;
                left.files -= 1;
            }
            // Days and services that have no session any more; others are not empty.
            let above = path.ancestors().skip(1).take(DEPTH);
            above.filter(|above| above.starts_with(&tables) && *above != tables).for_each(
                |above| {
                    let _ = fs::remove_dir(above);
                },
            );
        }
        left.bytes -= kept.bytes;
    }
    (left, removed)
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn file(entry: &fs::DirEntry) -> Option<Kept> {
    let name = entry.file_name();
    let name = name.to_str()?;
    let is_ours = !name.starts_with('.') && ENDS.iter().any(|end| name.ends_with(end));
    is_ours.then(|| kept(entry.path())).flatten()
}

fn kept(path: PathBuf) -> Option<Kept> {
    let about = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    let at = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    Some(Kept { paths: vec![path], bytes: about.len(), at })
}

/// The tables of each session.
fn sessions(tables: &Path) -> Vec<Kept> {
    let mut files = vec![tables.to_owned()];
    for _ in 0..=DEPTH {
        files = files.iter().flat_map(|above| entries(above)).map(|entry| entry.path()).collect();
    }
    let mut sessions: BTreeMap<PathBuf, Kept> = BTreeMap::new();
    for path in files {
        let is_table = path.extension().is_some_and(|end| end == "parquet");
        let name = path.file_name().filter(|_| is_table).map(PathBuf::from);
        let Some((name, kept)) = name.zip(kept(path)) else { continue };
        match sessions.get_mut(&name) {
            Some(session) => {
                session.bytes += kept.bytes;
                session.at = session.at.max(kept.at);
                session.paths.extend(kept.paths);
            }
            None => {
                sessions.insert(name, kept);
            }
        }
    }
    let of_session = tables.join(SESSION);
    let first = |mut kept: Kept| {
        kept.paths.sort_by_key(|path| !path.starts_with(&of_session));
        kept
    };
    sessions.into_values().map(first).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heapattach_test_folder::Folder;

    use super::*;

    fn put(folder: &Folder, name: &str, age: u64) {
        let path = folder.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        file.set_len(100).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }

    fn config(folder: &Folder, limit: &str) -> Config {
        let folder = folder.0.display();
        let text = format!(
            "version = 1\n[spool]\nfolder = '{folder}'\n{limit}\n[[rule]]\nname = 'a'\nuser = 'x'\n"
        );
        Config::parse(&text).unwrap()
    }

    #[test]
    fn moments_go_as_profiles_do_and_other_files_stay() {
        let folder = Folder::new("spool");
        put(&folder, "a-7-1.heapattach-moment", 300);
        put(&folder, "a-7-2-3.pb.gz", 200);
        put(&folder, "a-7-4.heapattach-moment", 100);
        put(&folder, "notes.txt", 9000);
        let is_there = |name: &str| folder.0.join(name).exists();
        let left = tidy(&config(&folder, "max-size = '200'"));
        assert_eq!(left, (Spooled { files: 2, bytes: 200 }, 1));
        assert!(!is_there("a-7-1.heapattach-moment") && is_there("a-7-2-3.pb.gz"));
        let left = tidy(&config(&folder, "max-age = '150s'"));
        assert_eq!(left, (Spooled { files: 1, bytes: 100 }, 1));
        assert!(is_there("a-7-4.heapattach-moment") && is_there("notes.txt"));
    }

    #[test]
    fn tables_of_a_session_go_together_with_folders_that_have_no_other() {
        let folder = Folder::new("spool-tables");
        for (session, age) in [("1", 300), ("2", 200)] {
            for table in ["sums", "session"] {
                put(
                    &folder,
                    &format!("tables/{table}/service=s{session}/day=d/{session}.parquet"),
                    age,
                );
            }
        }
        // The one of another day keeps its session young.
        put(&folder, "tables/sums/service=s2/day=e/2.parquet", 100);
        put(&folder, "a-7-2-3.pb.gz", 150);
        put(&folder, "tables/sums/notes", 9000);
        let left = tidy(&config(&folder, "max-size = '450'"));
        assert_eq!(left, (Spooled { files: 4, bytes: 400 }, 2));
        let is_there = |name: &str| folder.0.join(name).exists();
        assert!(!is_there("tables/sums/service=s1") && !is_there("tables/session/service=s1"));
        assert!(
            is_there("tables/sums/service=s2/day=d/2.parquet") && is_there("tables/sums/notes")
        );
        let left = tidy(&config(&folder, "max-age = '120s'"));
        assert_eq!(left, (Spooled { files: 3, bytes: 300 }, 1));
        assert_eq!(tidy(&config(&folder, "max-size = '0'")), (Spooled::default(), 3));
        assert!(!is_there("tables/session") && is_there("tables/sums/notes"));
    }
}
