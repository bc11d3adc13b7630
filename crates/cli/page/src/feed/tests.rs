use super::*;
use crate::model::tests::objects;

fn some(machines: usize) -> Arc<Objects> {
    let mut objects = objects();
    objects.machines.truncate(machines);
    objects.in_memory_machines.truncate(machines);
    Arc::new(objects)
}

fn text(found: Option<(u64, Bytes)>) -> String {
    let (_, bytes) = found.expect("there is more");
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn feed() -> Feed {
    let feed = Feed::new("e".to_owned(), Timestamp::UNIX_EPOCH);
    feed.publish(some(2), None);
    feed
}

#[test]
fn a_viewer_gets_what_it_does_not_have_and_each_message_once() {
    let feed = feed();
    let (_, version) = feed.now().expect("published");
    assert_eq!((version.as_str(), feed.number(&version)), ("e-0", Some(0)));
    assert_eq!(feed.after(Some(0)), None);
    feed.publish(some(3), None);
    feed.publish(some(3), None);
    feed.publish(some(2), None);
    let both = text(feed.after(Some(0)));
    assert!(
        both.starts_with("id: e-1\nevent: changes\ndata: [[")
            && both.contains("\n\nid: e-2\nevent: changes\n")
    );
    assert!(text(feed.after(Some(1))).starts_with("id: e-2\n"));
    assert_eq!(feed.after(Some(2)), None);
}

#[test]
fn a_viewer_that_is_behind_or_unknown_gets_the_whole_page() {
    let feed = feed();
    for number in 0..=MESSAGES_MAX {
        feed.publish(some(2 + number % 2), None);
        feed.publish(some(3 - number % 2), None);
    }
    for last in [None, Some(0), Some(1_000_000)] {
        let message = text(feed.after(last));
        assert!(message.contains("\nevent: snapshot\ndata: \"<h1"), "{last:?}");
        assert_eq!(message.lines().count(), 4);
    }
    assert_eq!(
        [feed.number("other-1"), feed.number("e"), feed.number("e-x")],
        [None, None, None]
    );
}

#[test]
fn other_columns_are_sent_as_a_whole_page() {
    let feed = feed();
    let mut objects = objects();
    objects.in_memory_clusters.clear();
    feed.publish(Arc::new(objects), None);
    assert!(text(feed.after(Some(0))).contains("event: snapshot"));
}

#[test]
fn the_messages_that_are_kept_have_a_bound() {
    let feed = feed();
    for number in 0..1000 {
        feed.publish(some(2 + number % 2), None);
    }
    let state = feed.state.lock();
    assert!(state.messages.len() <= MESSAGES_MAX && state.bytes <= BYTES_MAX);
    let bytes: usize = state.messages.iter().map(|(_, message)| message.len()).sum();
    assert_eq!(state.bytes, bytes);
}
