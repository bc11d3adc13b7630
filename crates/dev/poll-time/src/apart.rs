use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::spawn_blocking,
};

/// Does synchronous work whose size a user chooses on a thread of its own, so that the system shares the processors between it
/// and the tasks of others. The caller bounds how much of it is done at a time. The work continues when its caller does not.
///
/// # Panics
/// When the work does.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if !has_other_threads() {
        return work();
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Text of a user that is read on the thread of the caller. A usual document has less than half of it.
const BYTES_AT_ONCE_MAX: usize = 64 * 1024;

/// Reads so many bytes of a user on a thread of its own if that takes long, and else on that of the caller.
///
/// # Panics
/// When the work does.
pub async fn apart_if_large<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes > BYTES_AT_ONCE_MAX {
        apart(work).await
    } else {
        work()
    }
}

/// Whether the work of this runtime is done on several threads. A runtime of one thread has no others to spare, and simulated
/// time does not wait for one: nothing there may wait for what other threads of the process hold.
#[must_use]
pub fn has_other_threads() -> bool {
    Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_thread_of_tasks_does_not_do_it() {
        let worked = async { (thread::current().id(), apart(|| thread::current().id()).await) };
        let (task, work) = tokio::spawn(worked).await.expect("no panic");
        assert_ne!(task, work);
    }
}
