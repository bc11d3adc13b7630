use std::sync::mpsc;

use super::*;

/// Why two files are no pair.
#[derive(Debug, Error)]
enum PairError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0:?} and {1:?} are no pair")]
    Unequal(String, String),
}

/// A folder with two files, which goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nephele-watched-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.join(name), content).expect("written");
    }

    /// The two files, whose contents have to be equal.
    fn pair(&self) -> WatchedFiles<String, PairError> {
        WatchedFiles::new(["first", "second"].map(|name| self.0.join(name)), |contents| {
            let [first, second] = [0, 1].map(|index| String::from_utf8_lossy(&contents[index]).into_owned());
            if first == second {
                Ok(first)
            } else {
                Err(PairError::Unequal(first, second))
            }
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a look returned, as text.
fn said(look: Result<Option<String>, PairError>) -> Result<Option<String>, String> {
    look.map_err(|error| error.to_string())
}

#[test]
fn a_value_is_made_when_a_content_changes_and_stays_while_the_files_make_none() {
    let folder = Folder::new("looks");
    let pair = folder.pair();
    let missing = format!("failed to read {}", folder.0.join("first").display());
    assert_eq!(said(pair.look()), Err(missing));
    assert_eq!(pair.current(), None);
    folder.write("first", "a");
    folder.write("second", "a");
    assert_eq!(said(pair.look()), Ok(Some("a".to_owned())));
    assert_eq!(said(pair.look()), Ok(None));
    // Half renewed: each look reports it again.
    folder.write("first", "b");
    for _ in 0..2 {
        assert_eq!(said(pair.look()), Err("\"b\" and \"a\" are no pair".to_owned()));
        assert_eq!(pair.current(), Some("a".to_owned()));
    }
    folder.write("second", "b");
    assert_eq!(said(pair.look()), Ok(Some("b".to_owned())));
    assert_eq!(pair.current(), Some("b".to_owned()));
}

#[test]
fn other_contents_take_the_place_of_those_of_the_files() {
    let folder = Folder::new("replaced");
    let pair = folder.pair();
    let contents = |first: &str, second: &str| [first, second].map(|text| text.as_bytes().to_vec()).to_vec();
    assert_eq!(pair.replace(contents("a", "a")).expect("a pair"), "a");
    pair.replace(contents("a", "b")).expect_err("no pair");
    assert_eq!(pair.current(), Some("a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn following_looks_once_in_each_interval() {
    let folder = Folder::new("followed");
    folder.write("first", "a");
    folder.write("second", "a");
    let (sender, looks) = mpsc::channel();
    let following = Arc::new(folder.pair()).follow(INTERVAL, move |look| {
        sender.send(said(look)).expect("the test listens");
    });
    // The paused time advances when nothing else is to be done.
    let passed = tokio::time::timeout(INTERVAL * 3 - Duration::from_secs(1), following).await;
    passed.expect_err("it never ends");
    assert_eq!(
        looks.try_iter().collect::<Vec<_>>(),
        [Ok(Some("a".to_owned())), Ok(None)]
    );
}
