use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// A thread of its own for what must not wait for anything else: the lease, the fence and the probes. However busy the
/// other threads are, the system gives this one its share.
pub struct Urgent {
    runtime: Option<Runtime>,
}

impl Urgent {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("urgent")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
        })
    }

    /// Where to spawn what must not wait.
    ///
    /// # Panics
    /// Never: the runtime stops only with this value.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.runtime
            .as_ref()
            .expect("it stops only with this value")
            .handle()
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Its tasks have ended, or are those of a process that ends.
            runtime.shutdown_background();
        }
    }
}
