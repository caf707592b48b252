//! Where the operator's program lies, for the programs that start it.

use std::{env, path::PathBuf};

use anyhow::{Context, Result, ensure};

/// Variable that names the operator.
const MANAGER: &str = "KARPENTER_CAPI_MANAGER_BIN";

/// Named by the variable, else the one that lies beside this program. `chore` is the command that builds it, such as
/// `cargo xtask demo`, and stands in the error where there is none.
pub fn operator_binary(chore: &str) -> Result<PathBuf> {
    let path = match env::var_os(MANAGER) {
        Some(path) => PathBuf::from(path),
        None => env::current_exe()
            .context("asking for the path of this program")?
            .with_file_name("karpenter-capi-manager"),
    };
    ensure!(
        path.is_file(),
        "there is no operator at {}: run `{chore}`, which builds it, or name it in {MANAGER}",
        path.display()
    );
    Ok(path)
}
