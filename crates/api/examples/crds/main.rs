//! Writes the `CustomResourceDefinition`s as YAML into the folder that is its only argument.

mod files;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name the folder to write into")?;
    std::fs::create_dir_all(&folder)?;
    for (name, text) in files::files()? {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
