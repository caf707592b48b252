//! Control planes that several tests of one process use.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use tokio::sync::OnceCell;

use super::{ControlPlane, Options};

static PLANES: Mutex<BTreeMap<&'static str, Arc<OnceCell<ControlPlane>>>> = Mutex::new(BTreeMap::new());

/// A test's hold on a shared control plane; files are kept when the test panics.
///
/// Statics are never dropped: the watchdog ends the plane when the process ends.
#[derive(Debug)]
pub struct Shared {
    cell: Arc<OnceCell<ControlPlane>>,
    plane: &'static str,
}

impl Deref for Shared {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.cell.get().unwrap_or_else(|| unreachable!("{} was started before it was handed out", self.plane))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(plane) = self.cell.get()
        {
            plane.keep_files();
            eprintln!(
                "files of the shared control plane {} are kept in {}",
                self.plane,
                plane.state_dir().display()
            );
        }
    }
}

pub(super) async fn shared(name: &'static str, options: impl FnOnce() -> Options) -> Result<Shared> {
    let cell = {
        let mut planes = PLANES.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(planes.entry(name).or_default())
    };
    cell.get_or_try_init(|| ControlPlane::start(options())).await?;
    Ok(Shared { cell, plane: name })
}
