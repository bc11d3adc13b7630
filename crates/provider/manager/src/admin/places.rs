//! Places for the readers of the journal, with shares, so that neither one person nor one namespace takes them all.

use std::sync::Arc;

use nephele_listen::Owner;
use parking_lot::Mutex;

use super::{namespace::Namespace, reviews::User};

/// Readers at a time. Each holds at most 96 KiB of lines and a connection: with the buffers of that, 160 KiB. So all hold
/// 10 MiB, which `docs/src/security.md` counts.
pub(crate) const READERS_MAX: usize = 64;
/// Readers of one user: a page and a terminal on each of a few machines.
pub(super) const OF_USER_MAX: usize = 8;
/// Readers that may read one namespace only, and the same one: a quarter.
pub(super) const OF_NAMESPACE_MAX: usize = 16;
/// Places that only those get who may read all namespaces: a quarter, so that tenants do not lock out their administrators.
const KEPT_MAX: usize = 16;

/// Who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reader {
    /// None where callers are not told apart, as in `nephele up`.
    pub(super) user: Option<User>,
    /// The only namespace that the reader may read; none for those who may read all, also when they ask for one.
    pub(super) only: Option<Namespace>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("you are reading the journal {OF_USER_MAX} times already; end one of these first")]
    OfUser,
    #[error("the journal of this namespace has {OF_NAMESPACE_MAX} readers already")]
    OfNamespace,
    #[error("too many readers of the journal")]
    Full,
}

/// The places. Cheap to clone; all clones share them.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Vec<Taken>>>);

/// A place that is taken. There are at most [`READERS_MAX`].
#[derive(Debug)]
struct Taken {
    reader: Reader,
    number: Owner,
    turns: Owner,
}

/// A place, until it is dropped.
pub(super) struct Place {
    places: Places,
    number: Owner,
    /// Whose turns of reading it takes: all readers of one user read one after the other.
    pub(super) turns: Owner,
}

impl Places {
    /// A place for this reader.
    ///
    /// # Errors
    /// When the reader, or all, have as many as they may have.
    pub(super) fn take(&self, reader: Reader) -> Result<Place, NoPlace> {
        let mut taken = self.0.lock();
        admit(taken.iter().map(|taken| &taken.reader), &reader)?;
        let number = Owner::unique();
        let of_user = |taken: &&Taken| reader.user.is_some() && taken.reader.user == reader.user;
        let turns = taken.iter().find(of_user).map_or(number, |taken| taken.turns);
        taken.push(Taken {
            reader,
            number,
            turns,
        });
        Ok(Place {
            places: self.clone(),
            number,
            turns,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        taken.retain(|taken| taken.number != self.number);
    }
}

/// Whether there is a place for another reader beside these.
fn admit<'a>(readers: impl Iterator<Item = &'a Reader>, new: &Reader) -> Result<(), NoPlace> {
    let mut all = 0;
    let mut of_user = 0;
    let mut of_tenants = 0;
    let mut of_namespace = 0;
    for reader in readers {
        all += 1;
        of_user += usize::from(reader.user.is_some() && reader.user == new.user);
        of_tenants += usize::from(reader.only.is_some());
        of_namespace += usize::from(reader.only.is_some() && reader.only == new.only);
    }
    if of_user >= OF_USER_MAX {
        return Err(NoPlace::OfUser);
    }
    if of_namespace >= OF_NAMESPACE_MAX {
        return Err(NoPlace::OfNamespace);
    }
    let has_place = all < READERS_MAX && (new.only.is_none() || of_tenants < READERS_MAX - KEPT_MAX);
    has_place.then_some(()).ok_or(NoPlace::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(user: &str, only: Option<&str>) -> Reader {
        let only = only.map(|name| Namespace::try_from(name.to_owned()).expect("a name"));
        let user = Some(User::named(user));
        Reader { user, only }
    }

    /// How many of these get a place, and what the others hear.
    fn admitted(readers: impl IntoIterator<Item = Reader>) -> (usize, Vec<NoPlace>) {
        let places = Places::default();
        let mut held = Vec::new();
        let mut refused = Vec::new();
        for reader in readers {
            match places.take(reader) {
                Ok(place) => held.push(place),
                Err(why) => refused.push(why),
            }
        }
        refused.dedup();
        (held.len(), refused)
    }

    #[test]
    fn neither_a_person_nor_a_namespace_nor_all_tenants_take_every_place() {
        let many = |number: usize| (0..number).map(|number| number.to_string());
        let tenants = || many(100).map(|name| reader(&name, Some(&format!("n{name}"))));
        let administrators = || many(100).map(|name| reader(&name, None));
        let one_person = many(100).map(|name| reader("ada", Some(&format!("n{name}"))));
        let one_administrator = many(100).map(|_| reader("root", None));
        let one_namespace = many(100).map(|name| reader(&name, Some("ada")));
        let tenants_first = tenants().chain(many(100).map(|name| reader(&format!("a{name}"), None)));
        let unknown = many(100).map(|_| Reader {
            user: None,
            only: None,
        });
        assert_eq!(
            [
                admitted(one_person),
                admitted(one_administrator),
                admitted(one_namespace),
                admitted(tenants()),
                admitted(administrators()),
                admitted(tenants_first),
                admitted(unknown),
            ],
            [
                (8, vec![NoPlace::OfUser]),
                (8, vec![NoPlace::OfUser]),
                (16, vec![NoPlace::OfNamespace]),
                (48, vec![NoPlace::Full]),
                (64, vec![NoPlace::Full]),
                (64, vec![NoPlace::Full]),
                (64, vec![NoPlace::Full]),
            ]
        );
    }

    #[test]
    fn a_place_is_given_back_and_those_of_a_user_have_turns_in_common() {
        let places = Places::default();
        let take = |user, only| places.take(reader(user, only)).expect("a place");
        let first = take("ada", Some("ada"));
        let second = take("ada", None);
        let other = take("bob", Some("ada"));
        assert!(first.turns == second.turns && first.turns != other.turns);
        drop(first);
        let left: Vec<_> = places.0.lock().iter().map(|taken| taken.reader.clone()).collect();
        assert_eq!(left, [reader("ada", None), reader("bob", Some("ada"))]);
    }

    /// The MiB that a cell ends with; none in an empty one.
    fn mebibytes(cell: &str) -> Option<u64> {
        let number = cell.trim_matches(['*', ' ']).strip_suffix(" MiB")?;
        let number = number.rsplit(' ').next()?.replace(',', "");
        number.parse().ok()
    }

    #[test]
    fn the_table_of_what_clients_may_hold_adds_up_and_fits_into_the_limit_of_the_chart() {
        let page = include_str!("../../../../../docs/src/security.md");
        let (_, table) = page
            .split_once("| What | Of one | Of the process |")
            .expect("the table");
        let rows = table
            .lines()
            .take_while(|line| !line.contains("A peer is an address"));
        let rows = rows.filter_map(|row| {
            let mut cells = row
                .strip_prefix('|')?
                .strip_suffix('|')?
                .split('|')
                .map(str::trim);
            Some((cells.next()?, cells.next()?, cells.next()?))
        });
        let rows: Vec<_> = rows.collect();
        let of = |what: &str| rows.iter().position(|row| row.0 == what).expect("a row");
        let end = of("**sum**");
        let sum: u64 = rows[..end].iter().filter_map(|row| mebibytes(row.2)).sum();
        let all = of("**sum for a cluster whose clients hold all they may**");
        let of_cluster: u64 = rows[end + 1..all].iter().filter_map(|row| mebibytes(row.1)).sum();
        assert_eq!(
            (Some(sum), Some(of_cluster)),
            (mebibytes(rows[end].2), mebibytes(rows[all].1))
        );

        let readers = rows
            .iter()
            .find(|row| row.0.starts_with("readers of the journal"));
        let (_, of_one, all) = readers.expect("a row");
        let expected = format!(
            "160 KiB of a reader; {OF_USER_MAX} readers of a person, {OF_NAMESPACE_MAX} of a namespace"
        );
        assert_eq!(
            (*of_one, *all),
            (
                expected.as_str(),
                format!("{READERS_MAX}: {} MiB", READERS_MAX * 160 / 1024).as_str()
            )
        );

        // The page says that there is room for six clusters.
        let values = include_str!("../../../../../charts/nephele/values.yaml");
        assert!(values.contains("\n    memory: 2Gi\n"));
        assert!(sum + 6 * of_cluster <= 2048);
    }
}
