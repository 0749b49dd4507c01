//! What the fuzz targets share: valid inputs to start from.

use std::path::Path;
use std::{env, fs};

/// Writes the seeds into the corpus folder, the first argument of libFuzzer that is no option.
///
/// # Panics
/// If the folder cannot be written to.
pub fn write_seeds(seeds: &[Vec<u8>]) {
    let Some(folder) = env::args()
        .skip(1)
        .find(|argument| Path::new(argument).is_dir())
    else {
        return; // a single input is being run again
    };
    for (number, seed) in seeds.iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{number}"));
        fs::write(file, seed).expect("the corpus folder can be written to");
    }
}
